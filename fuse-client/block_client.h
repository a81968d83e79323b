#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <random>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "common/base/asio.h"
#include "common/base/deadline.h"
#include "common/base/network_pace.h"
#include "common/base/result.h"
#include "common/model/block_source.h"
#include "common/ring/ring.h"
#include "common/wire/peer_health.h"
#include "common/wire/peer_probe.h"
#include "common/wire/rpc.h"
#include "fuse-client/file_reader.h"
#include "fuse-client/link_presence.h"
#include "fuse-client/local_reads.h"
#include "fuse-client/node_pace.h"
#include "fuse-client/ring_view.h"
#include "fuse-client/stats.h"

namespace forebay {

class ClientPool;

/// Waits of BlockClient. Tests shorten them.
struct BlockClientPauses {
  /// First pause after every owner failed; doubles up to `longest`, a random part of it is taken.
  Duration first = std::chrono::milliseconds(50);
  Duration longest = std::chrono::seconds(2);
  /// An overloaded owner is asked again after a random part of this, doubling up to `longest`.
  Duration overloaded = std::chrono::milliseconds(20);
  /// Between two questions whether a silent node is back.
  ProbePauses probe;
};

struct BlockClientOptions {
  std::string host_id;  ///< This machine's; "" = unknown: every node is reached by its address.
  BlockClientPauses pauses;
  std::string zone = {};  ///< This machine's; "" = none.
  /// At how many of its first owners a block is, as the link says now; null: at one.
  std::shared_ptr<const std::atomic<std::uint32_t>> replicas = nullptr;
  /// Of the link; null: it is there.
  std::shared_ptr<const LinkPresence> presence = nullptr;
  NetworkPace* bandwidth = nullptr;  ///< Of what comes over the network; null: there is no bound.
  bool goes_first = false;           ///< Waits for no bandwidth; who comes next waits for it.
};

/// Blocks from the cache nodes that own them, in the ring's order (DESIGN section 5). Passes on to
/// the next owner where one is silent, gone or wrong; asks the same one again where it is only
/// overloaded; begins again from a fresh ring table when all have failed, until the deadline. Hands
/// out only bytes that match the checksums taken when the block was filled. One per worker, used on
/// the context of `pool` only; `health`, `pace`, `ring` and `refresher` are shared.
///
/// Of a link with replicas those of its owners that keep a copy are asked in the order of their
/// nearness: on this machine, in this zone, elsewhere. So are all of them in a hedge.
///
/// A node that is slow beside the others is asked after them, but for a sample; they take what they
/// lack from it and keep it where they have room. A question that takes much longer than the other
/// nodes' answers do is put to them too (a hedge), with `peer_only`: it costs no GET.
///
/// Errors of Read: kStale the object changed, or the link was removed (at once); kDenied; kInvalid;
/// kCorrupt or kInternal no owner has it right; kTimeout with the last cause when the deadline
/// passed; kUnavailable after Stop.
class BlockClient final : public BlockSource, public BlockPrefetcher {
 public:
  struct Parts {
    asio::io_context& context;
    ClientPool& pool;
    RingView& ring;
    RingRefresher& refresher;
    PeerHealth& health;
    NodePace& pace;
    WorkerStats& stats;
    PassedSegments* segments = nullptr;  ///< Null: all bytes come over sockets.
  };

  BlockClient(Parts parts, BlockClientOptions options);
  ~BlockClient() override;

  Task<Result<Cells>> Read(BlockRequest request, Deadline deadline) override;

  /// Asks the first owner that is well to fill the block. At most kMaxPrefetches are under way:
  /// one for each file of announced orders (OrderRunner::kFilesAtOnce), and as many as half of
  /// that for streams; more get kOverloaded.
  Task<Status> Prefetch(BlockRequest request) override;
  static constexpr std::size_t kMaxPrefetches = 96;

  /// Reads end with kUnavailable at their next failure instead of trying again. The context goes on
  /// running until in_flight() is zero.
  void Stop() { stopped_ = true; }
  std::size_t in_flight() const { return *in_flight_; }

 private:
  struct Question;
  struct Route;
  struct Routes;
  struct Race;
  /// A table and how each of its nodes is reached from here, by index.
  struct Directory {
    std::shared_ptr<const RingTable> table;
    std::vector<std::string> addresses;
    TimePoint until;  ///< Local sockets are looked for again after this.
  };

  std::shared_ptr<const Directory> CurrentDirectory();
  bool IsHere(const NodeInfo& node) const;
  bool IsInAnotherZone(const NodeInfo& node) const;
  void ProbeSuspectsOf(const RingTable& table);
  void AvoidSocketOf(const std::string& node_id);
  Routes RoutesFor(const Directory& directory, const BlockId& block);
  /// Of the owners of a block, places in the ring's order.
  using Places = std::array<std::uint8_t, kOwnersPerPartition>;
  /// In the order of asking: those that keep a copy by their nearness, the others as in the ring.
  Places OrderOf(const Directory& directory, std::span<const std::uint16_t> owners) const;
  /// The others by their nearness, too: for questions that make nobody ask S3.
  Places HedgeOrderOf(const Directory& directory, std::span<const std::uint16_t> owners) const;
  void SortByDistance(const Directory& directory, std::span<const std::uint16_t> owners,
                      std::span<std::uint8_t> places) const;
  std::size_t CopiesAmong(std::size_t owners) const;
  Status CheckLink() const;
  Task<Result<Cells>> AskOwner(Question* question, Route route);
  Task<Result<Cells>> AskOnce(Question* question, Route route);
  bool IsPaced(const Route& route) const;
  Task<Result<Cells>> AskForCells(Question* question, Route route, Race* race);
  Task<Result<Cells>> AskAllOwners(Question* question, const Directory* directory);
  Task<Result<Cells>> AskInRace(Question* question, Route route);
  Result<Cells> CellsOf(const BlockRequest& request, const Route& route, RpcReply reply);
  Result<Cells> CellsOf(const BlockRequest& request, const Route& route,
                        const proto::ReadBlockReply& answer, Slice payload);

  // Hedges; in block_client_hedge.cc.
  void WatchRaces();
  Task<void> LookAtRaces();
  void HedgeOverdue();
  Task<void> Hedge(std::uint64_t race, BlockRequest request,
                   std::shared_ptr<const Directory> directory, std::string instead_of);
  Routes OthersFor(const Directory& directory, const BlockId& block, const std::string& node);
  void NoteSilent(const Route& route, const Error& why);
  void ReportSilent(const std::string& node_id, const std::string& address, std::string_view why);
  Task<void> Probe(std::string node_id, std::string address);
  Task<Status> AskAhead(const BlockRequest* request);
  Duration RandomPart(Duration most);

  Parts parts_;
  BlockClientOptions options_;
  bool stopped_ = false;
  // Shared with the coroutines, which may outlive this object while their context ends.
  std::shared_ptr<std::size_t> in_flight_ = std::make_shared<std::size_t>(0);
  LocalReads local_;
  std::size_t prefetches_ = 0;
  std::minstd_rand random_;
  std::shared_ptr<const Directory> directory_;
  // Questions that nodes work on, by number: their coroutines own them.
  std::unordered_map<std::uint64_t, Race*> races_;
  std::uint64_t next_race_ = 0;
  bool watches_races_ = false;
};

}  // namespace forebay
