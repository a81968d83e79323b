#include "cachenode/node_counters.h"

namespace forebay {

std::shared_ptr<LinkCount> NodeCounters::OfLink(const Uuid& link) {
  {
    const std::shared_lock lock(mutex_);
    auto found = links_.find(link);
    if (found != links_.end()) return found->second;
  }
  const std::unique_lock lock(mutex_);
  std::shared_ptr<LinkCount>& count = links_[link];
  if (!count) count = std::make_shared<LinkCount>();
  return count;
}

void NodeCounters::CountJob(const std::string& job, const Uuid& link, bool hit) {
  if (job.empty() || job.size() > kMaxJobIdBytes) return;
  const std::pair<std::string, Uuid> key(job, link);
  const auto count = [hit](ReadsAndHits& counts) {
    counts.reads.fetch_add(1, std::memory_order_relaxed);
    if (hit) counts.hits.fetch_add(1, std::memory_order_relaxed);
  };
  {
    const std::shared_lock lock(mutex_);
    auto found = jobs_.find(key);
    if (found != jobs_.end()) {
      count(*found->second);
      return;
    }
  }
  const std::unique_lock lock(mutex_);
  if (jobs_.size() >= kMaxJobs) return;
  std::unique_ptr<ReadsAndHits>& counts = jobs_[key];
  if (!counts) counts = std::make_unique<ReadsAndHits>();
  count(*counts);
}

void NodeCounters::ForgetIdleJobs(TimePoint now) {
  const std::unique_lock lock(mutex_);
  const Duration kept = jobs_.size() > kMaxJobs / 2 ? kJobKeptFull : kJobKept;
  std::erase_if(jobs_, [&](const auto& entry) {
    ReadsAndHits& counts = *entry.second;
    const std::uint64_t reads = counts.reads.load(std::memory_order_relaxed);
    if (reads != counts.seen) {
      counts.seen = reads;
      counts.seen_at = now;
      return false;
    }
    return now - counts.seen_at > kept;
  });
}

std::vector<std::pair<Uuid, std::shared_ptr<const LinkCount>>> NodeCounters::Links() const {
  const std::shared_lock lock(mutex_);
  std::vector<std::pair<Uuid, std::shared_ptr<const LinkCount>>> links;
  links.reserve(links_.size());
  for (const auto& [link, count] : links_) links.emplace_back(link, count);
  return links;
}

std::vector<JobCount> NodeCounters::Jobs() const {
  const std::shared_lock lock(mutex_);
  std::vector<JobCount> jobs;
  jobs.reserve(jobs_.size());
  for (const auto& [key, counts] : jobs_) {
    jobs.push_back(JobCount{.job = key.first,
                            .link = key.second,
                            .reads = counts->reads.load(std::memory_order_relaxed),
                            .hits = counts->hits.load(std::memory_order_relaxed)});
  }
  return jobs;
}

}  // namespace forebay
