#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "common/base/asio.h"
#include "common/base/deadline.h"
#include "common/base/result.h"
#include "common/wire/coordinators.h"
#include "fuse-client/job_table.h"
#include "fuse-client/node_pace.h"
#include "proto/coordinator.pb.h"

namespace forebay {

class ClientPool;

/// Tells a coordinator every kEvery what jobs have read since it was last told, and learns from it
/// how far each job is: that can only be seen where the reports of all its mounts come together.
/// What is told are totals, so a lost report costs nothing, and a mount goes on without a
/// coordinator. Ends idle jobs. Runs on the context of `pool`.
class JobReporter {
 public:
  /// `keep`, when there is one, is called on the context before each report, and more often: what
  /// is reported must not be lost with this process, or the totals would go backwards.
  JobReporter(asio::io_context& context, ClientPool& pool, JobTable& jobs, const NodePace& pace,
              std::vector<std::string> coordinators, std::function<void()> keep = {});
  /// Of an earlier process, whose jobs the table goes on with. Before Start.
  void Resume(std::uint64_t incarnation) { incarnation_ = incarnation; }
  std::uint64_t incarnation() const { return incarnation_; }

  /// Any thread.
  void Start();
  /// Not from the context's own thread: ends all jobs, reports them a last time and waits for that
  /// until `deadline`. Nobody reads any more.
  void FinishFrom(Deadline deadline);

  /// On the context: one round. Answers the last failure.
  Task<Status> ReportOnce(Deadline deadline);

  static constexpr Duration kEvery = std::chrono::seconds(5);
  /// So often it looks whether a job has read much that the coordinator should hear of.
  static constexpr Duration kLookEvery = std::chrono::milliseconds(250);
  static constexpr Duration kKeepEvery = std::chrono::seconds(1);
  /// A job of which nothing is new is reported so often, which says that its processes live.
  static constexpr Duration kAliveEvery = std::chrono::seconds(30);

 private:
  struct Told {
    std::uint64_t changes = 0;
    TimePoint at;
  };
  struct Batch;

  Task<void> Run();
  bool HasNews() const;
  std::vector<Batch> DueBatches(TimePoint now);
  void AddNewAnswers(proto::ReportJobsRequest& request);
  Task<Status> Send(const Batch* batch, Deadline deadline);
  void Confirm(const Batch& batch, const proto::ReportJobsReply& reply);

  asio::io_context& context_;
  JobTable& jobs_;
  const NodePace& pace_;
  Coordinators coordinators_;
  const std::function<void()> keep_;
  std::uint64_t incarnation_;
  bool stopped_ = false;
  std::map<std::uint64_t, Told> told_;  // by serial
  struct ToldAnswers {
    std::uint64_t reads = 0;
    bool slow = false;
    bool operator==(const ToldAnswers&) const = default;
  };
  std::map<std::string, ToldAnswers> answers_told_;  // by node
};

}  // namespace forebay
