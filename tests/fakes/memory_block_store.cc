#include "tests/fakes/memory_block_store.h"

#include <algorithm>
#include <boost/asio/post.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <utility>

namespace forebay::fakes {
namespace {

Task<void> Yield() {
  const asio::any_io_executor executor = co_await asio::this_coro::executor;
  co_await asio::post(executor, asio::use_awaitable);
}

}  // namespace

void MemoryBlockStore::RefuseAdmissions(std::optional<Error> why) {
  const std::scoped_lock lock(mutex_);
  no_admissions_ = std::move(why);
}

void MemoryBlockStore::RefuseReads(std::optional<Error> why) {
  const std::scoped_lock lock(mutex_);
  no_reads_ = std::move(why);
}

void MemoryBlockStore::NoteRead(const Uuid& /*link*/, const BlockId& block, std::string_view job) {
  const std::scoped_lock lock(mutex_);
  noted_reads_.emplace_back(job, block);
}

std::vector<std::pair<std::string, BlockId>> MemoryBlockStore::noted_reads() const {
  const std::scoped_lock lock(mutex_);
  return noted_reads_;
}

Result<Cells> MemoryBlockStore::Find(const BlockId& block, BlockRange range) const {
  const std::scoped_lock lock(mutex_);
  if (no_reads_) return Fail(*no_reads_);
  const auto found = blocks_.find(block);
  if (found == blocks_.end()) return Fail(Code::kNotFound, "not here");
  const BlockRange cells = EnclosingCells(range, block.length);
  auto copy = std::make_shared<Buffer>(cells.size());
  std::copy_n(found->second.bytes.begin() + cells.begin, cells.size(), copy->data());
  Cells answer;
  answer.begin = cells.begin;
  answer.bytes = Slice::Of(std::move(copy));
  const auto first = found->second.checksums.begin() + cells.begin / kCellBytes;
  answer.checksums.assign(first, first + (cells.size() + kCellBytes - 1) / kCellBytes);
  answer.tier = Tier::kLocal;
  return answer;
}

Task<Result<Cells>> MemoryBlockStore::Read(BlockId block, BlockRange range) {
  co_await Yield();
  Result<Cells> cells = Find(block, range);
  co_return cells;
}

Task<Status> MemoryBlockStore::Verify(BlockId block) {
  if (!Contains(block)) co_return Fail(Code::kNotFound, "not here");
  co_return Status();
}

Task<Status> MemoryBlockStore::Admit(Uuid link, BlockId block, Slice data,
                                     std::vector<std::uint64_t> checksums, std::string /*path*/,
                                     Room room) {
  co_await Yield();
  const std::scoped_lock lock(mutex_);
  if (!Fits(block.length)) {
    if (room == Room::kFreeOnly) co_return Fail(Code::kOverloaded, "nothing is free");
    counters_.evicted_blocks.fetch_add(1);
  }
  if (no_admissions_) {
    counters_.refused_blocks.fetch_add(1);
    co_return Fail(*no_admissions_);
  }
  counters_.admitted_blocks.fetch_add(1);
  counters_.admitted_bytes.fetch_add(block.length);
  std::vector<std::byte> bytes(data.bytes.begin(), data.bytes.end());
  blocks_[block] = Kept{link, std::move(bytes), std::move(checksums)};
  co_return Status();
}

bool MemoryBlockStore::Fits(std::uint64_t bytes) const {
  std::uint64_t used = 0;
  for (const auto& [block, kept] : blocks_) used += block.length;
  return used <= room_ && bytes <= room_ - used;
}

bool MemoryBlockStore::HasFreeRoom(const Uuid& /*link*/, std::uint64_t bytes) const {
  const std::scoped_lock lock(mutex_);
  return Fits(bytes);
}

Task<Result<Scrubbed>> MemoryBlockStore::Scrub(std::size_t /*disk*/, std::uint64_t /*bytes*/) {
  co_return Scrubbed{.pass_ended = true};
}

Task<Status> MemoryBlockStore::Tend(std::size_t /*disk*/, TimePoint /*now*/) { co_return Status(); }

Task<Status> MemoryBlockStore::Resize(std::size_t /*disk*/, std::uint64_t /*capacity_bytes*/) {
  co_return Status();
}

Task<Result<Evicted>> MemoryBlockStore::Shrink(std::size_t /*disk*/, std::size_t /*blocks*/) {
  co_return Evicted();
}

bool MemoryBlockStore::Contains(const BlockId& block) const {
  const std::scoped_lock lock(mutex_);
  return blocks_.contains(block);
}

BlockHeat MemoryBlockStore::HeatOf(const Uuid& /*link*/, const BlockId& block) const {
  if (!Contains(block)) return BlockHeat::kCold;
  const std::scoped_lock lock(mutex_);
  const bool read =
      std::ranges::any_of(noted_reads_, [&](const auto& noted) { return noted.second == block; });
  return read ? BlockHeat::kWanted : BlockHeat::kUsedToday;
}

Task<Result<Evicted>> MemoryBlockStore::TrimToQuotas() { co_return Evicted(); }

Task<Status> MemoryBlockStore::TakePins(PinStep step) {
  const std::scoped_lock lock(mutex_);
  if (step.end) pins_versions_[step.link] = step.version;
  co_return Status();
}

void MemoryBlockStore::PinAll(std::function<void(const BlockId&)> on_release) {
  const std::scoped_lock lock(mutex_);
  on_release_ = std::move(on_release);
}

bool MemoryBlockStore::IsPinned(const BlockId& block) const {
  const std::scoped_lock lock(mutex_);
  return on_release_ && blocks_.contains(block);
}

Task<Result<PinnedPart>> MemoryBlockStore::PinnedAt(Uuid link, SegmentPlace /*from*/,
                                                    std::chrono::hours /*unused_for*/) {
  co_await Yield();
  const std::scoped_lock lock(mutex_);
  PinnedPart part;
  for (const auto& [block, kept] : blocks_) {
    if (on_release_ && kept.link == link) part.blocks.push_back(block);
  }
  // The same in each run.
  std::ranges::sort(part.blocks, {}, &BlockId::ToString);
  co_return part;
}

Task<Result<Evicted>> MemoryBlockStore::Release(std::vector<BlockId> blocks,
                                                std::chrono::hours /*unused_for*/,
                                                std::function<bool(const BlockId&)> keep) {
  co_await Yield();
  Evicted released;
  for (const BlockId& block : blocks) {
    std::unique_lock lock(mutex_);
    auto leaving = blocks_.extract(block);
    const auto on_release = on_release_;
    lock.unlock();
    if (!leaving) continue;
    if (keep(block)) {
      lock.lock();
      blocks_.insert(std::move(leaving));
      continue;
    }
    if (on_release) on_release(block);
    ++released.blocks;
    released.bytes += block.length;
  }
  counters_.released_bytes.fetch_add(released.bytes);
  co_return released;
}

std::unordered_map<Uuid, std::uint64_t> MemoryBlockStore::PinsVersions() const {
  const std::scoped_lock lock(mutex_);
  return pins_versions_;
}

Task<Result<Evicted>> MemoryBlockStore::Evict(std::vector<BlockId> blocks, EvictFilter filter) {
  co_await Yield();
  const std::scoped_lock lock(mutex_);
  Evicted evicted;
  for (const BlockId& block : blocks) {
    if (!blocks_.contains(block)) continue;
    if (!filter.dry_run) blocks_.erase(block);
    ++evicted.blocks;
    evicted.bytes += block.length;
  }
  co_return evicted;
}

Task<Result<Evicted>> MemoryBlockStore::EvictLink(Uuid link, EvictFilter filter) {
  co_await Yield();
  const std::scoped_lock lock(mutex_);
  Evicted evicted;
  std::erase_if(blocks_, [&](const auto& entry) {
    if (entry.second.link != link) return false;
    ++evicted.blocks;
    evicted.bytes += entry.first.length;
    return !filter.dry_run;
  });
  co_return evicted;
}

std::unordered_map<Uuid, LinkUsage> MemoryBlockStore::UsageByLink() const {
  const std::scoped_lock lock(mutex_);
  std::unordered_map<Uuid, LinkUsage> usage;
  for (const auto& [block, kept] : blocks_) {
    ++usage[kept.link].blocks;
    usage[kept.link].bytes += block.length;
  }
  return usage;
}

std::vector<DiskUsage> MemoryBlockStore::Disks() const {
  DiskUsage disk;
  disk.path = "/memory";
  disk.capacity_bytes = 1 << 30;
  disk.usable_bytes = disk.capacity_bytes;
  return {disk};
}

std::uint64_t MemoryBlockStore::BlockCount() const {
  const std::scoped_lock lock(mutex_);
  return blocks_.size();
}

}  // namespace forebay::fakes
