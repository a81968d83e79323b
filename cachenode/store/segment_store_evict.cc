#include <algorithm>
#include <boost/asio/this_coro.hpp>
#include <chrono>
#include <string>
#include <unordered_map>
#include <utility>

#include "cachenode/store/segment_store.h"

// How the store frees what it is told to free, and what is above a quota.
namespace forebay {
namespace {

using std::chrono::seconds;

constexpr seconds kReaderPatience{30};  ///< For the readers of an evicted block.
constexpr seconds kLookAgainEvery{1};
constexpr std::uint64_t kTrimAtOnce = 64ULL << 20;  ///< Bytes, before the quota is looked at again.

}  // namespace

Result<SegmentStore::Removed> SegmentStore::RemoveFrom(
    Disk& disk, const std::vector<BlockIndex::Found>& leaving, BlockLoss loss) {
  Result<Disk::Removal> removed = disk.Remove(leaving, loss);
  if (!removed) return Fail(std::move(removed.error()));
  return Removed{removed->evicted, std::move(removed->waiting)};
}

std::vector<LeavingBlocks> SegmentStore::ByDisk(
    const std::vector<BlockIndex::Found>& leaving) const {
  std::vector<std::vector<BlockIndex::Found>> by_disk(disks_.size());
  for (const BlockIndex::Found& found : leaving) by_disk[found.place.disk].push_back(found);
  std::vector<LeavingBlocks> each;
  each.reserve(by_disk.size());
  for (std::size_t i = 0; i < by_disk.size(); ++i) {
    if (!by_disk[i].empty()) each.emplace_back(*disks_[i], std::move(by_disk[i]));
  }
  return each;
}

/// Each on its disk; one that fails keeps its blocks, and the others' are removed all the same.
Task<Result<SegmentStore::Removed>> SegmentStore::RemoveChosen(std::vector<LeavingBlocks> leaving,
                                                               BlockLoss loss) {
  Removed removed;
  std::optional<Error> failed;
  for (LeavingBlocks& blocks : leaving) {
    Disk& disk = blocks.disk();
    auto work = [this, &disk, loss, blocks = std::move(blocks)]() mutable {
      return RemoveFrom(disk, blocks.Take(), loss);
    };
    Result<Removed> one = co_await disk.work().Run(std::move(work));
    if (one) {
      removed += *one;
    } else {
      failed = std::move(one.error());
    }
  }
  if (failed) co_return Fail(std::move(*failed));
  co_return removed;
}

BlockIndex::Spare SegmentStore::SpareOf(const EvictFilter& filter) const {
  if (filter.unused_for.count() == 0) return {};
  const Hour now = parts_.hour();
  const auto hours = static_cast<std::uint64_t>(filter.unused_for.count());
  // What was used within the hour `now - hours` was perhaps used less than `hours` ago.
  return {.used_since = hours > now ? 0 : now - static_cast<Hour>(hours)};
}

void SegmentStore::Count(const BlockIndex::Removal& removal, bool dry_run,
                         std::vector<BlockIndex::Found>& taken, Evicted& sum) {
  if (removal.pinned) {
    ++sum.pinned_blocks;
    sum.pinned_bytes += RecordDiskBytes(removal.length);
  } else if (removal.found && dry_run) {
    ++sum.blocks;
    sum.bytes += RecordDiskBytes(removal.found->block.length);
  } else if (removal.found) {
    taken.push_back(*removal.found);
  }
}

Result<SegmentStore::Chosen> SegmentStore::ChooseBlocks(const std::vector<BlockId>& blocks,
                                                        const EvictFilter& filter) {
  const BlockIndex::Spare spare = SpareOf(filter);
  std::vector<BlockIndex::Found> taken;
  Chosen chosen;
  for (const BlockId& block : blocks) {
    if (!filter.dry_run) parts_.crashes.Forget(block);
    const std::optional<BlockPlace> place = parts_.index.Find(block);
    if (!place) continue;
    const auto link = disks_[place->disk]->LinkOf(place->segment);
    BlockIndex::Removal removal{.pinned = true, .length = block.length};
    if (!link || !link->pinned.load(std::memory_order_relaxed)) {
      removal = filter.dry_run ? parts_.index.LookAt(block, spare)
                               : parts_.index.BeginRemove(block, spare);
    }
    Count(removal, filter.dry_run, taken, chosen.counted);
  }
  chosen.leaving = ByDisk(taken);
  return chosen;
}

Result<SegmentStore::Removed> SegmentStore::RemoveSegment(std::size_t disk, std::uint32_t segment,
                                                          const EvictFilter& filter) {
  const BlockIndex::Spare spare = SpareOf(filter);
  const auto number = static_cast<std::uint8_t>(disk);
  Removed all;
  const std::vector<BlockHandle> blocks = disks_[disk]->BlocksIn(segment);
  for (std::size_t next = 0; next < blocks.size();) {
    std::vector<BlockIndex::Found> taken;
    Evicted counted;
    for (; next < blocks.size() && taken.size() < kRemoveAtOnce; ++next) {
      const BlockIndex::Removal removal =
          filter.dry_run ? parts_.index.LookAt(blocks[next], number, segment, spare)
                         : parts_.index.BeginRemove(blocks[next], number, segment, spare);
      Count(removal, filter.dry_run, taken, counted);
    }
    const Result<Removed> removed = RemoveFrom(*disks_[disk], taken, BlockLoss::kAsked);
    if (!removed) return removed;
    all += *removed;
    all.evicted += counted;
  }
  return all;
}

Task<Result<Evicted>> SegmentStore::Evict(std::vector<BlockId> blocks, EvictFilter filter) {
  Evicted total;
  Waiting waiting;
  for (std::size_t from = 0; from < blocks.size(); from += kRemoveAtOnce) {
    const std::size_t count = std::min(kRemoveAtOnce, blocks.size() - from);
    const auto first = blocks.begin() + static_cast<std::ptrdiff_t>(from);
    std::vector<BlockId> batch(first, first + static_cast<std::ptrdiff_t>(count));
    auto choose = [this, filter, batch = std::move(batch)] { return ChooseBlocks(batch, filter); };
    Result<Chosen> chosen = co_await offload_.Run(std::move(choose));
    if (!chosen) co_return Fail(std::move(chosen.error()));
    total += chosen->counted;
    const Result<Removed> removed =
        co_await RemoveChosen(std::move(chosen->leaving), BlockLoss::kAsked);
    if (!removed) co_return Fail(removed.error());
    total += removed->evicted;
    waiting.insert(waiting.end(), removed->waiting.begin(), removed->waiting.end());
  }
  const Status freed = co_await WaitUntilFreed(std::move(waiting));
  if (total.blocks > 0 && !filter.dry_run) parts_.NoteRoom();
  if (!freed) co_return Fail(freed.error());
  co_return total;
}

Task<Result<Evicted>> SegmentStore::EvictLink(Uuid link, EvictFilter filter) {
  Evicted total;
  Waiting waiting;
  const std::shared_ptr<LinkState> state = parts_.links.Get(link);
  if (state->pinned.load(std::memory_order_relaxed)) {
    total.pinned_blocks = state->blocks.load(std::memory_order_relaxed);
    total.pinned_bytes = state->bytes.load(std::memory_order_relaxed);
    co_return total;
  }
  for (std::size_t disk = 0; disk < disks_.size(); ++disk) {
    const std::vector<std::uint32_t> segments = disks_[disk]->SegmentsOf(link);
    for (const std::uint32_t segment : segments) {
      auto work = [this, disk, segment, filter] { return RemoveSegment(disk, segment, filter); };
      const Result<Removed> removed = co_await disks_[disk]->work().Run(std::move(work));
      if (!removed) co_return Fail(removed.error());
      total += removed->evicted;
      waiting.insert(waiting.end(), removed->waiting.begin(), removed->waiting.end());
    }
  }
  const Status freed = co_await WaitUntilFreed(std::move(waiting));
  if (total.blocks > 0 && !filter.dry_run) parts_.NoteRoom();
  if (!freed) co_return Fail(freed.error());
  co_return total;
}

bool SegmentStore::SetRules(const std::vector<LinkRule>& rules) {
  std::unordered_map<Uuid, const LinkRule*> by_link;
  for (const LinkRule& rule : rules) {
    by_link[rule.link] = &rule;
    (void)parts_.links.Get(rule.link);
  }
  bool surplus = false;
  bool room = false;
  for (const std::shared_ptr<LinkState>& link : parts_.links.All()) {
    const auto found = by_link.find(link->id);
    const LinkRule rule = found == by_link.end() ? LinkRule() : *found->second;
    std::vector<std::string> path_pins = rule.pins;
    const bool whole = std::erase(path_pins, std::string()) > 0;
    {
      const std::scoped_lock lock(link->mutex);
      link->path_pins = std::move(path_pins);
      room = link->max_bytes.exchange(rule.max_bytes) < rule.max_bytes || room;
    }
    room = (link->pinned.exchange(whole) && !whole) || room;
    // A higher one may take from others, and others from a lower one.
    room = link->priority.exchange(rule.priority) != rule.priority || room;
    surplus = surplus || link->Surplus() > 0;
  }
  if (room) parts_.NoteRoom();
  return surplus;
}

Task<Result<Evicted>> SegmentStore::TrimToQuotas() {
  Evicted total;
  const std::vector<std::shared_ptr<LinkState>> links = parts_.links.All();
  for (const std::shared_ptr<LinkState>& link : links) {
    if (link->pinned.load(std::memory_order_relaxed)) continue;
    for (const auto& each : disks_) {
      auto work = [this, disk = each.get(), link]() -> Result<Evicted> {
        Evicted sum;
        // Newcomers make room for themselves meanwhile, and another trim may be at it, too.
        std::uint64_t left = link->Surplus();
        while (const std::uint64_t step = std::min({left, link->Surplus(), kTrimAtOnce})) {
          const std::uint64_t gone = TrimOn(*disk, *link, step, sum);
          if (gone == 0) break;
          left -= std::min(left, gone);
        }
        return sum;
      };
      const Result<Evicted> trimmed = co_await each->work().Run(std::move(work));
      if (!trimmed) co_return Fail(trimmed.error());
      total += *trimmed;
    }
  }
  if (total.blocks > 0) parts_.NoteRoom();
  co_return total;
}

/// Frees the link's oldest blocks on the disk until `bytes` of it are gone; answers how many are.
std::uint64_t SegmentStore::TrimOn(Disk& disk, LinkState& link, std::uint64_t bytes, Evicted& sum) {
  std::uint64_t gone = 0;
  while (gone < bytes) {
    std::vector<BlockIndex::Found> leaving;
    for (std::uint64_t gain = 0; gone + gain < bytes && leaving.size() < kRemoveAtOnce;) {
      const auto oldest = disk.BeginRemoveOldest(link.id);
      if (!oldest) break;
      gain += oldest->block.length;
      leaving.push_back(*oldest);
    }
    const Result<Disk::Removal> removed =
        leaving.empty() ? Result<Disk::Removal>() : disk.Remove(leaving, BlockLoss::kOverQuota);
    if (leaving.empty() || !removed) break;
    for (const BlockIndex::Found& found : leaving) gone += found.block.length;
    sum += removed->evicted;
    parts_.counters.trimmed_bytes.fetch_add(removed->evicted.bytes, std::memory_order_relaxed);
    link.evicted_bytes.fetch_add(removed->evicted.bytes, std::memory_order_relaxed);
  }
  return gone;
}

Task<Status> SegmentStore::WaitUntilFreed(Waiting waiting) {
  const auto executor = co_await asio::this_coro::executor;
  const Deadline deadline = Deadline::After(kReaderPatience);
  while (!waiting.empty()) {
    Notifier::Ticket ticket = parts_.freed.Enlist(executor);
    std::erase_if(waiting,
                  [this](const BlockPlace& place) { return disks_[place.disk]->IsFreed(place); });
    if (waiting.empty()) break;
    if (deadline.Expired()) {
      co_return Fail(Code::kTimeout,
                     std::to_string(waiting.size()) + " evicted blocks are still being read");
    }
    const Deadline look_again = deadline.AtMost(kLookAgainEvery);
    co_await ticket.Wait(look_again);
    // A reader that was cancelled leaves its block to us.
    for (const auto& each : disks_)
      each->work().Post([disk = each.get()] { disk->FreeReleased(); });
  }
  co_return Status();
}

}  // namespace forebay
