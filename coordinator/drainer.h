#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/base/asio.h"
#include "common/base/notifier.h"
#include "common/base/offload.h"
#include "common/base/result.h"
#include "coordinator/drain_run.h"
#include "coordinator/link_registry.h"
#include "coordinator/membership.h"
#include "coordinator/namespace_index.h"
#include "coordinator/node_calls.h"
#include "coordinator/state_store.h"
#include "coordinator/stats.h"
#include "coordinator/task_book.h"
#include "proto/coordinator.pb.h"

namespace boost::asio {
class io_context;
}

namespace forebay {

/// Kind of a drain's task; its target is the node.
inline constexpr const char* kDrainKind = "drain";

/// Drains nodes, as tasks that outlive the CLI and the coordinator. A drain is persisted together
/// with what it means for the members: while its task runs the node is draining, and when the task
/// is done the node is out. One that failed leaves the node draining.
///
/// Lives on one io_context; its methods run there.
class Drainer {
 public:
  struct Parts {
    StateStore& store;
    std::uint64_t fence;
    ClusterMembers& membership;
    LinkRegistry& links;
    TaskBook& tasks;
    NamespaceIndex& index;
    ClusterStats& stats;
    NodeCaller call;
    Offload& offload;
    Duration patience;               ///< With blocks that cannot be copied.
    std::uint64_t bytes_per_second;  ///< Of each drain; 0 = no limit.
  };
  Drainer(asio::io_context& context, Parts parts);

  /// Goes on with every drain that runs. Called once, after everything is loaded.
  void Resume();

  struct Started {
    std::string task_id;
    bool joined = false;  ///< It ran already, or is done and the node still out.
  };
  /// Begins to drain the node; MemberTable::PlanDrain says what stands against it.
  Task<Result<Started>> Start(std::string node);

  /// ClusterMembers::Change, which ends the node's drain, if it has one, for `reason`.
  Task<Result<bool>> Change(std::string node, ClusterMembers::Plan plan, std::string reason);
  /// Ends a drain that runs: its node is taken back.
  Task<Status> Cancel(std::string task_id);

  /// Interrupts all drains and waits for them; they go on at the next start.
  Task<void> Stop();

 private:
  struct Job {
    std::string node;
    proto::TaskState task;  // as it is shown
    std::shared_ptr<DrainRun> run;
    bool ended = false;  // somebody ended it
  };
  using JobPtr = std::shared_ptr<Job>;
  template <typename T>
  struct Promise;
  using StartPromise = std::shared_ptr<Promise<Result<Started>>>;
  using ChangePromise = std::shared_ptr<Promise<Result<bool>>>;

  Task<void> KeepStart(std::string node, StartPromise promise);
  Task<Result<Started>> StartNow(std::string node);
  std::optional<Started> DoneBefore(const std::string& node) const;
  Task<void> KeepChange(std::string node, ClusterMembers::Plan plan, std::string reason,
                        ChangePromise promise);
  Task<Result<bool>> ChangeNow(std::string node, ClusterMembers::Plan plan, std::string reason);
  JobPtr NewJob(proto::TaskState task);
  DrainRun::Parts RunParts(const JobPtr& job);
  DrainRun::Sources Sources(const std::string& node) const;
  Result<PreloadPlan> PlanOf(const Link& link) const;
  Task<void> Drive(JobPtr job);
  Task<void> End(JobPtr job, Status done);
  Task<Status> Write(StateBatch batch);

  asio::io_context& context_;
  Parts parts_;
  std::map<std::string, JobPtr> running_;  // by node
  bool stopping_ = false;
  Notifier ended_;
};

}  // namespace forebay
