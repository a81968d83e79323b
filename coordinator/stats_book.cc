#include "coordinator/stats_book.h"

#include <algorithm>

#include "common/model/limits.h"
#include "common/model/record_size.h"
#include "common/wire/messages.h"

namespace forebay {
namespace {

Totals SumOf(const std::map<Uuid, Totals>& links) {
  Totals sum;
  for (const auto& [link, totals] : links) sum += totals;
  return sum;
}

Totals Of(const std::map<Uuid, Totals>& links, const Uuid& link) {
  const auto found = links.find(link);
  return found == links.end() ? Totals() : found->second;
}

std::map<Uuid, Totals> FromStored(
    const google::protobuf::RepeatedPtrField<proto::LinkCounters>& rows) {
  std::map<Uuid, Totals> links;
  for (const proto::LinkCounters& row : rows) {
    links[UuidFromBytes(row.link())] = Totals::From(row);
  }
  return links;
}

void Store(const std::map<Uuid, Totals>& links,
           google::protobuf::RepeatedPtrField<proto::LinkCounters>& rows) {
  for (const auto& [link, totals] : links) {
    proto::LinkCounters& row = *rows.Add();
    row.set_link(BytesOf(link));
    totals.WriteTo(row);
  }
}

LinkPriority PriorityIn(const LinkPriorities& priorities, const Uuid& link) {
  const auto found = priorities.find(link);
  return found == priorities.end() ? LinkPriority::kNormal : found->second;
}

}  // namespace

void StatsBook::Restore(const std::string& node_id, const proto::NodeTotals& stored) {
  Node& node = nodes_[node_id];
  node.incarnation = stored.incarnation();
  node.ended = FromStored(stored.ended());
  node.live = FromStored(stored.live());
  node.ended_checksum_failures = stored.ended_checksum_failures();
  node.live_checksum_failures = stored.live_checksum_failures();
}

void StatsBook::BeginIncarnation(Node& node, std::uint64_t incarnation, TimePoint now) {
  for (const auto& [link, totals] : node.live) node.ended[link] += totals;
  node.live.clear();
  node.ended_checksum_failures += node.live_checksum_failures;
  node.live_checksum_failures = 0;
  for (const auto& [key, totals] : node.live_jobs) Fold(key, totals, now);
  node.live_jobs.clear();
  node.incarnation = incarnation;
}

void StatsBook::Report(const proto::HeartbeatRequest& heartbeat, TimePoint now) {
  Node& node = nodes_[heartbeat.node_id()];
  if (node.incarnation != heartbeat.incarnation()) {
    BeginIncarnation(node, heartbeat.incarnation(), now);
    node.unsaved = true;
  }
  node.cached.clear();
  for (const proto::LinkCounters& row : heartbeat.links()) {
    const Uuid link = UuidFromBytes(row.link());
    Totals& live = node.live[link];
    const Totals before = live;
    live.RaiseTo(Totals::From(row));
    if (live != before) node.unsaved = true;
    node.cached[link] = Cached{.blocks = row.cached_blocks(),
                               .bytes = row.cached_bytes(),
                               .pinned_bytes = row.pinned_bytes(),
                               .pins_version = row.pins_version(),
                               .in_use = row.in_use()};
  }
  if (heartbeat.checksum_failures() > node.live_checksum_failures) {
    node.live_checksum_failures = heartbeat.checksum_failures();
    node.unsaved = true;
  }
  ReportJobs(node, heartbeat, now);
  node.latest.arrived = now;
  node.latest.told = {.links_version = heartbeat.links_version(),
                      .fill_limits_version = heartbeat.fill_limits_version()};
  node.latest.disks.assign(heartbeat.disks().begin(), heartbeat.disks().end());
  node.latest.s3_waits.assign(heartbeat.s3_waits().begin(), heartbeat.s3_waits().end());
  node.latest.s3_refusals.assign(heartbeat.s3_refusals().begin(), heartbeat.s3_refusals().end());
  node.latest.blocks = heartbeat.blocks();
  node.latest.room_version = heartbeat.room_version();
  node.latest.blocks_set_aside = heartbeat.blocks_set_aside();
  node.latest.last_end = heartbeat.last_end();
  node.latest.running_s = heartbeat.running_s();
}

void StatsBook::ReportJobs(Node& node, const proto::HeartbeatRequest& heartbeat, TimePoint now) {
  std::map<JobKey, JobTotals> before;
  before.swap(node.live_jobs);
  for (const proto::JobCounters& row : heartbeat.jobs()) {
    JobKey key{.job = row.job(), .link = UuidFromBytes(row.link())};
    const JobTotals totals{.reads = row.reads(), .hits = row.hits()};
    const auto earlier = before.find(key);
    if (earlier == before.end() || earlier->second.reads != totals.reads) {
      ended_jobs_[key].last_seen = now;
    }
    // Fewer than before: the node had forgotten the job, which reads again.
    if (earlier != before.end() && earlier->second.reads <= totals.reads) before.erase(earlier);
    node.live_jobs[std::move(key)] = totals;
  }
  for (const auto& [key, totals] : before) Fold(key, totals, now);
}

void StatsBook::Fold(const JobKey& key, const JobTotals& totals, TimePoint now) {
  const auto [entry, made] = ended_jobs_.try_emplace(key);
  entry->second.totals.reads += totals.reads;
  entry->second.totals.hits += totals.hits;
  if (made) entry->second.last_seen = now;
}

void StatsBook::ForgetOldJobs(TimePoint now) {
  std::erase_if(ended_jobs_,
                [&](const auto& entry) { return now - entry.second.last_seen > kJobsShown; });
  while (ended_jobs_.size() > kMaxJobsShown) {
    ended_jobs_.erase(std::ranges::min_element(
        ended_jobs_, {}, [](const auto& entry) { return entry.second.last_seen; }));
  }
}

std::vector<std::pair<std::string, proto::NodeTotals>> StatsBook::TakeUnsaved() {
  std::vector<std::pair<std::string, proto::NodeTotals>> unsaved;
  for (auto& [id, node] : nodes_) {
    if (!node.unsaved) continue;
    node.unsaved = false;
    proto::NodeTotals stored;
    stored.set_incarnation(node.incarnation);
    Store(node.ended, *stored.mutable_ended());
    Store(node.live, *stored.mutable_live());
    stored.set_ended_checksum_failures(node.ended_checksum_failures);
    stored.set_live_checksum_failures(node.live_checksum_failures);
    unsaved.emplace_back(id, std::move(stored));
  }
  return unsaved;
}

void StatsBook::MarkUnsaved(const std::string& node_id) { nodes_[node_id].unsaved = true; }

Totals StatsBook::LinkTotals(const Uuid& link) const {
  Totals sum;
  for (const auto& [id, node] : nodes_) {
    sum += Of(node.ended, link);
    sum += Of(node.live, link);
  }
  return sum;
}

StatsBook::Cached StatsBook::LinkCached(const Uuid& link,
                                        const std::set<std::string>& nodes) const {
  Cached sum;
  for (const auto& [id, node] : nodes_) {
    const auto cached = node.cached.find(link);
    if (cached == node.cached.end() || !nodes.contains(id)) continue;
    sum.blocks += cached->second.blocks;
    sum.bytes += cached->second.bytes;
    sum.pinned_bytes += cached->second.pinned_bytes;
  }
  return sum;
}

Totals StatsBook::NodeTotals(const std::string& node_id) const {
  const auto node = nodes_.find(node_id);
  if (node == nodes_.end()) return {};
  Totals sum = SumOf(node->second.ended);
  sum += SumOf(node->second.live);
  return sum;
}

std::uint64_t StatsBook::NodeChecksumFailures(const std::string& node_id) const {
  const auto node = nodes_.find(node_id);
  if (node == nodes_.end()) return 0;
  return node->second.ended_checksum_failures + node->second.live_checksum_failures;
}

std::uint64_t StatsBook::NodeUsable(const std::string& node_id, std::uint64_t capacity) const {
  const auto node = nodes_.find(node_id);
  // An index takes less than this of any but the smallest capacity.
  if (node == nodes_.end() || node->second.latest.disks.empty()) return capacity - capacity / 32;
  std::uint64_t usable = 0;
  std::uint64_t split = 0;  // between disks: the end of each that no whole record fits into
  for (const proto::DiskReport& disk : node->second.latest.disks) {
    if (disk.usable_bytes() == 0) continue;
    if (usable > 0) split += RecordDiskBytes(kMaxBlockBytes);
    usable += disk.usable_bytes();
  }
  return usable - std::min(usable, split);
}

std::uint64_t StatsBook::NodeRoom(const std::string& node_id, std::uint64_t capacity,
                                  const Uuid& link, const LinkPriorities& priorities) const {
  const std::uint64_t usable = NodeUsable(node_id, capacity);
  const auto found = nodes_.find(node_id);
  if (found == nodes_.end()) return usable;
  const Node& node = found->second;
  std::uint64_t used = 0;
  for (const proto::DiskReport& disk : node.latest.disks) {
    if (disk.usable_bytes() > 0) used += disk.used_bytes();
  }
  used += node.latest.blocks * kIndexBytesPerBlock;
  const LinkPriority own = PriorityIn(priorities, link);
  double cached = 0;
  double idle = 0;
  for (const auto& [id, of_link] : node.cached) {
    cached += static_cast<double>(of_link.bytes);
    const LinkPriority priority = PriorityIn(priorities, id);
    const bool wanted = priority > own || (priority == own && of_link.in_use);
    const bool stays = wanted || id == link || of_link.pinned_bytes > of_link.bytes;
    if (!stays) idle += static_cast<double>(of_link.bytes - of_link.pinned_bytes);
  }
  // On disk it is more, by what headers and padding add here on average.
  const double evictable = cached > 0 ? idle / cached * static_cast<double>(used) : 0;
  const double stays = static_cast<double>(used) - evictable;
  return static_cast<std::uint64_t>(std::max(0.0, static_cast<double>(usable) - stays));
}

std::vector<proto::S3Wait> StatsBook::WaitsSince(TimePoint since) const {
  std::vector<proto::S3Wait> all;
  for (const auto& [id, node] : nodes_) {
    if (node.latest.arrived < since) continue;
    all.insert(all.end(), node.latest.s3_waits.begin(), node.latest.s3_waits.end());
  }
  return all;
}

StatsBook::Latest StatsBook::NodeLatest(const std::string& node_id) const {
  const auto node = nodes_.find(node_id);
  return node == nodes_.end() ? Latest() : node->second.latest;
}

std::map<JobKey, StatsBook::JobTotals> StatsBook::Jobs() const {
  std::map<JobKey, JobTotals> jobs;
  for (const auto& [key, ended] : ended_jobs_) jobs[key] = ended.totals;
  for (const auto& [id, node] : nodes_) {
    for (const auto& [key, live] : node.live_jobs) {
      const auto job = jobs.find(key);
      if (job == jobs.end()) continue;  // not seen for kJobsShown
      job->second.reads += live.reads;
      job->second.hits += live.hits;
    }
  }
  return jobs;
}

std::optional<TimePoint> StatsBook::JobLastRead(const std::string& job) const {
  std::optional<TimePoint> last;
  for (const auto& [key, ended] : ended_jobs_) {
    if (key.job == job && (!last || ended.last_seen > *last)) last = ended.last_seen;
  }
  return last;
}

std::optional<std::pair<std::string, TimePoint>> StatsBook::LinkLastRead(const Uuid& link) const {
  std::optional<std::pair<std::string, TimePoint>> last;
  for (const auto& [key, ended] : ended_jobs_) {
    if (key.link == link && (!last || ended.last_seen > last->second))
      last = {key.job, ended.last_seen};
  }
  return last;
}

std::vector<std::string> StatsBook::LinkReaders(const Uuid& link, TimePoint since) const {
  std::vector<std::string> readers;
  for (const auto& [key, ended] : ended_jobs_) {
    if (key.link == link && ended.last_seen > since) readers.push_back(key.job);
  }
  return readers;
}

std::map<Uuid, std::uint64_t> StatsBook::NodePins(const std::string& node_id) const {
  std::map<Uuid, std::uint64_t> pins;
  const auto node = nodes_.find(node_id);
  if (node == nodes_.end()) return pins;
  for (const auto& [link, cached] : node->second.cached) {
    if (cached.pins_version != 0) pins[link] = cached.pins_version;
  }
  return pins;
}

std::map<Uuid, Totals> StatsBook::AllLinks() const {
  std::map<Uuid, Totals> links;
  for (const auto& [id, node] : nodes_) {
    for (const auto& [link, totals] : node.ended) links[link] += totals;
    for (const auto& [link, totals] : node.live) links[link] += totals;
  }
  return links;
}

void StatsBook::Sample(TimePoint now) {
  samples_.emplace_back(now, AllLinks());
  while (now - samples_.front().first > kSamplesKept) samples_.pop_front();
  ForgetOldJobs(now);
}

StatsBook::Window StatsBook::Begin(Duration wanted, TimePoint now) const {
  const std::pair<TimePoint, std::map<Uuid, Totals>>* best = nullptr;
  for (const auto& sample : samples_) {
    if (best != nullptr && now - sample.first < wanted) break;
    best = &sample;
  }
  if (best == nullptr) return {};
  return Window{.length = now - best->first, .links = best->second};
}

}  // namespace forebay
