#include "fuse-client/job_finder.h"

#include <algorithm>
#include <optional>

#include "fuse-client/job_cgroup.h"

namespace forebay {

std::string JobOfProcess(const JobTable& table, JobFrom from, pid_t process) {
  if (from == JobFrom::kMount || process <= 0) return table.mount_job();
  const std::optional<std::string> cgroups = table.files().CgroupsOf(process);
  const std::optional<std::string> job = cgroups ? JobOfCgroups(*cgroups) : std::nullopt;
  return job.value_or(table.mount_job());
}

JobFinder::Reader JobFinder::Ask(pid_t thread, TimePoint now) const {
  Reader reader{.job = table_.mount_job(), .checked = now, .cgroups_read = now};
  if (thread <= 0) return reader;
  const ProcessFiles& files = table_.files();
  const std::optional<std::uint64_t> start = files.StartOf(thread);
  if (!start) return reader;
  reader.start = *start;
  reader.job = JobOfProcess(table_, from_, thread);
  const std::optional<pid_t> process = files.ProcessOf(thread);
  const std::optional<std::uint64_t> began = process ? files.StartOf(*process) : std::nullopt;
  if (began) {
    reader.process = *process;
    reader.process_start = *began;
  }
  return reader;
}

bool JobFinder::StillTrue(pid_t thread, Reader& reader, TimePoint now) const {
  if (now - reader.checked < kBelieved) return true;
  if (thread <= 0) return true;
  const std::optional<std::uint64_t> start = table_.files().StartOf(thread);
  if (!start || *start != reader.start) return false;
  reader.checked = now;
  if (now - reader.cgroups_read < kCgroupsBelieved) return true;
  reader.cgroups_read = now;
  return JobOfProcess(table_, from_, thread) == reader.job;
}

void JobFinder::MakeRoom(TimePoint now) {
  const bool full = readers_.size() >= kMaxThreads;
  if (!full && now - tidied_ < kTidyEvery) return;
  tidied_ = now;
  // A thread that has not read for a while may have gone, and its job with it.
  const Duration kept = full ? kBelieved : kTidyEvery;
  std::erase_if(readers_, [&](const auto& reader) { return now - reader.second.checked > kept; });
  if (readers_.size() >= kMaxThreads) readers_.clear();
}

JobFinder::Reader& JobFinder::ReaderOf(pid_t thread, TimePoint now) {
  const auto found = readers_.find(thread);
  if (found != readers_.end()) {
    if (StillTrue(thread, found->second, now)) return found->second;
    found->second = Ask(thread, now);
    return found->second;
  }
  MakeRoom(now);
  return readers_.emplace(thread, Ask(thread, now)).first->second;
}

std::shared_ptr<JobReads>& JobFinder::JobOn(Reader& reader, const Uuid& link) {
  const auto found =
      std::ranges::find(reader.links, link, &std::pair<Uuid, std::shared_ptr<JobReads>>::first);
  if (found != reader.links.end()) return found->second;
  std::shared_ptr<JobReads>& job =
      reader.links.emplace_back(link, table_.Open(reader.job, link)).second;
  if (reader.process != 0) job->AddProcess(reader.process, reader.process_start);
  return job;
}

std::shared_ptr<JobReads> JobFinder::BeginRead(pid_t thread, const Uuid& link, TimePoint now) {
  Reader& reader = ReaderOf(thread, now);
  for (;;) {
    const std::shared_ptr<JobReads> job = JobOn(reader, link);
    if (job->Begin(now)) return job;
    // It ended since: the same job begins again.
    std::erase_if(reader.links, [&](const auto& entry) { return entry.first == link; });
  }
}

}  // namespace forebay
