#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "common/base/asio.h"
#include "common/base/deadline.h"
#include "common/base/notifier.h"
#include "common/base/offload.h"
#include "common/base/result.h"
#include "coordinator/clock_watch.h"
#include "coordinator/job_book.h"
#include "coordinator/link_registry.h"
#include "coordinator/membership.h"
#include "coordinator/state_store.h"
#include "coordinator/stats_book.h"
#include "proto/coordinator.pb.h"

namespace forebay {

/// A job ends when it has read nothing for so long.
inline constexpr std::chrono::minutes kJobEnds{10};

/// What a node said last is so for so long.
inline constexpr std::chrono::seconds kHeardLately{5};

struct JobActivity {
  std::string job;
  Duration idle{};  ///< Since its last read.
};

/// The StatsBook of the running coordinator: fed by heartbeats, saved every few seconds, read by
/// kStats. Thread-safe.
class ClusterStats {
 public:
  ClusterStats(StateStore& store, std::uint64_t fence, Offload& offload);

  /// Takes the persisted totals. Blocks; before anything serves.
  Status Load();

  void Report(const proto::HeartbeatRequest& heartbeat);

  /// Takes what a mount says of its jobs and answers how far they are.
  void ReportJobs(const proto::ReportJobsRequest& request, proto::ReportJobsReply& reply);

  /// One job over all of its links, as Describe has it. kNotFound with the nearest id.
  Result<proto::DescribeJobReply> DescribeJob(const std::string& job,
                                              const std::vector<Link>& links) const;

  /// Waits until each of `nodes` has sent a heartbeat that it began after `since`, so that the
  /// totals hold all that happened before; or until the deadline.
  Task<void> WaitForReports(std::vector<NodeInfo> nodes, TimePoint since, Deadline deadline);

  /// Waits until the nodes have reported what they have since they freed what `evicted` says, so
  /// that RoomFor counts it; or until the deadline.
  Task<void> WaitForRoom(std::vector<proto::NodeEvicted> evicted, Deadline deadline);

  /// Waits until all nodes that are up go by `wanted`, or until the deadline. The members in the
  /// ring that do not: they will when they are back.
  Task<std::vector<std::string>> WaitUntilTold(std::vector<MemberView> members, Decisions wanted,
                                               Deadline deadline);

  /// Since when the job has read nothing; nothing when it is not known.
  std::optional<Duration> JobIdle(const std::string& job) const;
  /// As JobBook::IsRead.
  std::optional<bool> IsRead(const Uuid& link) const;
  /// The job that read the link last.
  std::optional<JobActivity> LastReader(const Uuid& link) const;
  /// The jobs that read the link now, in order: those that a mount reads it for, and those that
  /// nodes have answered within kJobEnds and that no mount has called ended.
  std::set<std::string> ReadersNow(const Uuid& link) const;
  /// As ClockWatch::Of.
  std::optional<ClockWatch::View> NodeClock(const std::string& node_id) const;
  std::map<Uuid, std::uint64_t> NodePins(const std::string& node_id) const;
  /// The longest that a node waits for S3 to answer for that place; nothing where none
  /// waits for kUnansweredMs.
  std::optional<proto::S3Wait> UnansweredOf(const LinkOrigin& origin) const;
  /// As StatsBook has them.
  std::uint64_t NodeUsable(const NodeInfo& node) const;
  std::uint64_t RoomFor(const Uuid& link, const LinkPriorities& priorities,
                        const std::vector<NodeInfo>& nodes) const;
  std::uint64_t CachedBytes(const Uuid& link, const std::vector<NodeInfo>& nodes) const;
  std::optional<std::uint64_t> CachedBytesAt(const std::string& node, const Uuid& link) const;

  /// Remembers the totals for windows; called every StatsBook::kSampleEvery.
  void Sample();
  /// Stores what changed since the last time; with success everything reported before the call is
  /// stored.
  Task<Status> Save();
  Status SaveNow();  ///< Blocks.

  /// Links, nodes, jobs and the window of `reply`.
  void Describe(const std::vector<Link>& links, const std::vector<MemberView>& members,
                Duration window, proto::StatsReply& reply) const;

 private:
  /// Jobs of `links`, with the lock held. What nodes count and what mounts say are two halves: a
  /// job is there when either knows it.
  std::vector<proto::JobStats> JobRows(const std::vector<Link>& links) const;
  std::vector<std::string> NotTold(const std::vector<MemberView>& members, const Decisions& wanted,
                                   bool only_up) const;
  bool KnowsRoom(const std::vector<proto::NodeEvicted>& evicted) const;
  bool AllReported(const std::vector<NodeInfo>& nodes, TimePoint since) const;

  StateStore& store_;
  const std::uint64_t fence_;
  Offload& offload_;
  std::mutex save_mutex_;  // held over a write; taken before mutex_
  mutable std::mutex mutex_;
  StatsBook book_;
  ClockWatch clocks_;
  JobBook jobs_;
  Notifier reported_;
};

/// What an administrator should look at, the worst first.
std::vector<proto::Alert> ClusterAlerts(const proto::StatsReply& reply,
                                        const std::vector<MemberView>& members,
                                        const std::vector<proto::TaskState>& failed_tasks,
                                        std::int64_t now_unix_s);

}  // namespace forebay
