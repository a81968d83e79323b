#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "common/base/deadline.h"
#include "common/config/mount_config.h"
#include "common/model/object_version.h"
#include "fuse-client/job_table.h"

namespace forebay {

/// The job of a process or thread: that of its cgroups (job_cgroup.h), else the mount's; always the
/// mount's with JobFrom::kMount, and for 0 and those that are gone. Reads /proc. Thread-safe.
std::string JobOfProcess(const JobTable& table, JobFrom from, pid_t process);

/// Whose read it is: from the number of the thread that the kernel says has asked, to its job. The
/// job is that of the reader's cgroups (job_cgroup.h), else the mount's; always the mount's with
/// JobFrom::kMount, and for readers that nobody can name: the kernel itself and processes of
/// another pid namespace (number 0), those that are gone or hidden by now.
///
/// What was found is remembered under the thread's number, so that a read costs one look into a
/// hash table. After kBelieved the thread's start time is read from /proc again: another one means
/// that the number was given to a new thread. So reads of a new thread can count to the job of a
/// dead one only if the number came around within kBelieved, for which the kernel would have to
/// begin 32,768 threads or more in that time. The cgroups, which a process may change, are read
/// again after kCgroupsBelieved.
///
/// One per worker, on its thread only.
class JobFinder {
 public:
  JobFinder(JobTable& table, JobFrom from) : table_(table), from_(from) {}

  /// The job, on which a READ has begun (JobReads::Begin). Never null.
  std::shared_ptr<JobReads> BeginRead(pid_t thread, const Uuid& link, TimePoint now);

  static constexpr Duration kBelieved = std::chrono::seconds(1);
  static constexpr Duration kCgroupsBelieved = std::chrono::seconds(10);
  /// What is not used for kBelieved is forgotten first when there are more.
  static constexpr std::size_t kMaxThreads = 4096;
  static constexpr Duration kTidyEvery = std::chrono::seconds(60);

 private:
  struct Reader {
    std::string job;
    std::uint64_t start = 0;
    pid_t process = 0;  // 0 = not known
    std::uint64_t process_start = 0;
    TimePoint checked;
    TimePoint cgroups_read;
    std::vector<std::pair<Uuid, std::shared_ptr<JobReads>>> links = {};
  };

  Reader& ReaderOf(pid_t thread, TimePoint now);
  bool StillTrue(pid_t thread, Reader& reader, TimePoint now) const;
  Reader Ask(pid_t thread, TimePoint now) const;
  void MakeRoom(TimePoint now);
  std::shared_ptr<JobReads>& JobOn(Reader& reader, const Uuid& link);

  JobTable& table_;
  const JobFrom from_;
  std::unordered_map<pid_t, Reader> readers_;
  TimePoint tidied_;
};

}  // namespace forebay
