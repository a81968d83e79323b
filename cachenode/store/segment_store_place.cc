#include <memory>

#include "cachenode/store/read_pin.h"
#include "cachenode/store/segment_store.h"

// Where blocks lie, for mounts of this machine that read the segments themselves
// (docs/adr/0016-local-reads-by-descriptor.md).
namespace forebay {
namespace {

std::uint64_t NameOf(const BlockPlace& place) {
  return std::uint64_t{place.disk} << 32 | place.segment;
}

}  // namespace

// Only what is open already: opening a file may wait for its disk.
std::optional<CellPlace> SegmentStore::Place(const BlockId& block, BlockRange range) {
  if (!CheckBlock(block) || range.begin >= range.end || range.end > block.length)
    return std::nullopt;
  if (parts_.crashes.IsSetAside(block)) return std::nullopt;
  const std::optional<BlockIndex::Found> found = parts_.index.Acquire(block, parts_.hour());
  if (!found) return std::nullopt;
  Disk& disk = *disks_[found->place.disk];
  const ReadPin pin(parts_.index, disk, *found);  // while its header is read
  const auto file = parts_.files.Find(found->place.disk, found->place.segment);
  if (!file || disk.state() == DiskState::kQuarantined) return std::nullopt;
  file->link->Touch(parts_.now());
  const HandledBlock handled(block);
  RecordReader reader(disk.Expect(*found, file->link->id), range);
  // Whatever is wrong, a read finds it again, and deals with it.
  if (reader.Find(file->fd.get()) != RecordReader::Outcome::kOk) return std::nullopt;
  parts_.counters.places.fetch_add(1, std::memory_order_relaxed);
  return CellPlace{.segment = NameOf(found->place),
                   .position = reader.position(),
                   .checksums = reader.TakeChecksums(),
                   .link = file->link->id};
}

// Who reads on from a disk that is out of service would keep it from being unmounted.
bool SegmentStore::Use(const BlockId& block, std::uint64_t segment) {
  parts_.counters.uses.fetch_add(1, std::memory_order_relaxed);
  const std::optional<BlockIndex::Found> found = parts_.index.Acquire(block, parts_.hour());
  if (!found) return false;
  Disk& disk = *disks_[found->place.disk];
  const ReadPin pin(parts_.index, disk, *found);
  const auto file = parts_.files.Find(found->place.disk, found->place.segment);
  if (file) file->link->Touch(parts_.now());
  return NameOf(found->place) == segment && disk.state() != DiskState::kQuarantined;
}

std::optional<SegmentHandle> SegmentStore::FileOf(const BlockId& block) {
  const std::optional<BlockPlace> place = parts_.index.Find(block);
  if (!place || disks_[place->disk]->state() == DiskState::kQuarantined) return std::nullopt;
  auto file = parts_.files.Find(place->disk, place->segment);
  if (!file) return std::nullopt;
  const int* const descriptor = file->fd.address();
  const Uuid link = file->link->id;
  return SegmentHandle{.segment = NameOf(*place),
                       .descriptor = std::shared_ptr<const int>(std::move(file), descriptor),
                       .link = link};
}

}  // namespace forebay
