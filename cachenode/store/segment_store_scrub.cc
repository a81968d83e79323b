#include <cerrno>
#include <utility>

#include "cachenode/store/segment_store.h"

// How the store reads its blocks from their disks without a reader, and compares them.
namespace forebay {

Task<Status> SegmentStore::Verify(BlockId block) {
  auto work = [this, block] { return VerifyNow(block); };
  Status verified = co_await offload_.Run(std::move(work));
  co_return verified;
}

Status SegmentStore::VerifyNow(const BlockId& block) {
  const std::optional<BlockIndex::Found> found = parts_.index.Acquire(block, 0);
  if (!found) return Fail(Absent(block).error());
  Disk& disk = *disks_[found->place.disk];
  Status verified = disk.state() == DiskState::kQuarantined ? Status(Fail(Absent(block).error()))
                                                            : VerifyOnDisk(*found);
  if (parts_.index.Release(found->handle)) {
    disk.Release(found->place, block.length);
    disk.FreeReleased();
  }
  return verified;
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
  RecordReader::Outcome outcome = ReadPastCache(found);
  if (outcome != RecordReader::Outcome::kOk) outcome = ReadPastCache(found);
  if (outcome == RecordReader::Outcome::kOk) return {};
  Drop(found, outcome);
  return Fail(Code::kCorrupt, "block " + found.block.ToString() + " did not match and is dropped");
}

Task<Result<Scrubbed>> SegmentStore::Scrub(std::size_t disk, std::uint64_t bytes) {
  auto work = [this, disk, bytes]() -> Result<Scrubbed> { return ScrubNow(*disks_[disk], bytes); };
  const Result<Scrubbed> scrubbed = co_await offload_.Run(std::move(work));
  co_return scrubbed;
}

Scrubbed SegmentStore::ScrubNow(Disk& disk, std::uint64_t bytes) {
  Scrubbed scrubbed;
  while (scrubbed.bytes < bytes && disk.state() != DiskState::kQuarantined) {
    const std::optional<BlockId> block = disk.NextToScrub();
    scrubbed.pass_ended = !block;
    if (!block) break;
    const Status verified = VerifyNow(*block);
    if (!verified && verified.error().code == Code::kNotFound) continue;  // evicted meanwhile
    ++(verified ? scrubbed.blocks : scrubbed.dropped);
    scrubbed.bytes += RecordDiskBytes(block->length);
  }
  disk.CountScrubbed(scrubbed.bytes);
  return scrubbed;
}

Task<Status> SegmentStore::Tend(std::size_t disk, TimePoint now) {
  auto work = [this, disk, now]() -> Status {
    disks_[disk]->Tend(now);
    return {};
  };
  Status tended = co_await offload_.Run(std::move(work));
  co_return tended;
}

}  // namespace forebay
