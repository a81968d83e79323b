#include <algorithm>
#include <boost/asio/this_coro.hpp>
#include <chrono>
#include <string>
#include <utility>

#include "cachenode/store/segment_store.h"

// How the store takes in a new block: one admission at a time for each block, on the first disk
// that has room or where room can be made.
namespace forebay {
namespace {

using std::chrono::seconds;

constexpr seconds kAdmissionPatience{60};  ///< For another admission of the same block.

}  // namespace

Task<Status> SegmentStore::Admit(Uuid link, BlockId block, Slice data,
                                 std::vector<std::uint64_t> checksums, std::string path,
                                 Room room) {
  if (Status checked = CheckBlock(block); !checked) co_return checked;
  if (data.bytes.size() != block.length || checksums.size() != block.cells()) {
    co_return Fail(Code::kInvalid, "block " + block.ToString() + " came with " +
                                       std::to_string(data.bytes.size()) + " bytes and " +
                                       std::to_string(checksums.size()) + " checksums");
  }
  if (parts_.crashes.IsSetAside(block)) {
    co_return Fail(Code::kInternal, "block " + block.ToString() +
                                        " is set aside: this program crashed on it " +
                                        std::to_string(CrashBook::kCrashes) + " times");
  }
  if (Contains(block)) co_return Status();
  const auto seat = admissions_.Join(block, [] { return std::make_shared<Flight>(); });
  const std::shared_ptr<Flight> flight = seat.flight;
  if (!seat.leads) {
    const auto executor = co_await asio::this_coro::executor;
    const Deadline deadline = Deadline::After(kAdmissionPatience);
    for (;;) {
      Notifier::Ticket ticket = flight->done.Enlist(executor);
      {
        const std::scoped_lock lock(flight->mutex);
        if (flight->landed) co_return *flight->landed;
      }
      const bool told = co_await ticket.Wait(deadline);
      if (!told) co_return Fail(Code::kTimeout, "another admission of the block takes too long");
    }
  }
  // Lands on every way out, so that nobody waits for a flight that was cancelled.
  struct Landing {
    SegmentStore& store;
    const BlockId block;
    const std::shared_ptr<Flight> flight;
    Status status = Fail(Code::kTimeout, "the admission was given up");
    ~Landing() {
      {
        const std::scoped_lock lock(flight->mutex);
        flight->landed = status;
      }
      store.admissions_.Leave(block, flight);
      flight->done.NotifyAll();
    }
  };
  Landing landing{*this, block, flight};
  const std::shared_ptr<LinkState> state = parts_.links.Get(link);
  const bool path_pinned = state->PathIsPinned(path);
  Newcomer newcomer = std::make_shared<const NewBlock>(
      state, block, std::move(data), std::move(checksums), std::move(path), path_pinned, room);
  landing.status = co_await AdmitNow(std::move(newcomer));
  if (!landing.status && landing.status.error().code == Code::kOverloaded) {
    parts_.counters.refused_blocks.fetch_add(1, std::memory_order_relaxed);
  }
  co_return landing.status;
}

Task<Status> SegmentStore::AdmitNow(Newcomer block) {
  const BlockId id = block->block;
  block->link->Touch(parts_.now());
  co_await ForgetOnLostDisk(id);
  if (Contains(id)) co_return Status();
  if (parts_.index.Occupied(id))
    co_return Fail(Code::kOverloaded, "block " + id.ToString() + " is just being evicted");
  Status status = co_await AdmitWithinQuota(block);
  if (!status) co_return status;
  parts_.counters.admitted_blocks.fetch_add(1, std::memory_order_relaxed);
  parts_.counters.admitted_bytes.fetch_add(id.length, std::memory_order_relaxed);
  // A pin that came while the block was written: its take-over has looked before, or looks later.
  if (block->path_pinned || !block->link->PathIsPinned(block->path)) co_return Status();
  std::vector<BlockId> pinned{id};
  status = co_await PinBlocks(std::move(pinned));
  co_return status;
}

Task<Status> SegmentStore::AdmitWithinQuota(Newcomer block) {
  LinkState& link = *block->link;
  const bool pinned = block->path_pinned || link.pinned.load(std::memory_order_relaxed);
  Hold hold = QuotaHold::Take(block->link, block->block.length);
  if (!hold && block->room == Room::kMayEvict) hold = co_await MakeRoomToHold(block, pinned);
  if (!hold)
    co_return Fail(Code::kOverloaded, "link " + link.id.ToString() + " is at its quota here");
  const struct Ending {
    QuotaHold& hold;
    ~Ending() { hold.End(); }
  } ending{*hold};
  Status status;
  Claim claim;
  for (int attempt = 0; attempt < kRoomAttempts; ++attempt) {
    status = co_await AdmitWithoutEvicting(block, hold, std::move(claim));
    if (status || status.error().code != Code::kOverloaded) break;
    if (block->room == Room::kFreeOnly) break;
    // That a pin drives others out holds for the first copy.
    const bool insists = pinned && block->room == Room::kMayEvict;
    const LinkUse use{link.id, link.LastUse(), insists,
                      link.priority.load(std::memory_order_relaxed)};
    claim = co_await MakeRoom(use, block);
    if (!claim) break;
  }
  co_return status;
}

/// The disks that take blocks, the one with the largest free share first.
std::vector<Disk*> SegmentStore::WritableDisks() const {
  std::vector<std::pair<double, Disk*>> by_share;
  for (const auto& disk : disks_) {
    if (disk->state() == DiskState::kOk) by_share.emplace_back(disk->FreeShare(), disk.get());
  }
  std::ranges::sort(by_share, std::ranges::greater(), &std::pair<double, Disk*>::first);
  std::vector<Disk*> disks;
  disks.reserve(by_share.size());
  for (const auto& [share, disk] : by_share) disks.push_back(disk);
  return disks;
}

Task<Status> SegmentStore::AdmitWithoutEvicting(Newcomer block, Hold hold, Claim claim) {
  Status refused = Fail(Code::kInternal, "no cache directory takes blocks any more");
  std::vector<Disk*> disks = WritableDisks();
  const auto is_claimed = [&claim](const Disk* disk) {
    return claim && claim->disk() == disk->number();
  };
  const auto first = std::ranges::find_if(disks, is_claimed);
  if (first != disks.end()) std::rotate(disks.begin(), first, first + 1);
  for (Disk* disk : disks) {
    const auto arrival = std::make_shared<Arrival>(block, hold, is_claimed(disk) ? claim : nullptr);
    disk->arrivals().Enter(arrival);
    auto work = [disk, arrival] { return disk->Admit(arrival); };
    Status stored = co_await disk->work().Run(std::move(work));
    if (stored) co_return stored;
    disk->arrivals().GiveUp(*arrival);
    // "Full" is worth another attempt, so it outweighs a disk that failed.
    if (refused.error().code != Code::kOverloaded) refused = std::move(stored);
  }
  co_return refused;
}

/// A block on a quarantined disk counts as absent; its entry makes way for the new one.
Task<void> SegmentStore::ForgetOnLostDisk(BlockId block) {
  const std::optional<BlockPlace> place = parts_.index.Find(block);
  if (!place || disks_[place->disk]->state() != DiskState::kQuarantined) co_return;
  const std::optional<BlockIndex::Found> leaving = parts_.index.BeginRemove(block);
  if (!leaving) co_return;
  Disk& disk = *disks_[leaving->place.disk];
  if (disk.Forget(*leaving)) co_return;
  LeavingBlocks blocks(disk, {*leaving});
  auto remove = [&disk, blocks = std::move(blocks)]() mutable {
    return disk.Remove(blocks.Take(), BlockLoss::kDamaged);
  };
  (void)co_await disk.work().Run(std::move(remove));
}

}  // namespace forebay
