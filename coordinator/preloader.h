#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/base/asio.h"
#include "common/base/notifier.h"
#include "common/base/offload.h"
#include "common/base/result.h"
#include "common/s3/object_store.h"
#include "coordinator/cache_census.h"
#include "coordinator/copy_keeper.h"
#include "coordinator/link_registry.h"
#include "coordinator/membership.h"
#include "coordinator/name_uploads.h"
#include "coordinator/namespace_index.h"
#include "coordinator/preload_plan.h"
#include "coordinator/preload_run.h"
#include "coordinator/state_store.h"
#include "coordinator/stats.h"
#include "coordinator/target_lookup.h"
#include "coordinator/task_book.h"
#include "proto/coordinator.pb.h"
#include "proto/coordinator_state.pb.h"

namespace boost::asio {
class io_context;
}

namespace forebay {

/// Fills the cache with targets, and with what is missing of links that jobs read, as tasks that
/// outlive the CLI, the coordinator and nodes: each is persisted with how far it is, and goes on
/// from there at the next start. What it asks for twice is in a node's store by then and costs no
/// GET.
///
/// Lives on one io_context; its methods run there.
class Preloader {
 public:
  struct Parts {
    StateStore& store;
    std::uint64_t fence;
    ClusterMembers& membership;
    LinkRegistry& links;
    TaskBook& tasks;
    NamespaceIndex& index;
    CacheCensus& census;
    NodeCaller call;
    ObjectStore& origin;
    Offload& offload;
    NameUploads& uploads;
    CopyKeeper& copies;
    ClusterStats& stats;
    Duration patience;                    ///< With a node or S3 that does not answer.
    std::uint64_t fill_bytes_per_second;  ///< Of each background fill; 0 = no limit.
  };
  Preloader(asio::io_context& context, Parts parts);

  /// Goes on with every preload that runs. Called once, after everything is loaded.
  Task<Status> Resume();

  /// kPreload: begins, or says what it would take (dry_run) or only whether it fits (room_only).
  /// Fails, and changes nothing, where nothing matches the target, names are unknown, or a listing
  /// runs.
  Task<Result<proto::PreloadReply>> Start(proto::PreloadRequest request, Deadline deadline);

  /// Ends a running preload; true when it has ended so. False: it ended by itself meanwhile.
  Task<Result<bool>> Cancel(std::string id);
  /// Begins a preload that failed anew: what is kept by now costs nothing.
  Task<Result<proto::TaskState>> Retry(std::string id);

  /// Begins a background fill of a link because `job_id` reads much of it: a task of kind "fill",
  /// which goes behind everything else, takes only room that is free and ends when there is none.
  /// Its id; "" = nothing is missing.
  Task<Result<std::string>> StartFill(Uuid link, std::string job_id);
  /// The background fill of the link that runs is for this job, too.
  void JoinFill(const Uuid& link, const std::string& job_id);
  /// Ends a background fill soon: no job reads the link any more.
  void EndFill(const std::string& id);

  /// Interrupts all preloads and waits for them; they go on at the next start.
  Task<void> Stop();

 private:
  struct Job {
    proto::PreloadRecord record;
    proto::TaskState task;            // as it is shown
    std::shared_ptr<PreloadRun> run;  // null until its plan is made
    bool cancelled = false;
    bool left = false;  // a background fill that no job needs any more
    /// Set once the objects have been compared with what was uploaded.
    std::optional<PreloadCounts> verified_counts;
    std::optional<CacheTally> counted_at_end;  ///< With --until.
  };
  using JobPtr = std::shared_ptr<Job>;
  using PlanPtr = std::shared_ptr<const PreloadPlan>;
  struct Prepared {
    LocatedTarget target;
    proto::PreloadRecord record;
    PlanPtr plan;
  };

  /// All that may be wrong with a request. Blocks.
  Result<Prepared> Prepare(const proto::PreloadRequest& request, ArchivedObjects archived);
  Task<Result<proto::PreloadReply>> StartPrepared(Prepared prepared, proto::PreloadRequest request,
                                                  Deadline deadline);
  /// What is cached already and whether the rest finds room; begins nothing.
  Task<Result<proto::PreloadReply>> Look(Prepared prepared, proto::PreloadReply reply, bool exactly,
                                         Deadline deadline);
  Result<Prepared> PrepareFill(const Uuid& link);
  Task<Result<bool>> IsComplete(const Prepared& prepared);
  JobPtr FindSame(const proto::PreloadRecord& record) const;
  Task<Result<CacheTally>> CountCached(proto::PreloadRecord record, PlanPtr plan,
                                       Deadline deadline);
  JobPtr NewJob(const Prepared& prepared, const std::string& target);
  /// Stores a job and begins it, also when the caller has gone away.
  Task<Status> StoreAndBegin(JobPtr job, PlanPtr plan);
  void Begin(JobPtr job, PlanPtr plan);
  Task<void> Drive(JobPtr job, PlanPtr plan);
  Task<Status> Work(JobPtr job, PlanPtr plan);
  Task<Status> CheckUploads(JobPtr job, PlanPtr plan);
  Task<void> MakeCopies(JobPtr job, PlanPtr plan);
  Task<void> CountAtEnd(JobPtr job, PlanPtr plan);
  Result<PreloadPlan> PlanOf(const proto::PreloadRecord& record);
  Task<Result<PlanPtr>> PlanAgain(JobPtr job);
  Task<PreloadOrder> OrderFor(JobPtr job, PlanPtr plan);
  PreloadRun::Parts RunParts(JobPtr job, PlanPtr plan);
  Task<void> Save(JobPtr job, PlanPtr plan, PreloadLedger::Checkpoint checkpoint,
                  std::vector<PreloadLedger::FailedObject> failed);
  proto::TaskState EndedTask(const Job& job, const Status& done) const;
  Task<void> End(JobPtr job, Status done);
  /// Writes a task and its record, then shows the task. `record` null = none any more.
  Status Write(const proto::TaskState& task, const proto::PreloadRecord* record);
  Task<void> PruneFiles();

  asio::io_context& context_;
  Parts parts_;
  std::map<std::string, JobPtr> running_;               // by task id
  std::map<std::string, proto::PreloadRecord> failed_;  // may be tried again
  bool stopping_ = false;
  Notifier ended_;
};

}  // namespace forebay
