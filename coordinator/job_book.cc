#include "coordinator/job_book.h"

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

#include "common/model/limits.h"
#include "common/wire/messages.h"

namespace forebay {
namespace {

/// What one mount says of nodes; a ring has no more.
constexpr std::size_t kMaxAnswersOfMount = 4096;
/// Longer than a digest, and than the id of a node.
constexpr std::size_t kLongestDigest = 255;
constexpr std::size_t kLongestNode = 255;
/// So many leave at a time, so that room is seldom looked for.
constexpr std::size_t kDroppedAtOnce = JobBook::kMaxMounts / 16;

}  // namespace

void AddWaits(const proto::JobWaits& waits, proto::JobWaits& sum) {
  sum.set_reads(sum.reads() + waits.reads());
  sum.set_failed_reads(sum.failed_reads() + waits.failed_reads());
  sum.set_local_bytes(sum.local_bytes() + waits.local_bytes());
  sum.set_peer_bytes(sum.peer_bytes() + waits.peer_bytes());
  sum.set_s3_bytes(sum.s3_bytes() + waits.s3_bytes());
  sum.set_local_us(sum.local_us() + waits.local_us());
  sum.set_peer_us(sum.peer_us() + waits.peer_us());
  sum.set_s3_us(sum.s3_us() + waits.s3_us());
  sum.set_detour_us(sum.detour_us() + waits.detour_us());
  sum.set_busy_us(sum.busy_us() + waits.busy_us());
}

bool JobBook::Reads(const Mount& mount, TimePoint now) {
  return !mount.ended && now - mount.heard < kMountSilent;
}

void JobBook::DropMount(Job& job, std::map<Serial, Mount>::iterator mount) {
  AddWaits(mount->second.waits, job.ended);
  job.mounts.erase(mount);
  --mounts_;
}

// Those that read no more, and then those heard least recently.
void JobBook::DropOldestMounts(TimePoint now) {
  struct Place {
    bool reads;
    TimePoint heard;
    Job* job;
    std::map<Serial, Mount>::iterator mount;
  };
  std::vector<Place> places;
  places.reserve(mounts_);
  for (auto& [key, job] : jobs_) {
    for (auto mount = job.mounts.begin(); mount != job.mounts.end(); ++mount)
      places.push_back({Reads(mount->second, now), mount->second.heard, &job, mount});
  }
  const auto end =
      places.begin() + static_cast<std::ptrdiff_t>(std::min(kDroppedAtOnce, places.size() - 1));
  std::ranges::nth_element(places, end, {},
                           [](const Place& place) { return std::pair(place.reads, place.heard); });
  for (auto place = places.begin(); place != end; ++place) DropMount(*place->job, place->mount);
}

JobBook::Mount& JobBook::MountFor(Job& job, const Serial& serial, TimePoint now) {
  const auto found = job.mounts.find(serial);
  if (found != job.mounts.end()) return found->second;
  if (mounts_ >= kMaxMounts) DropOldestMounts(now);
  ++mounts_;
  return job.mounts[serial];
}

// The one that was heard least recently leaves; one that reads, only if all do.
void JobBook::MakeRoom() {
  const auto oldest =
      std::ranges::min_element(jobs_, {}, [](const auto& entry) { return entry.second.heard; });
  if (oldest == jobs_.end()) return;
  mounts_ -= oldest->second.mounts.size();
  jobs_.erase(oldest);
}

JobBook::Job* JobBook::JobFor(const JobKey& key, TimePoint now) {
  if (key.job.empty() || key.job.size() > kMaxJobIdBytes) return nullptr;
  const auto found = jobs_.find(key);
  if (found == jobs_.end() && jobs_.size() >= kMaxJobsShown) MakeRoom();
  Job& job = found == jobs_.end() ? jobs_[key] : found->second;
  job.heard = now;
  return &job;
}

void JobBook::Follow(Job& job, Mount& mount, const proto::MountJob& row) {
  const BlockSample sample(row.link_blocks());
  // A refresh changes how many blocks there are, and perhaps which of them are in the sample: the
  // epoch is estimated anew, under its number.
  const bool other_link = row.generation() > job.generation && row.link_blocks() != job.link_blocks;
  if (row.link_blocks() > 0 && (!job.estimate || other_link)) {
    job.estimate.emplace(sample.size(), std::max(job.epoch, row.epoch()));
    job.link_blocks = row.link_blocks();
  }
  if (row.generation() >= job.generation) {
    job.generation = row.generation();
    job.listing_digest = row.listing_digest().substr(0, kLongestDigest);
  }
  std::uint64_t number = row.touched_from();
  for (const std::uint32_t place : row.touched()) {
    const bool known = number++ < mount.touched_until;
    if (known || place >= BlockSample::kPlaces || !job.estimate) continue;
    job.estimate->Touch(place);
  }
  mount.touched_until = std::max(mount.touched_until, number);
  if (!job.estimate) return;
  job.epoch = job.estimate->epoch();
  job.progress = job.estimate->progress();
}

std::vector<JobKey> JobBook::Report(const proto::ReportJobsRequest& request, TimePoint now,
                                    proto::ReportJobsReply& reply) {
  std::vector<JobKey> second_epoch;
  for (const proto::MountJob& row : request.jobs()) {
    proto::JobProgress& progress = *reply.add_jobs();
    progress.set_job(row.job());
    progress.set_link(row.link());
    progress.set_touched_until(row.touched_from() + static_cast<std::uint64_t>(row.touched_size()));
    JobKey key{.job = row.job(), .link = UuidFromBytes(row.link())};
    Job* job = JobFor(key, now);
    if (job == nullptr) continue;
    const std::uint64_t epoch_before = job->epoch;
    Mount& mount = MountFor(*job, Serial(request.incarnation(), row.serial()), now);
    mount.waits = row.waits();
    mount.generation = row.generation();
    mount.processes = row.processes();
    mount.ended = row.ended();
    mount.heard = now;
    Follow(*job, mount, row);
    progress.set_epoch(job->epoch);
    progress.set_progress(job->progress);
    if (epoch_before == 1 && job->epoch == 2) second_epoch.push_back(std::move(key));
  }
  TakeAnswers(request, now);
  return second_epoch;
}

void JobBook::TakeAnswers(const proto::ReportJobsRequest& request, TimePoint now) {
  if (answers_.size() >= kMaxAnswering && !answers_.contains(request.incarnation())) {
    ForgetAnswers(now, kMountSilent);
    if (answers_.size() >= kMaxAnswering) return;
  }
  MountAnswers& mount = answers_[request.incarnation()];
  mount.heard = now;
  for (const proto::NodeAnswers& row : request.nodes()) {
    if (row.node().size() > kLongestNode) continue;
    const bool is_new = !mount.nodes.contains(row.node());
    const bool has_room = mount.nodes.size() < kMaxAnswersOfMount && answered_ < kMaxAnswers;
    if (is_new && !has_room) continue;
    if (is_new) ++answered_;
    mount.nodes[row.node()] = row;
  }
}

void JobBook::ForgetAnswers(TimePoint now, Duration silence) {
  std::erase_if(answers_, [&](const auto& entry) {
    const bool over = now - entry.second.heard > silence;
    if (over) answered_ -= entry.second.nodes.size();
    return over;
  });
}

std::map<std::string, std::uint32_t> JobBook::SlowNodes(TimePoint now) const {
  std::map<std::string, std::uint32_t> slow;
  std::map<std::string, std::uint32_t> all;
  for (const auto& [incarnation, mount] : answers_) {
    if (now - mount.heard > kMountSilent) continue;
    for (const auto& [id, row] : mount.nodes) {
      ++all[id];
      if (row.slow()) ++slow[id];
    }
  }
  std::erase_if(slow, [&](const auto& row) { return 2 * row.second <= all[row.first]; });
  return slow;
}

void JobBook::SetEarly(const JobKey& key, const StatsBook::JobTotals& early) {
  const auto job = jobs_.find(key);
  if (job != jobs_.end()) job->second.early = early;
}

std::map<JobKey, JobBook::View> JobBook::Jobs(TimePoint now) const {
  std::map<JobKey, View> views;
  for (const auto& [key, job] : jobs_) {
    View view{.generation = job.generation,
              .listing_digest = job.listing_digest,
              .epoch = job.epoch,
              .progress = job.progress,
              .waits = job.ended,
              .early = job.early};
    for (const auto& [serial, mount] : job.mounts) {
      AddWaits(mount.waits, view.waits);
      if (!Reads(mount, now)) continue;
      ++view.mounts;
      view.processes += mount.processes;
    }
    views.emplace(key, std::move(view));
  }
  return views;
}

std::optional<bool> JobBook::IsRead(const Uuid& link, TimePoint now) const {
  std::optional<bool> read;
  for (const auto& [key, job] : jobs_) {
    if (key.link != link) continue;
    read = std::ranges::any_of(job.mounts,
                               [&](const auto& mount) { return Reads(mount.second, now); });
    if (*read) break;
  }
  return read;
}

std::set<std::string> JobBook::Readers(const Uuid& link, TimePoint now) const {
  std::set<std::string> readers;
  for (const auto& [key, job] : jobs_) {
    const bool reads = key.link == link && std::ranges::any_of(job.mounts, [&](const auto& mount) {
                         return Reads(mount.second, now);
                       });
    if (reads) readers.insert(key.job);
  }
  return readers;
}

bool JobBook::HasEnded(const JobKey& key) const {
  const auto job = jobs_.find(key);
  return job != jobs_.end() && std::ranges::all_of(job->second.mounts, [](const auto& mount) {
           return mount.second.ended;
         });
}

std::map<std::string, proto::NodeAnswers> JobBook::AnswersTo(const std::string& job_id) const {
  std::map<std::uint64_t, const MountAnswers*> mounts;
  for (const auto& [key, job] : jobs_) {
    if (key.job != job_id) continue;
    for (const auto& [serial, mount] : job.mounts) {
      const auto answers = answers_.find(serial.first);
      if (answers != answers_.end()) mounts[serial.first] = &answers->second;
    }
  }
  std::map<std::string, proto::NodeAnswers> sums;
  for (const auto& [incarnation, answers] : mounts) {
    for (const auto& [id, row] : answers->nodes) {
      proto::NodeAnswers& sum = sums[id];
      sum.set_node(id);
      sum.set_reads(sum.reads() + row.reads());
      sum.set_wait_us(sum.wait_us() + row.wait_us());
    }
  }
  return sums;
}

void JobBook::Tidy(TimePoint now) {
  for (auto& [key, job] : jobs_) {
    bool reads = false;
    for (auto mount = job.mounts.begin(); mount != job.mounts.end();) {
      const auto here = mount++;
      const Duration silence = now - here->second.heard;
      reads = reads || Reads(here->second, now);
      // One that fell silent may still come back with its totals, as long as its job is shown.
      const bool over = silence > (here->second.ended ? Duration(kEndedKept) : kJobsShown);
      if (over) DropMount(job, here);
    }
    // The numbers stay; a job that reads on begins its estimate with them.
    if (!reads) job.estimate.reset();
  }
  std::erase_if(jobs_, [&](const auto& entry) {
    const bool over = now - entry.second.heard > kJobsShown;
    if (over) mounts_ -= entry.second.mounts.size();
    return over;
  });
  ForgetAnswers(now, kJobsShown);
}

}  // namespace forebay
