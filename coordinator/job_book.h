#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "common/base/deadline.h"
#include "coordinator/epoch_estimate.h"
#include "coordinator/job_key.h"
#include "coordinator/stats_book.h"
#include "proto/coordinator.pb.h"

namespace forebay {

/// Adds each counter of `waits` to `sum`'s.
void AddWaits(const proto::JobWaits& waits, proto::JobWaits& sum);

/// What mounts report of jobs. A mount's totals begin at zero with each serial; here they are
/// summed, and nothing goes backwards while a job is known. Nothing is persisted: after a restart
/// the mounts' totals come again, and the epoch with them; mounts that ended before are missing.
/// Whatever mounts say, and however many say it, what is kept is bounded; where more comes, those
/// leave first that have ended or were heard least recently. One that comes back after that counts
/// from zero again. Pure: time is given. Not thread-safe.
class JobBook {
 public:
  /// Takes a report and fills in the reply. Answers the jobs that began their second epoch by it.
  std::vector<JobKey> Report(const proto::ReportJobsRequest& request, TimePoint now,
                             proto::ReportJobsReply& reply);

  /// What nodes had counted of the job when its second epoch began.
  void SetEarly(const JobKey& key, const StatsBook::JobTotals& early);

  struct View {
    std::uint32_t mounts = 0;  ///< That read for it now.
    std::uint32_t processes = 0;
    std::uint64_t generation = 0;
    std::string listing_digest;  ///< Of the generation; "" = not known.
    std::uint64_t epoch = 0;     ///< 0 = not known.
    double progress = 0;
    proto::JobWaits waits;
    StatsBook::JobTotals early;  ///< As SetEarly.
  };
  std::map<JobKey, View> Jobs(TimePoint now) const;

  /// Whether a mount reads the link for some job now; nothing when no mount has told of the link.
  std::optional<bool> IsRead(const Uuid& link, TimePoint now) const;

  /// The jobs that a mount reads the link for now.
  std::set<std::string> Readers(const Uuid& link, TimePoint now) const;
  /// The mounts that are kept of the job have all said that it is over there; false of one that no
  /// mount has told of.
  bool HasEnded(const JobKey& key) const;

  /// How nodes answered the mounts that read for `job`, over all of its links.
  std::map<std::string, proto::NodeAnswers> AnswersTo(const std::string& job) const;

  /// Nodes that are slow in the eyes of more than half of the mounts that read from them, and how
  /// many mounts these are. One mount whose own way to a node is slow is not the cluster's affair.
  std::map<std::string, std::uint32_t> SlowNodes(TimePoint now) const;

  /// Forgets what is over: to be called now and then.
  void Tidy(TimePoint now);

  /// A mount says at least every 30 s that it reads for a job.
  static constexpr Duration kMountSilent = std::chrono::seconds(90);
  /// A report whose reply was lost comes again; after this it does not.
  static constexpr Duration kEndedKept = std::chrono::minutes(5);
  /// Of all jobs; six jobs of each mount that is planned for (DESIGN section 11), in some 20 MiB.
  static constexpr std::size_t kMaxMounts = 65536;
  /// What so many mounts say of nodes tells a slow one; more are not listened to. Neither is what
  /// is said beyond so many rows, which are these mounts' of 1,000 nodes each.
  static constexpr std::size_t kMaxAnswering = 256;
  static constexpr std::size_t kMaxAnswers = 262144;

  std::size_t mounts() const { return mounts_; }     ///< Kept, of all jobs.
  std::size_t answers() const { return answered_; }  ///< Kept, of all mounts.

 private:
  /// One serial of one mount process.
  using Serial = std::pair<std::uint64_t, std::uint64_t>;
  struct Mount {
    proto::JobWaits waits;
    std::uint64_t generation = 0;
    std::uint32_t processes = 0;
    std::uint64_t touched_until = 0;
    bool ended = false;
    TimePoint heard;
  };
  struct Job {
    std::map<Serial, Mount> mounts;
    proto::JobWaits ended;  // of mounts that are no longer kept
    std::uint64_t generation = 0;
    std::string listing_digest;
    std::uint64_t link_blocks = 0;
    std::optional<EpochEstimate> estimate;
    std::uint64_t epoch = 0;
    double progress = 0;
    StatsBook::JobTotals early;
    TimePoint heard;
  };
  struct MountAnswers {
    std::map<std::string, proto::NodeAnswers> nodes;
    TimePoint heard;
  };

  Job* JobFor(const JobKey& key, TimePoint now);
  Mount& MountFor(Job& job, const Serial& serial, TimePoint now);
  static void Follow(Job& job, Mount& mount, const proto::MountJob& row);
  void DropMount(Job& job, std::map<Serial, Mount>::iterator mount);
  void DropOldestMounts(TimePoint now);
  void ForgetAnswers(TimePoint now, Duration silence);
  static bool Reads(const Mount& mount, TimePoint now);
  void TakeAnswers(const proto::ReportJobsRequest& request, TimePoint now);
  void MakeRoom();

  std::map<JobKey, Job> jobs_;
  std::size_t mounts_ = 0;                         // of jobs_
  std::size_t answered_ = 0;                       // rows of answers_
  std::map<std::uint64_t, MountAnswers> answers_;  // by the mount's incarnation
};

}  // namespace forebay
