#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <unordered_map>

#include "common/base/deadline.h"
#include "coordinator/job_key.h"
#include "proto/coordinator.pb.h"

namespace forebay {

/// Which jobs read so much of a link within a minute that the rest of it is worth fetching
/// (common/model/read_through.h): the distinct blocks of all mounts that read for the job,
/// together. At most about two thousand blocks of a job are kept, and kMaxBlocks of all jobs. Pure:
/// time is given. Not thread-safe.
class ReadThroughs {
 public:
  /// A mount's row. True when the job has read enough by now.
  bool Add(const JobKey& key, const proto::MountJob& row, TimePoint now);
  void Forget(const JobKey& key);
  /// Forgets what is over: to be called now and then.
  void Tidy(TimePoint now);
  std::size_t jobs() const { return jobs_.size(); }
  std::size_t blocks() const { return blocks_; }  ///< Of all jobs.

  /// A thousand jobs that read through a link in one minute, in some 50 MiB.
  static constexpr std::size_t kMaxBlocks = std::size_t{1} << 20;

 private:
  using Blocks = std::unordered_map<std::uint64_t, TimePoint>;  // when each was last told of

  void ForgetOld(Blocks& blocks, TimePoint now);

  std::map<JobKey, Blocks> jobs_;
  std::size_t blocks_ = 0;  // of jobs_
};

}  // namespace forebay
