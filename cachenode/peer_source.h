#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "cachenode/block_peers.h"
#include "cachenode/cluster_view.h"
#include "common/base/executors.h"
#include "common/wire/client_pool.h"
#include "common/wire/handshake.h"
#include "common/wire/peer_health.h"
#include "common/wire/peer_probe.h"

namespace forebay {

namespace proto {
class PrefetchBlockReply;
}

struct PeerSourceOptions {
  std::string self;         ///< This node's id.
  std::string zone = {};    ///< This node's; "" = none.
  Credentials credentials;  ///< As a node.
  Duration silence = kPeerPatience;
  ProbePauses probes;
  /// Earlier owners gave the reader no answer for `silence` already: they get this long to show us
  /// that they are alive. A reader waits no longer for both of us than for one.
  Duration doubt = std::chrono::milliseconds(150);
  /// Nobody but this node may ask S3 then; those that might spare us the GET get this long.
  Duration look = std::chrono::milliseconds(500);
  /// An earlier owner whose process is gone while its machine answers is probably being restarted,
  /// and has the block: it gets this long, from when it was first missed, before S3 is asked. What
  /// the reader has waited already counts.
  Duration restart = std::chrono::seconds(2);
  /// A node that is to ask S3 in this one's place and still looks for the block itself may have
  /// waited for this node until a moment ago, and goes on to S3 now: before this the next one is
  /// not told, which would read the block a second time.
  Duration going_on = std::chrono::milliseconds(200);
  /// One that S3 does not serve either is not told again before this. In an outage every fill that
  /// waits has somebody to tell.
  Duration unwilling = std::chrono::seconds(2);
};

/// The cluster's other nodes as places that blocks come from, so that only the first live owner of
/// a block asks S3 for it:
///
///   1. the owners before this node in the ring, in order: whoever of them is alive is the filler.
///      What it neither has nor fetches it is told to fetch (kPrefetchBlock), and then joined. One
///      that is being restarted is waited for a moment;
///   2. the partition's former owners, newest first: it moved, they may still hold its blocks; and
///      nodes that are being drained;
///   3. the owners behind this node: those that keep a copy, where the link has replicas, and after
///      this node was away all of them, who filled in its place.
///
/// Where S3 does not serve this node, the other owners ask it in this one's place, one after the
/// other: each is told to (kPrefetchBlock with `stand_in`) and then joined.
///
/// Where nodes say zones, an owner of this node's zone that keeps a copy is asked before all of
/// these, in passing, and among 2 and 3 those of this zone come first. That changes nobody's part:
/// who fills is decided by 1 alone, and all are asked before S3 is.
///
/// All are asked with `peer_only`: answered from a store or by joining a GET that runs, never
/// forwarded. A node that is itself still looking says so (kOverloaded); the later owner asks
/// again, the earlier one goes on, so two never wait for each other. A silent node is skipped
/// until it answers a probe. Has an event loop of its own; any thread may call.
class PeerSource final : public BlockPeers {
 public:
  PeerSource(PeerSourceOptions options, ClusterView& cluster);
  ~PeerSource() override;  ///< Calls Stop().

  /// `was_away`: this is a restart, others may have filled what is ours.
  void Start(bool was_away);
  /// Questions under way end without a find, and so do all that come; Stop() also ends the event
  /// loop, when nobody waits for an answer any more. Idempotent.
  void Interrupt();
  void Stop();

  bool MayHave(const ColdBlock& cold) const override;
  Task<Result<PeerFind>> Get(ColdBlock cold, PeerSink& sink, Deadline deadline) override;
  bool MayStandIn(const ColdBlock& cold) const override;
  Task<Result<PeerFind>> GetByStandIn(ColdBlock cold, PeerSink& sink, Deadline deadline) override;
  void NoteRefused() override { NoteAway(); }

 private:
  struct Place {
    const NodeInfo* node;  ///< In the table that the question holds.
    bool ahead;            ///< Owns the block before this node does: is waited for, and may fill.
    bool in_passing = false;  ///< Owns it before this node, and is only asked what it has.
  };
  /// One cold block's question, for as long as it lasts.
  struct Question {
    ColdBlock cold;
    PeerSink* sink;
    Deadline deadline;
    TimePoint restarts_until;  ///< A restart of whoever it be is waited for until then.
  };

  std::vector<Place> PlacesFor(const ColdBlock& cold, const RingTable& table) const;
  void PutNearFirst(std::vector<Place>& places, const ColdBlock& cold,
                    const RingTable& table) const;
  bool IsNear(const NodeInfo& node) const;
  bool IsInAnotherZone(const NodeInfo& node) const;
  void NoteAway();
  bool WasAway() const;
  bool IsOutOfReach(const Place& place) const;
  Task<Result<PeerFind>> AskAll(Question question);
  Task<Result<PeerFind>> AskAhead(const Question* question, const NodeInfo* node);
  Task<Result<PeerFind>> AskBehind(const Question* question, const NodeInfo* node);
  Task<Status> Fetch(const Question* question, const NodeInfo* node);
  Task<Status> FetchPart(const Question* question, const NodeInfo* node, BlockRange part);
  Task<bool> BeginGet(const Question* question, const NodeInfo* node);
  Task<Result<proto::PrefetchBlockReply>> TellToGet(const Question* question, const NodeInfo* node,
                                                    bool stand_in);
  // In peer_stand_ins.cc.
  std::vector<const NodeInfo*> StandInsFor(const ColdBlock& cold, const RingTable& table) const;
  Task<Result<PeerFind>> AskStandIns(Question question);
  Task<Status> AskStandIn(const Question* question, const NodeInfo* node);
  Task<bool> IsAlive(const NodeInfo* node, Duration patience);
  Task<bool> WaitForRestart(const Question* question, const NodeInfo* node);
  bool MayRestart(const std::string& node) const;
  /// `at_once`: its machine said so, nobody waited in vain.
  void NoteFailure(const NodeInfo& node, const Error& error, bool at_once);
  Task<void> Probe(std::string id, std::string address);
  Task<void> NoticePauses();

  const PeerSourceOptions options_;
  ClusterView& cluster_;
  PeerHealth health_;
  std::atomic<bool> stopped_{false};
  std::atomic<std::int64_t> away_until_{0};  // of Clock: until then owners behind are asked
  mutable std::mutex restarts_mutex_;
  std::unordered_map<std::string, TimePoint> restarts_;  // guarded: until when, by node id
  IoPool io_{"peers", 1};
  std::unique_ptr<ClientPool> pool_;
  std::unordered_map<std::string, TimePoint> heard_;  // by node id; on the event loop only
  // Until when nodes are not asked to stand in for this one, by link; on the event loop only.
  std::map<std::pair<std::string, Uuid>, TimePoint> unwilling_;
};

}  // namespace forebay
