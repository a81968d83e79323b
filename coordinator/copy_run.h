#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "common/base/asio.h"
#include "common/base/notifier.h"
#include "common/base/offload.h"
#include "common/base/result.h"
#include "common/model/link.h"
#include "coordinator/membership.h"
#include "coordinator/node_calls.h"
#include "coordinator/preload_plan.h"
#include "proto/node.pb.h"

namespace forebay {

/// What one look at the copies of some blocks found and did. A copy is a block at one of the owners
/// that are to keep it and are up.
struct CopyCounts {
  std::uint64_t blocks = 0;   ///< Cached somewhere.
  std::uint64_t missing = 0;  ///< Copies that were not there.
  std::uint64_t copied = 0;   ///< Of these: are there now.
  std::uint64_t no_room = 0;  ///< Of these: the node has no room that is free or idle.
  std::uint64_t failed = 0;   ///< Of these, and those of nodes that did not answer.
  std::uint64_t absent = 0;   ///< Besides: copies that no node is up to keep.
  std::string why;            ///< Of one that failed.

  /// Copies that are not there.
  std::uint64_t left() const { return no_room + failed + absent; }
};

/// One look at the blocks of a plan: which of the first `replicas` owners lack a block that is
/// cached, and has them copy it from those that have it. S3 is never asked. The nodes bound the
/// rate (copy_limit). What is not cached anywhere is passed over. Owned by shared_ptr; lives on the
/// io_context of `call`.
class CopyRun : public std::enable_shared_from_this<CopyRun> {
 public:
  struct Parts {
    NodeCaller call;
    Offload& offload;
    std::function<Roster()> roster;
    std::function<bool()> stopped;  ///< True: Run ends soon.
  };
  CopyRun(Parts parts, LinkSpec link, std::shared_ptr<const PreloadPlan> plan);

  /// kUnavailable: it was stopped. kCorrupt: the listing is damaged.
  Task<Result<CopyCounts>> Run();

 private:
  using Pieces = std::vector<PreloadPiece>;
  /// Where a block is, as far as it was asked for. Bits by place among the owners.
  struct Seen {
    std::uint8_t wanted = 0;   // is to keep it, and is up
    std::uint8_t present = 0;  // has it
    std::uint8_t unknown = 0;  // did not answer
    bool cached = false;       // somebody has it
  };
  /// What one node is asked about: places in the pieces, and its place among their owners.
  struct Part {
    NodeInfo node;
    std::vector<std::uint32_t> pieces;
    std::vector<std::uint8_t> bits;  // 0: an owner of before
  };
  struct Step {
    Pieces pieces;
    std::vector<Seen> seen;
    std::size_t open = 0;  // nodes that are being asked
    Notifier ended;
  };
  using StepPtr = std::shared_ptr<Step>;
  using Parcels = std::map<std::string, Part>;

  Task<Result<Pieces>> NextPieces(std::shared_ptr<PreloadWalk> walk);
  Parcels PartsOf(const StepPtr& step) const;
  /// Runs `work` for each parcel at once and waits for all of them.
  Task<void> ForEach(StepPtr step, Parcels parcels,
                     Task<void> (CopyRun::*work)(StepPtr step, Part part));
  Task<void> Do(StepPtr step, Part part, Task<void> (CopyRun::*work)(StepPtr step, Part part));
  Task<void> Ask(StepPtr step, Part part);
  void TakePresence(Step& step, const Part& part, std::size_t begin, std::size_t count,
                    const Result<RpcReply>& answer);
  Parcels Missing(const StepPtr& step, const Parcels& asked);
  Task<void> Copy(StepPtr step, Part part);
  Task<void> CopyBatch(NodeInfo node, Pieces pieces);
  void TakeCopied(const NodeInfo& node, std::size_t blocks, const Result<RpcReply>& answer);
  void NoteFailed(std::size_t copies, std::string why);

  Parts parts_;
  const LinkSpec link_;
  const std::shared_ptr<const PreloadPlan> plan_;
  asio::any_io_executor executor_;
  CopyCounts counts_;
};

}  // namespace forebay
