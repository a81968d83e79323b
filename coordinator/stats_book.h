#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "common/base/deadline.h"
#include "common/model/link.h"
#include "common/model/object_version.h"
#include "coordinator/counters.h"
#include "coordinator/job_key.h"
#include "proto/coordinator.pb.h"
#include "proto/coordinator_state.pb.h"

namespace forebay {

/// Which of the coordinator's decisions a node goes by.
struct Decisions {
  std::uint64_t links_version = 0;
  std::uint64_t fill_limits_version = 0;

  bool Cover(const Decisions& wanted) const {
    return links_version >= wanted.links_version &&
           fill_limits_version >= wanted.fill_limits_version;
  }
};

/// Of all links; one that is not named is normal.
using LinkPriorities = std::map<Uuid, LinkPriority>;

/// The cluster's totals, made of the nodes' heartbeats. A node counts from zero in each process;
/// here nothing ever goes backwards: what a process had counted when it ended is folded into the
/// node's base. Persisted are base and last report of each node, so that a restart of the
/// coordinator neither loses nor doubles anything. Pure: time is given. Not thread-safe.
class StatsBook {
 public:
  /// What one node says of itself in its latest heartbeat.
  struct Latest {
    TimePoint arrived;
    Decisions told;
    std::vector<proto::DiskReport> disks;
    std::vector<proto::S3Wait> s3_waits;
    std::vector<proto::S3Refusal> s3_refusals;
    std::uint64_t blocks = 0;
    std::uint64_t blocks_set_aside = 0;
    std::uint64_t room_version = 0;
    std::uint32_t last_end = 0;  ///< RunEnd.
    std::uint64_t running_s = 0;
  };
  struct Cached {
    std::uint64_t blocks = 0;
    std::uint64_t bytes = 0;
    std::uint64_t pinned_bytes = 0;
    std::uint64_t pins_version = 0;
    bool in_use = false;
  };
  struct JobTotals {
    std::uint64_t reads = 0;
    std::uint64_t hits = 0;
  };

  void Restore(const std::string& node_id, const proto::NodeTotals& stored);
  void Report(const proto::HeartbeatRequest& heartbeat, TimePoint now);

  /// Nodes whose totals changed since the last call, as they are to be stored.
  std::vector<std::pair<std::string, proto::NodeTotals>> TakeUnsaved();
  /// After a failed write: these are to be stored again.
  void MarkUnsaved(const std::string& node_id);

  Totals LinkTotals(const Uuid& link) const;
  /// Blocks that `nodes` hold of the link, by their latest heartbeats.
  Cached LinkCached(const Uuid& link, const std::set<std::string>& nodes) const;
  Totals NodeTotals(const std::string& node_id) const;  ///< Over all links.
  std::uint64_t NodeChecksumFailures(const std::string& node_id) const;
  /// What blocks may take of the disks of a node with this capacity, as DiskReport has it; before
  /// its first heartbeat a guess that is too small rather than too large.
  std::uint64_t NodeUsable(const std::string& node_id, std::uint64_t capacity) const;
  /// What an unpinned block of `link` finds there: what is free, and what links give away that are
  /// of lower priority, or idle and of the same.
  std::uint64_t NodeRoom(const std::string& node_id, std::uint64_t capacity, const Uuid& link,
                         const LinkPriorities& priorities) const;
  /// What all nodes that were heard since `since` wait for S3 for.
  std::vector<proto::S3Wait> WaitsSince(TimePoint since) const;
  Latest NodeLatest(const std::string& node_id) const;  ///< Empty when it was never heard.
  /// What nodes counted, over all of their processes. Jobs leave after kJobsShown without a read,
  /// the oldest when there are more than kMaxJobsShown.
  std::map<JobKey, JobTotals> Jobs() const;
  /// When a job read anything last; nothing when it was not seen for long.
  std::optional<TimePoint> JobLastRead(const std::string& job) const;
  /// The job that read the link last, and when.
  std::optional<std::pair<std::string, TimePoint>> LinkLastRead(const Uuid& link) const;
  /// The jobs that have read the link since then.
  std::vector<std::string> LinkReaders(const Uuid& link, TimePoint since) const;
  /// Which pins of each link a node has taken over.
  std::map<Uuid, std::uint64_t> NodePins(const std::string& node_id) const;

  /// Remembers the totals of now and forgets old jobs; called every kSampleEvery.
  void Sample(TimePoint now);
  struct Window {
    Duration length{};             ///< As measured.
    std::map<Uuid, Totals> links;  ///< The totals when it began.
  };
  /// The youngest sample that is at least `wanted` old, else the oldest.
  Window Begin(Duration wanted, TimePoint now) const;

  static constexpr Duration kSampleEvery = std::chrono::seconds(5);
  static constexpr Duration kSamplesKept = std::chrono::hours(1);

 private:
  struct Node {
    std::uint64_t incarnation = 0;
    std::map<Uuid, Totals> ended;
    std::map<Uuid, Totals> live;
    std::map<Uuid, Cached> cached;
    std::uint64_t ended_checksum_failures = 0;
    std::uint64_t live_checksum_failures = 0;
    std::map<JobKey, JobTotals> live_jobs;
    Latest latest;
    bool unsaved = false;
  };
  struct EndedJob {
    JobTotals totals;
    TimePoint last_seen;
  };

  void BeginIncarnation(Node& node, std::uint64_t incarnation, TimePoint now);
  void ReportJobs(Node& node, const proto::HeartbeatRequest& heartbeat, TimePoint now);
  void Fold(const JobKey& key, const JobTotals& totals, TimePoint now);
  void ForgetOldJobs(TimePoint now);
  std::map<Uuid, Totals> AllLinks() const;

  std::map<std::string, Node> nodes_;
  std::map<JobKey, EndedJob> ended_jobs_;  // of ended processes, and when the job was last seen
  std::deque<std::pair<TimePoint, std::map<Uuid, Totals>>> samples_;
};

}  // namespace forebay
