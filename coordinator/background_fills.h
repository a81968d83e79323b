#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "common/base/asio.h"
#include "common/base/deadline.h"
#include "common/base/notifier.h"
#include "coordinator/job_key.h"
#include "coordinator/link_registry.h"
#include "coordinator/preloader.h"
#include "coordinator/read_throughs.h"
#include "coordinator/stats.h"
#include "coordinator/task_book.h"
#include "proto/coordinator.pb.h"

namespace forebay {

/// What a job's reads of a link may still lead to.
enum class FillChance : std::uint8_t {
  kMayBegin = 0,  ///< A fill of the link.
  kMayJoin = 1,   ///< The job comes to the fill that runs.
  kDecided = 2,   ///< Nothing: one runs for it, has ended for it, or was cancelled.
};

/// By the tasks of kind "fill". A fill that was cancelled does not begin again for its jobs, one
/// that ended otherwise not until the link has another generation; one that ended because no job
/// read the link decides nothing.
FillChance ChanceOf(const std::vector<proto::TaskState>& fills, const JobKey& key,
                    std::uint64_t generation);

/// Background fill: when a job reads enough of a link (ReadThroughs), what is missing of the link
/// is fetched behind everything else, into room that is free, as long as some job reads the link.
/// What was decided is in the tasks, which are persisted; reads that did not lead to a fill are
/// forgotten with the coordinator. Lives on one io_context.
class BackgroundFills {
 public:
  struct Parts {
    LinkRegistry& links;
    TaskBook& tasks;
    Preloader& preloader;
    ClusterStats& stats;
    bool enabled;
  };
  explicit BackgroundFills(Parts parts) : parts_(parts), started_(Clock::now()) {}

  /// Takes what a mount says. `reply` has its rows already; here they are told whether more reads
  /// are of interest.
  void Report(const proto::ReportJobsRequest& request, proto::ReportJobsReply& reply);

  /// Begins what is due and ends what nobody reads. Once a second, and when due() says so.
  Task<void> Tick();
  /// Notified when a job has read enough.
  Notifier& due() { return due_changed_; }

 private:
  /// The link's current generation, where it may be filled.
  std::optional<std::uint64_t> GenerationOf(const Uuid& link) const;
  bool IsOfInterest(const JobKey& key, TimePoint now) const;
  Task<void> Begin(JobKey key);
  void EndUnread();
  void ReadTasks();

  Parts parts_;
  const TimePoint started_;
  ReadThroughs reads_;
  std::vector<proto::TaskState> fills_;  // as of the last tick
  std::set<JobKey> due_;
  Notifier due_changed_;
  std::map<JobKey, std::uint64_t> complete_;  // generation of which nothing was missing
  std::map<JobKey, TimePoint> not_before_;    // a fill could not begin
};

}  // namespace forebay
