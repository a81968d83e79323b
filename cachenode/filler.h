#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "cachenode/block_history.h"
#include "cachenode/block_peers.h"
#include "cachenode/cold_block.h"
#include "cachenode/fill.h"
#include "cachenode/fill_slots.h"
#include "cachenode/full_links.h"
#include "cachenode/kept_listings.h"
#include "cachenode/node_counters.h"
#include "cachenode/origin.h"
#include "cachenode/recent_blocks.h"
#include "cachenode/s3_brakes.h"
#include "cachenode/spare_room.h"
#include "cachenode/store/block_store.h"
#include "cachenode/unserved_links.h"
#include "common/base/buffer.h"
#include "common/base/executors.h"
#include "common/base/notifier.h"
#include "common/base/single_flight.h"
#include "common/model/link.h"

namespace forebay {

struct FillerOptions {
  /// A fill gives up after this; its readers get S3's reason as kTimeout, so that they do not make
  /// another node ask S3 again. kUnavailable is only said by a node that is stopping.
  Duration s3_timeout = kS3Patience;
  /// For fills in flight, the answers made of them, and `recent_bytes` of it; half of the rest for
  /// fills in the background.
  std::uint64_t memory_limit = 1ULL << 30;
  /// Of blocks that were filled a moment ago and not kept; 0 = a quarter of `memory_limit`.
  std::uint64_t recent_bytes = 0;
  /// Fills in flight from S3, and as many from other nodes. Twice the connections to S3, so that
  /// the next request is there when a connection becomes free.
  std::size_t max_fills = 512;
  /// Between two looks whether S3 serves this node again.
  Duration look_again = std::chrono::seconds(5);
};

/// Runs the fills of a node: one at a time for each block, however many ask; each in a coroutine of
/// its own that no reader can end, and asks the other nodes before S3; and, where S3 does not serve
/// this node, has them ask it. A block is in the store
/// before its fill leaves, so that no moment is left for a second GET. Thread-safe.
class Filler {
 public:
  Filler(FillerOptions options, IoPool& pool, BlockStore& store, BlockPeers& peers, Origin& origin,
         NodeCounters& counters, BlockHistory& history);

  struct Seat {
    std::shared_ptr<Fill>
        fill;            ///< Null: the block has come into the store or `recent`; look there.
    bool leads = false;  ///< This call began it.
  };
  /// Joins the running fill of the block, or begins one; `unless_kept`: not when the block is in
  /// the store or in `recent` by now. A fill is as urgent as the most urgent of those who joined
  /// it; who joins in the background follows with Unwish. A fill in the background costs no GET
  /// while the store has no room for its link, a spare one while nothing is free: it ends with
  /// kOverloaded, landed as kNoRoom. One that may only come from other nodes costs none at all: it
  /// lands as kNotFound when they have it not.
  Seat JoinOrStart(const ColdBlock& cold, bool unless_kept);
  /// Of a seat that was taken in the background: its batch does not want the block any more,
  /// or has it. A fill that waits for S3 in the background ends when no batch wants it.
  void Unwish(const Uuid& link, const std::shared_ptr<Fill>& fill);
  /// True when another fill would begin at once: what nobody waits for yet should not stand in line
  /// before what somebody waits for.
  bool HasFreeSlot(const Uuid& link) { return slots_.HasRoomInBackground() && brakes_.Open(link); }
  /// The running fill, which the caller waits for, or null: for those who must not begin one.
  std::shared_ptr<Fill> Running(const Uuid& link, const BlockId& block);

  /// Called with each block that the store has taken; `from_peer`: another node had it. Set once,
  /// before anything is filled. Called on any thread, and must not wait.
  using OnKept = std::function<void(const ColdBlock& cold, bool from_peer)>;
  void NotifyKept(OnKept on_kept) { on_kept_ = std::move(on_kept); }
  /// Second GETs of blocks whose readers began far behind their front, since the start.
  std::uint64_t second_gets() const { return second_gets_.load(std::memory_order_relaxed); }
  /// Blocks that another node has asked S3 for in this one's place, since the start.
  std::uint64_t stand_in_fills() const { return stand_in_fills_.load(std::memory_order_relaxed); }
  /// Of further copies, since the start.
  std::uint64_t copied_bytes() const { return copied_bytes_.load(std::memory_order_relaxed); }

  /// The links that S3 does not serve this node, for reports.
  const UnservedLinks& unserved() const { return unserved_; }
  /// S3 does not serve this node what the link has, or has just refused it.
  bool IsUnserved(const Uuid& link) const;
  /// A block that this node should fetch is left to another one that has a reader for it. If that
  /// is since S3 does not serve this node, what others keep is looked for there from now on.
  void NoteLeftToOthers(const Uuid& link) {
    if (unserved_.Holds(link)) peers_.NoteRefused();
  }
  /// Whether another node may ask S3 in this one's place.
  bool HasStandIns(const ColdBlock& cold) const { return peers_.MayStandIn(cold); }

