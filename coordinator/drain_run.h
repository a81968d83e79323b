#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/base/asio.h"
#include "common/base/deadline.h"
#include "common/base/notifier.h"
#include "common/base/offload.h"
#include "common/base/result.h"
#include "common/model/block_heat.h"
#include "common/model/link.h"
#include "coordinator/membership.h"
#include "coordinator/node_calls.h"
#include "coordinator/preload_plan.h"
#include "coordinator/rate_limit.h"
#include "proto/node.pb.h"

namespace forebay {

/// How far a drain is, in blocks.
struct DrainProgress {
  std::uint64_t total = 0;  ///< That the node held when it was looked at.
  std::uint64_t total_bytes = 0;
  std::uint64_t done = 0;  ///< That their owners hold by now.
  std::uint64_t bytes = 0;
  std::uint64_t not_kept = 0;  ///< That their owners have no room for.
  std::uint64_t not_kept_bytes = 0;
  std::uint64_t bytes_per_second = 0;  ///< Over the last seconds.
};

/// One drain at work: has the owners of now copy what the node holds from it, hottest first,
/// without a GET. Walks the listings of all links several times: once to count, once for each heat
/// that the node has, and then until nothing is left that its owner lacks. What it asks for twice
/// is in the owner's store by then, so it may begin anew at any time. Owned by shared_ptr; lives on
/// the io_context of `call`.
class DrainRun : public std::enable_shared_from_this<DrainRun> {
 public:
  /// All blocks of a link's generation.
  struct Source {
    LinkSpec link;
    std::shared_ptr<const PreloadPlan> plan;
  };
  struct Sources {
    std::vector<Source> listed;  ///< Those that are read now first.
    std::string not_listed;  ///< A link that the node holds blocks of, and why there is no list.
  };
  struct Parts {
    NodeCaller call;
    Offload& offload;
    std::function<Roster()> roster;
    std::function<Sources()> sources;  ///< Of all links. Blocks.
    /// Called after each step.
    std::function<void(const DrainProgress&)> show;
    Duration patience;                   ///< With owners that copy nothing.
    std::uint64_t bytes_per_second = 0;  ///< 0 = no limit.
  };
  DrainRun(Parts parts, std::string node);

  /// Ok: what the node holds is at its owners, or they have no room for it. kUnavailable: Stop was
  /// called, the node is not a draining member any more, or its blocks cannot be copied; the
  /// message says which.
  Task<Status> Run();

  /// Run ends soon. What is being copied is copied.
  void Stop();

 private:
  struct Batch {
    NodeInfo owner;
    std::vector<PreloadPiece> pieces;
    std::uint64_t bytes = 0;
  };
  /// The batches of one step of the walk.
  struct Flight {
    Source source;
    std::deque<Batch> waiting;
    std::size_t lanes = 0;
    Notifier ended;
  };
  using FlightPtr = std::shared_ptr<Flight>;
  using Pieces = std::vector<PreloadPiece>;

  Task<Status> Work();
  /// Every block that the node holds: counted when `count`, else brought to its owner, if it is of
  /// this heat (nothing = of any).
  Task<Status> Walk(bool count, std::optional<BlockHeat> heat);
  Task<Status> WalkOne(Source source, bool count, std::optional<BlockHeat> heat);
  Task<Result<Pieces>> NextPieces(std::shared_ptr<PreloadWalk> walk);
  /// Asks the node; waits while it is silent.
  Task<Result<proto::CheckBlocksReply>> AskNode(Source source,
                                                std::shared_ptr<const Pieces> pieces);
  Result<std::optional<NodeInfo>> FindNode() const;
  void Count(const Pieces& pieces, const proto::CheckBlocksReply& reply);
  Task<void> Bring(Source source, Pieces pieces);
  std::map<std::string, Batch> ByOwner(const Pieces& pieces);
  /// Counts what the owner has; the rest waits in `flight`.
  Task<void> AddMissing(FlightPtr flight, Batch all);
  Task<void> Lane(FlightPtr flight);
  Task<void> Copy(FlightPtr flight, Batch batch);
  void Take(const Batch& batch, const Result<RpcReply>& answer);
  void Again(std::size_t blocks, std::string why);
  Task<Status> Sweep();
  Task<void> Pause(Duration duration);
  void Show();

  Parts parts_;
  const std::string node_;
  RateLimit rate_;
  asio::any_io_executor executor_;
  bool stopped_ = false;
  DrainProgress progress_;
  std::array<std::uint64_t, kHottest + 1> by_heat_{};  // blocks, when they were counted
  bool sweeping_ = false;
  DrainProgress swept_;      // by the sweep that runs
  std::uint64_t again_ = 0;  // blocks that could not be brought in this walk
  std::string why_again_;
  std::deque<std::pair<TimePoint, std::uint64_t>> samples_;  // copied bytes, of the last seconds
  std::uint64_t copied_bytes_ = 0;
  Notifier stopping_;
};

}  // namespace forebay
