#include <sys/uio.h>

#include <array>
#include <cstddef>
#include <memory>

#include "cachenode/store/read_pin.h"
#include "cachenode/store/segment_store.h"

// Where blocks lie, for mounts of this machine that read the segments themselves
// (docs/adr/0016-local-reads-by-descriptor.md).
namespace forebay {
namespace {

/// Of the header of a neighbour: room for the checksums of some cells. Larger blocks are worth a
/// question each.
constexpr std::uint32_t kSmallBlock = 1U << 20U;
constexpr std::size_t kSmallHeader = RecordHeaderBytes(kSmallBlock);
/// That are looked at in vain, for one question: 20 us.
constexpr std::size_t kMostEmptyPages = 64;

std::uint64_t NameOf(const BlockPlace& place) {
  return std::uint64_t{place.disk} << 32 | place.segment;
}

/// What lies at `position` of a segment; nothing: no header of a small block that is in memory.
std::optional<RecordHeader> HeaderAt(int file, const ExpectedRecord& like, std::uint64_t position) {
  std::array<std::byte, kSmallHeader> bytes{};
  iovec whole{bytes.data(), bytes.size()};
  if (ReadExactly(file, {&whole, 1}, position, true) != 0) return std::nullopt;
  Result<RecordHeader> header = DecodeRecordHeader(bytes, like.seed);
  const bool right = header && header->link == like.link && header->segment == like.segment &&
                     header->position == position;
  return right ? std::optional(std::move(*header)) : std::nullopt;
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

// What was evicted has left a hole, whose length nobody says: it is passed page by page.
std::vector<PlacedBlock> SegmentStore::PlacesBehind(const BlockId& block, std::size_t most) {
  std::vector<PlacedBlock> places;
  const std::optional<BlockPlace> own = parts_.index.Find(block);
  if (!own) return places;
  const Disk& disk = *disks_[own->disk];
  const auto file = parts_.files.Find(own->disk, own->segment);
  if (!file || disk.state() == DiskState::kQuarantined) return places;
  const ExpectedRecord like = disk.Expect({.block = block, .place = *own}, file->link->id);
  std::uint64_t position = own->position() + RecordDiskBytes(block.length);
  for (std::size_t empty = 0; empty < kMostEmptyPages && places.size() < most;) {
    std::optional<RecordHeader> header = HeaderAt(file->fd.get(), like, position);
    if (!header) {
      position += kRecordAlignment;
      ++empty;
      continue;
    }
    const BlockPlace there{own->disk, own->segment,
                           static_cast<std::uint32_t>(position / kRecordAlignment)};
    const std::uint32_t length = header->block.length;
    // A copy that was replaced, or is on its way out, is not told; nor is what crashes its readers.
    if (parts_.index.Find(header->block) == there && !parts_.crashes.IsSetAside(header->block)) {
      places.push_back({.block = header->block,
                        .position = position + RecordHeaderBytes(length),
                        .checksums = std::move(header->checksums)});
    }
    position += RecordDiskBytes(length);
  }
  return places;
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
