#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "common/base/deadline.h"
#include "common/model/object_version.h"
#include "fuse-client/job_reads.h"
#include "fuse-client/node_answers.h"
#include "fuse-client/process_files.h"

namespace forebay {

/// The jobs that read through this mount, each of their links apart. Thread-safe.
class JobTable {
 public:
  /// `mount_job` is the job of readers that are in none. It always has room.
  explicit JobTable(std::string mount_job, ProcessFiles files = ProcessFiles())
      : mount_job_(std::move(mount_job)), files_(std::move(files)) {}

  const std::string& mount_job() const { return mount_job_; }
  const ProcessFiles& files() const { return files_; }

  /// From now on jobs begin on `link` with these facts.
  void SetLink(const Uuid& link, LinkFacts facts);

  /// Goes on with the jobs of an earlier process; before any other begins.
  void Resume(std::vector<std::shared_ptr<JobReads>> jobs);

  /// The job with this id, which begins when there is none. Never null. When kMaxJobs read, the one
  /// that has not read for longest ends; while all of them read, a new one is counted to the
  /// mount's own.
  std::shared_ptr<JobReads> Open(const std::string& id, const Uuid& link);
  static constexpr std::size_t kMaxJobs = 256;

  std::vector<std::shared_ptr<JobReads>> All() const;

  /// Looks which processes live and ends the jobs that are over. An ended one stays until Remove.
  /// Reads /proc: on no worker's thread.
  void EndIdle(TimePoint now);
  void Remove(const std::shared_ptr<JobReads>& job);

  /// How fast nodes answer this mount's reads from their caches, over all jobs.
  NodeAnswers& answers() { return answers_; }

 private:
  using Key = std::pair<std::string, Uuid>;
  std::shared_ptr<JobReads> Begin(const Key& key);
  bool Full() const;
  void EndOldest();

  const std::string mount_job_;
  const ProcessFiles files_;
  NodeAnswers answers_;
  mutable std::mutex mutex_;
  std::map<Uuid, LinkFacts> links_;
  std::map<Key, std::shared_ptr<JobReads>> jobs_;
  std::vector<std::shared_ptr<JobReads>> ended_;  // waiting for their last report
  std::uint64_t next_serial_ = 1;
};

}  // namespace forebay
