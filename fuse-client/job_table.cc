#include "fuse-client/job_table.h"

#include <algorithm>

namespace forebay {

namespace {

/// Ended jobs that wait for a coordinator to take their last report; more than these are forgotten.
constexpr std::size_t kMaxEnded = 256;

}  // namespace

void JobTable::SetLink(const Uuid& link, LinkFacts facts) {
  std::scoped_lock lock(mutex_);
  links_[link] = std::move(facts);
}

void JobTable::Resume(std::vector<std::shared_ptr<JobReads>> jobs) {
  std::scoped_lock lock(mutex_);
  for (std::shared_ptr<JobReads>& job : jobs) {
    next_serial_ = std::max(next_serial_, job->serial() + 1);
    jobs_[Key(job->id(), job->link())] = std::move(job);
  }
}

std::shared_ptr<JobReads> JobTable::Begin(const Key& key) {
  const auto facts = links_.find(key.second);
  auto job = std::make_shared<JobReads>(key.first, key.second,
                                        facts == links_.end() ? LinkFacts() : facts->second,
                                        next_serial_++, Clock::now());
  jobs_[key] = job;
  return job;
}

bool JobTable::Full() const {
  const auto others =
      std::ranges::count_if(jobs_, [&](const auto& job) { return job.first.first != mount_job_; });
  return static_cast<std::size_t>(others) >= kMaxJobs;
}

void JobTable::EndOldest() {
  auto oldest = jobs_.end();
  TimePoint read_at = TimePoint::max();
  for (auto entry = jobs_.begin(); entry != jobs_.end(); ++entry) {
    const TimePoint last = entry->second->Look().last_read;
    if (last >= read_at || entry->first.first == mount_job_) continue;
    read_at = last;
    oldest = entry;
  }
  if (oldest == jobs_.end() || !oldest->second->EndUnlessReading()) return;
  ended_.push_back(oldest->second);
  jobs_.erase(oldest);
}

std::shared_ptr<JobReads> JobTable::Open(const std::string& id, const Uuid& link) {
  std::scoped_lock lock(mutex_);
  Key key(id, link);
  if (const auto found = jobs_.find(key); found != jobs_.end()) {
    if (!found->second->Look().ended) return found->second;
    ended_.push_back(found->second);
    jobs_.erase(found);
  }
  if (id == mount_job_) return Begin(key);
  if (Full()) EndOldest();
  if (!Full()) return Begin(key);
  key.first = mount_job_;
  const auto own = jobs_.find(key);
  return own == jobs_.end() || own->second->Look().ended ? Begin(key) : own->second;
}

std::vector<std::shared_ptr<JobReads>> JobTable::All() const {
  std::scoped_lock lock(mutex_);
  std::vector<std::shared_ptr<JobReads>> all = ended_;
  for (const auto& [key, job] : jobs_) all.push_back(job);
  return all;
}

void JobTable::EndIdle(TimePoint now) {
  for (const std::shared_ptr<JobReads>& job : All()) job->CountProcesses(files_);
  std::scoped_lock lock(mutex_);
  for (auto entry = jobs_.begin(); entry != jobs_.end();) {
    if (!entry->second->EndIfIdle(now)) {
      ++entry;
      continue;
    }
    ended_.push_back(entry->second);
    entry = jobs_.erase(entry);
  }
  if (ended_.size() > kMaxEnded) {
    ended_.erase(ended_.begin(), ended_.end() - static_cast<std::ptrdiff_t>(kMaxEnded));
  }
}

void JobTable::Remove(const std::shared_ptr<JobReads>& job) {
  std::scoped_lock lock(mutex_);
  std::erase(ended_, job);
}

}  // namespace forebay
