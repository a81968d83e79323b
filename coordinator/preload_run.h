#pragma once

#include <boost/asio/cancellation_signal.hpp>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "common/base/asio.h"
#include "common/base/deadline.h"
#include "common/base/notifier.h"
#include "common/base/offload.h"
#include "common/base/result.h"
#include "common/model/link.h"
#include "coordinator/cache_census.h"
#include "coordinator/preload_lanes.h"
#include "coordinator/preload_ledger.h"
#include "coordinator/preload_plan.h"
#include "coordinator/rate_limit.h"
#include "proto/node.pb.h"

namespace forebay {

/// What one preload is to do.
struct PreloadOrder {
  LinkSpec link;
  std::shared_ptr<const PreloadPlan> plan;
  PreloadLedger::Checkpoint from;
  bool verify = false;
  /// A background fill: behind everything else, only into room that is free, and without an end to
  /// its patience.
  bool spare = false;
  std::uint64_t bytes_per_second = 0;  ///< 0 = no limit.
  /// Ends when so many bytes of the plan are cached; `cached_bytes` of them were so at the
  /// beginning. 0 = when all pieces have an outcome.
  std::uint64_t until_bytes = 0;
  std::uint64_t cached_bytes = 0;
};

/// How far it is.
struct PreloadProgress {
  PreloadCounts counts;
  std::uint64_t bytes_per_second = 0;
  bool quota_bound = false;  ///< A block of this run found no room for its link's quota.
};

/// One preload at work: walks the plan, asks the nodes, counts their answers. What a node does not
/// answer is asked again, of the next owner once the node is suspect; after `patience` it has
/// failed. Owned by shared_ptr; lives on the io_context of `call`.
class PreloadRun : public std::enable_shared_from_this<PreloadRun> {
 public:
  struct Nodes {
    std::shared_ptr<const RingTable> ring;
    std::vector<NodeInfo> up;
  };
  struct Parts {
    NodeCaller call;
    Offload& offload;
    std::function<Nodes()> nodes;
    /// Called about twice a second. False: the link is gone, the run ends with kNotFound.
    std::function<bool(const PreloadProgress&)> show;
    /// Called every few seconds and at the end with what is new behind the checkpoint.
    std::function<Task<void>(PreloadLedger::Checkpoint, std::vector<PreloadLedger::FailedObject>)>
        save;
    Duration patience;  ///< Like a reader's with S3.
  };
  PreloadRun(Parts parts, PreloadOrder order);

  /// Ok: every piece has an outcome, or enough is cached. kUnavailable: Stop was called. kNotFound:
  /// the link is gone. kCorrupt: its listing is damaged.
  Task<Status> Run();

  /// Run ends soon, with kUnavailable. The nodes are told to stop, and their answers count no more.
  void Stop();

  PreloadProgress progress() const;
  /// Of a background fill: it ended, or will, because no node that is up has room any more.
  bool is_full() const { return full_; }

 private:
  Task<Status> Work();
  /// Adds pieces of the walk until enough of them wait.
  Task<Status> Refill();
  void Dispatch(TimePoint now);
  void BeginSend(PieceBatch batch);
  Task<void> Send(PieceBatch batch);
  Task<Result<RpcReply>> Ask(std::shared_ptr<PieceBatch> batch);
  void Take(PieceBatch batch, const Result<RpcReply>& answer, TimePoint now);
  void NoteRoom(const std::string& node, const proto::FillBlocksReply& reply);
  void TakeResult(WantedPiece piece, const proto::FillResult& result, TimePoint now);
  void PutOffOrFail(WantedPiece piece, std::string reason, TimePoint now);
  /// What may still be asked for: less than a batch towards the end of --until.
  std::uint64_t BytesWanted() const;
  bool Enough() const;
  Task<void> Pause(TimePoint now);
  Task<Status> Tick(TimePoint now);

  Parts parts_;
  const PreloadOrder order_;
  std::shared_ptr<PreloadWalk> walk_;
  std::uint64_t to_skip_;  // pieces that an earlier run is done with
  bool walked_ = false;
  std::set<std::string> up_;          // ids
  std::set<std::string> full_nodes_;  // that had no room for a block
  bool full_ = false;
  bool quota_bound_ = false;
  const std::uint64_t number_;  // which the nodes know it by
  PreloadLedger ledger_;
  PreloadLanes lanes_;
  RateLimit rate_;
  asio::any_io_executor executor_;
  std::map<std::uint64_t, std::shared_ptr<asio::cancellation_signal>> cancels_;  // of Sends
  std::uint64_t next_send_ = 0;
  bool stopped_ = false;
  bool ended_ = false;
  TimePoint next_tick_;
  TimePoint next_save_;
  std::deque<std::pair<TimePoint, std::uint64_t>> samples_;  // bytes so far, of the last seconds
  Notifier changed_;
};

}  // namespace forebay