  /// Who asks for blocks of the link in the background asks anew: what was refused for want of room
  /// before is tried once more.
  void ForgetRefusals(const Uuid& link);

  RecentBlocks& recent() { return recent_; }
  S3Brakes& brakes() { return brakes_; }
  std::size_t in_flight() const { return flights_.size(); }
  std::size_t limit_in_background() const { return slots_.limit_in_background(); }
  std::size_t memory_in_use() const { return memory_.in_use(); }

  /// Waits until no fill runs; false when some still do at `deadline`. Begins none after it. The
  /// object store's calls in flight have been ended before. Not from a thread of the pool.
  bool Stop(Deadline deadline);

 private:
  Task<void> Run(ColdBlock cold, std::shared_ptr<Fill> fill);
  Task<Result<PeerFind>> Fetch(const ColdBlock& cold, Fill& fill);
  Task<Result<PeerFind>> FetchFromPeers(const ColdBlock& cold, Fill& fill, Deadline deadline);
  Task<Result<PeerFind>> FetchInPeerSlot(const ColdBlock& cold, Fill& fill, Deadline deadline);
  Task<Status> FetchFromS3(const ColdBlock& cold, Fill& fill, Deadline deadline);
  Task<void> DropOldListings(const ColdBlock& cold);
  Task<Status> FetchInTurn(const ColdBlock& cold, Fill& fill, Deadline deadline);
  Task<Status> FetchInSlot(const ColdBlock& cold, Fill& fill, Deadline deadline);
  /// What has come of a block for which S3 is not asked by this node.
  struct Detour {
    std::optional<Status> verdict = std::nullopt;  ///< It is in the fill, or S3 has it no more.
    bool has_failed = false;                       ///< An attempt of this node's.
  };
  Task<Status> FetchParts(const ColdBlock& cold, Fill& fill, Detour& detour, Deadline deadline);
  Task<Status> FetchPart(const ColdBlock& cold, Fill& fill, BlockRange part, Detour& detour,
                         Deadline deadline);
  // In filler_stand_ins.cc.
  Task<Status> FetchFromAnywhere(const ColdBlock& cold, Fill& fill, Deadline deadline);
  Task<void> AskStandIns(const ColdBlock* cold, Fill* fill, Detour* detour, Deadline deadline);
  /// Of a GET between two attempts.
  struct Pause {
    const ColdBlock* cold;
    Fill* fill;
    BlockRange part;
    Detour* detour;
    Deadline deadline;
    TimePoint began;  ///< The GET.
  };
  Task<bool> InsteadOfPause(Pause pause, RetryReason why);
  static bool IsForOthersAlone(const ColdBlock& cold, const Fill& fill);
  void WatchS3(const ColdBlock& cold);
  Task<void> LookUntilServed(std::shared_ptr<const LinkSpec> link);
  void NoteRefused(const ColdBlock& cold, const std::string& why);
  void NoteServed(const Uuid& link);
  bool MayHaveRoom(const ColdBlock& cold, Fill& fill);
  bool IsRefusedRoom(const ColdBlock& cold, Fill& fill);
  static bool IsAbandoned(const ColdBlock& cold, Fill& fill);
  Task<FillOutcome> Keep(const ColdBlock& cold, std::shared_ptr<Fill> fill, bool copy);
  FullLinks& FullFor(Room room);
  void WarnNotKept(const BlockId& block, const Error& why);
  void WarnNotFilled(const ColdBlock& cold, const Error& why);

  const FillerOptions options_;
  IoPool& pool_;
  BlockStore& store_;
  BlockPeers& peers_;
  Origin& origin_;
  NodeCounters& counters_;
  BlockHistory& history_;
  S3Brakes brakes_;
  FillSlots slots_;
  FillSlots peer_slots_;  // others' caches are not to wait for S3
  MemoryBudget memory_;
  MemoryBudget background_memory_;
  // What waits for other nodes may not take the memory that their questions to this one wait for.
  MemoryBudget peer_memory_;
  FullLinks full_;
  FullLinks full_for_spare_;   // which may evict nothing
  FullLinks full_for_copies_;  // which may evict what is idle
  SpareRoom spare_room_;
  RecentBlocks recent_;
  KeptListings listings_;
  SingleFlight<BlockId, Fill> flights_;
  UnservedLinks unserved_;
  Notifier stopped_;
  std::atomic<std::size_t> running_{0};
  std::atomic<Duration> warn_at_{};
  std::atomic<Duration> warn_refused_at_{};
  std::atomic<bool> stopping_{false};
  std::atomic<std::uint64_t> copied_bytes_{0};
  std::atomic<std::uint64_t> second_gets_{0};
  std::atomic<std::uint64_t> stand_in_fills_{0};
  OnKept on_kept_;
};

}  // namespace forebay
