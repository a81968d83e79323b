#include "cachenode/node_counters.h"

namespace forebay {

std::shared_ptr<LinkCount> NodeCounters::OfLink(const Uuid& link) {
  const auto find = [&link](const LinkCounts& links) {
    const auto found = links.find(link);
    return found == links.end() ? nullptr : found->second;
  };
  if (std::shared_ptr<LinkCount> known = links_.Read(find)) return known;
  const std::scoped_lock lock(mutex_);
  if (std::shared_ptr<LinkCount> known = links_.Read(find)) return known;
  LinkCounts links = links_.Copy();
  auto count = std::make_shared<LinkCount>();
  links.emplace(link, count);
  links_.Publish(std::move(links));
  return count;
}

void NodeCounters::CountJob(const std::string& job, const Uuid& link, bool hit) {
  if (job.empty() || job.size() > kMaxJobIdBytes) return;
  const std::pair<std::string, Uuid> key(job, link);
  const auto count = [&](const JobCounts& jobs) {
    const auto found = jobs.find(key);
    if (found == jobs.end()) return jobs.size() >= kMaxJobs;
    found->second->reads.fetch_add(1, std::memory_order_relaxed);
    if (hit) found->second->hits.fetch_add(1, std::memory_order_relaxed);
    return true;
  };
  if (jobs_.Read(count)) return;
  const std::scoped_lock lock(mutex_);
  if (jobs_.Read(count)) return;
  JobCounts jobs = jobs_.Copy();
  auto counts = std::make_shared<ReadsAndHits>();
  counts->reads = 1;
  counts->hits = hit ? 1 : 0;
  jobs.emplace(key, std::move(counts));
  jobs_.Publish(std::move(jobs));
}

void NodeCounters::ForgetIdleJobs(TimePoint now) {
  const std::scoped_lock lock(mutex_);
  JobCounts jobs = jobs_.Copy();
  const std::size_t before = jobs.size();
  const Duration kept = before > kMaxJobs / 2 ? kJobKeptFull : kJobKept;
  std::erase_if(jobs, [&](const auto& entry) {
    ReadsAndHits& counts = *entry.second;
    const std::uint64_t reads = counts.reads.load(std::memory_order_relaxed);
    if (reads != counts.seen) {
      counts.seen = reads;
      counts.seen_at = now;
      return false;
    }
    return now - counts.seen_at > kept;
  });
  if (jobs.size() != before) jobs_.Publish(std::move(jobs));
}

std::vector<std::pair<Uuid, std::shared_ptr<const LinkCount>>> NodeCounters::Links() const {
  const LinkCounts known = links_.Copy();
  return {known.begin(), known.end()};
}

std::vector<JobCount> NodeCounters::Jobs() const {
  const JobCounts known = jobs_.Copy();
  std::vector<JobCount> jobs;
  jobs.reserve(known.size());
  for (const auto& [key, counts] : known) {
    jobs.push_back(JobCount{.job = key.first,
                            .link = key.second,
                            .reads = counts->reads.load(std::memory_order_relaxed),
                            .hits = counts->hits.load(std::memory_order_relaxed)});
  }
  return jobs;
}

}  // namespace forebay
