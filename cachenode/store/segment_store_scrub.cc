#include <cerrno>
#include <utility>

#include "cachenode/store/read_pin.h"
#include "cachenode/store/segment_store.h"

// How the store reads its blocks from their disks without a reader, and compares them.
namespace forebay {

Task<Status> SegmentStore::Verify(BlockId block) {
  const bool set_aside = parts_.crashes.IsSetAside(block);
  const auto found = set_aside ? std::nullopt : parts_.index.Acquire(block, 0);
  if (!found) co_return Fail(Absent(block).error());
  Disk& disk = *disks_[found->place.disk];
  auto pin = std::make_shared<ReadPin>(parts_.index, disk, *found);
  auto work = [this, record = *found, pin = std::move(pin)] { return VerifyNow(record); };
  Status verified = co_await disk.work().Run(std::move(work));
  co_return verified;
}

Status SegmentStore::VerifyNow(const BlockIndex::Found& found) {
  if (disks_[found.place.disk]->state() == DiskState::kQuarantined)
    return Fail(Absent(found.block).error());
  return VerifyOnDisk(found);
}

/// The record as the disk has it. Readers' pages stay in memory, and none come in that nobody read.
RecordReader::Outcome SegmentStore::ReadPastCache(const BlockIndex::Found& found) {
  Disk& disk = *disks_[found.place.disk];
  const auto file = disk.OpenSegment(found.place.segment);
  if (!file) return RecordReader::Outcome::kIoError;
  RecordReader reader(disk.Expect(found, file->link->id), BlockRange{0, found.block.length});
  if (const FileDescriptor direct = disk.OpenPastCache(found.place.segment))
    return reader.ReadDirect(direct.get());
  if (errno != EINVAL) return RecordReader::Outcome::kIoError;
  // This file system knows no direct reads.
  reader.DropFromMemory(file->fd.get());
  return reader.Read(file->fd.get(), false);
}

Status SegmentStore::VerifyOnDisk(const BlockIndex::Found& found) {
  const HandledBlock handled(found.block);
  RecordReader::Outcome outcome = ReadPastCache(found);
  if (outcome != RecordReader::Outcome::kOk) outcome = ReadPastCache(found);
  if (outcome == RecordReader::Outcome::kOk) return {};
  NoteFailure(found, outcome);
  Drop(found);
  return Fail(Code::kCorrupt, "block " + found.block.ToString() + " did not match and is dropped");
}

Task<Result<Scrubbed>> SegmentStore::Scrub(std::size_t disk, std::uint64_t bytes) {
  auto work = [this, disk, bytes]() -> Result<Scrubbed> { return ScrubNow(*disks_[disk], bytes); };
  const Result<Scrubbed> scrubbed = co_await disks_[disk]->work().Run(std::move(work));
  co_return scrubbed;
}

Scrubbed SegmentStore::ScrubNow(Disk& disk, std::uint64_t bytes) {
  Scrubbed scrubbed;
  while (scrubbed.bytes < bytes && disk.state() != DiskState::kQuarantined) {
    const std::optional<BlockId> block = disk.NextToScrub();
    scrubbed.pass_ended = !block;
    if (!block) break;
    const std::optional<BlockIndex::Found> found = parts_.index.Acquire(*block, 0);
    if (!found) continue;  // evicted meanwhile
    Status verified;
    {
      const ReadPin pin(parts_.index, disk, *found);
      verified = VerifyNow(*found);
    }
    if (!verified && verified.error().code == Code::kNotFound) continue;
    ++(verified ? scrubbed.blocks : scrubbed.dropped);
    scrubbed.bytes += RecordDiskBytes(block->length);
  }
  disk.CountScrubbed(scrubbed.bytes);
  return scrubbed;
}

Task<Status> SegmentStore::Tend(std::size_t number, TimePoint now) {
  Disk& disk = *disks_[number];
  auto look = [&disk]() -> Status {
    disk.CheckPlace();
    return {};
  };
  Status looked = co_await disk.work().Run(std::move(look));
  if (!looked || !disk.ProbeIsDue(now)) co_return looked;
  auto probe = [&disk] { return disk.Probe(); };
  const Status clean = co_await disk.work().Run(std::move(probe));
  if (!disk.Probed(clean.has_value(), now)) co_return Status();
  auto come_back = [this, &disk]() -> Status {
    disk.ReturnToService();
    parts_.NoteRoom();
    return {};
  };
  Status back = co_await disk.work().Run(std::move(come_back));
  co_return back;
}

}  // namespace forebay
