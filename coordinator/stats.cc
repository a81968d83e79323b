#include "coordinator/stats.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <boost/asio/this_coro.hpp>
#include <chrono>
#include <optional>
#include <utility>

#include "common/base/nearest.h"
#include "common/base/wall_clock.h"
#include "common/model/limits.h"
#include "common/wire/messages.h"
#include "coordinator/records.h"

namespace forebay {
namespace {

constexpr const char* kStatsPrefix = "stats/";

/// A heartbeat that arrives sooner than this after a moment may have been made before it.
constexpr std::chrono::milliseconds kHeartbeatFlight{100};

void Write(const JobBook::View& view, proto::JobStats& row) {
  // What the job reads, which after a refresh is an older one until it mounts again.
  if (view.generation != 0) {
    row.set_generation(view.generation);
    row.set_listing_digest(view.listing_digest);
  }
  row.set_mounts(view.mounts);
  row.set_processes(view.processes);
  row.set_epoch(view.epoch);
  row.set_progress(view.progress);
  *row.mutable_waits() = view.waits;
  row.set_early_reads(view.epoch < 2 ? row.reads() : view.early.reads);
  row.set_early_hits(view.epoch < 2 ? row.hits() : view.early.hits);
}

std::uint64_t SecondsOf(Duration time) {
  return static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::seconds>(time).count());
}

}  // namespace

ClusterStats::ClusterStats(StateStore& store, std::uint64_t fence, Offload& offload)
    : store_(store), fence_(fence), offload_(offload) {}

Status ClusterStats::Load() {
  auto rows = store_.Scan(kStatsPrefix);
  if (!rows) return Fail(rows.error());
  std::scoped_lock lock(mutex_);
  for (const auto& [key, value] : *rows) {
    proto::NodeTotals stored;
    Status decoded = DecodeRecord(value, stored);
    if (!decoded) return Fail(decoded.error().Within("reading " + key));
    book_.Restore(key.substr(std::string_view(kStatsPrefix).size()), stored);
  }
  book_.Sample(Clock::now());
  return {};
}

void ClusterStats::Report(const proto::HeartbeatRequest& heartbeat) {
  std::optional<std::string> about_clock;
  {
    std::scoped_lock lock(mutex_);
    const TimePoint now = Clock::now();
    book_.Report(heartbeat, now);
    about_clock =
        clocks_.Note(heartbeat.node_id(), heartbeat.clock_unix_ms(), UnixMilliseconds(), now);
  }
  if (about_clock) spdlog::warn("{}", *about_clock);
  reported_.NotifyAll();
}

std::optional<ClockWatch::View> ClusterStats::NodeClock(const std::string& node_id) const {
  std::scoped_lock lock(mutex_);
  return clocks_.Of(node_id, Clock::now());
}

bool ClusterStats::AllReported(const std::vector<NodeInfo>& nodes, TimePoint since) const {
  std::scoped_lock lock(mutex_);
  return std::ranges::all_of(nodes, [&](const NodeInfo& node) {
    return book_.NodeLatest(node.id).arrived >= since + kHeartbeatFlight;
  });
}

Task<void> ClusterStats::WaitForReports(std::vector<NodeInfo> nodes, TimePoint since,
                                        Deadline deadline) {
  asio::any_io_executor executor = co_await asio::this_coro::executor;
  for (;;) {
    Notifier::Ticket ticket = reported_.Enlist(executor);
    if (AllReported(nodes, since)) co_return;
    const bool notified = co_await ticket.Wait(deadline);
    if (!notified) co_return;
  }
}

bool ClusterStats::KnowsRoom(const std::vector<proto::NodeEvicted>& evicted) const {
  std::scoped_lock lock(mutex_);
  return std::ranges::all_of(evicted, [&](const proto::NodeEvicted& node) {
    return book_.NodeLatest(node.node_id()).room_version >= node.room_version();
  });
}

Task<void> ClusterStats::WaitForRoom(std::vector<proto::NodeEvicted> evicted, Deadline deadline) {
  asio::any_io_executor executor = co_await asio::this_coro::executor;
  for (bool in_time = true; in_time;) {
    Notifier::Ticket ticket = reported_.Enlist(executor);
    if (KnowsRoom(evicted)) co_return;
    in_time = co_await ticket.Wait(deadline);
  }
}

std::vector<std::string> ClusterStats::NotTold(const std::vector<MemberView>& members,
                                               const Decisions& wanted, bool only_up) const {
  std::vector<std::string> not_told;
  std::scoped_lock lock(mutex_);
  for (const MemberView& member : members) {
    const NodeState state = member.info.state;
    if (state == NodeState::kOut || (only_up && state == NodeState::kSuspect)) continue;
    if (!book_.NodeLatest(member.info.id).told.Cover(wanted)) not_told.push_back(member.info.id);
  }
  return not_told;
}

Task<std::vector<std::string>> ClusterStats::WaitUntilTold(std::vector<MemberView> members,
                                                           Decisions wanted, Deadline deadline) {
  asio::any_io_executor executor = co_await asio::this_coro::executor;
  for (bool in_time = true; in_time;) {
    Notifier::Ticket ticket = reported_.Enlist(executor);
    if (NotTold(members, wanted, true).empty()) break;
    in_time = co_await ticket.Wait(deadline);
  }
  co_return NotTold(members, wanted, false);
}

std::optional<Duration> ClusterStats::JobIdle(const std::string& job) const {
  std::scoped_lock lock(mutex_);
  const std::optional<TimePoint> last = book_.JobLastRead(job);
  if (!last) return std::nullopt;
  return Clock::now() - *last;
}

std::optional<bool> ClusterStats::IsRead(const Uuid& link) const {
  std::scoped_lock lock(mutex_);
  return jobs_.IsRead(link, Clock::now());
}

std::optional<JobActivity> ClusterStats::LastReader(const Uuid& link) const {
  std::scoped_lock lock(mutex_);
  const auto last = book_.LinkLastRead(link);
  if (!last) return std::nullopt;
  return JobActivity{.job = last->first, .idle = Clock::now() - last->second};
}

std::set<std::string> ClusterStats::ReadersNow(const Uuid& link) const {
  std::scoped_lock lock(mutex_);
  const TimePoint now = Clock::now();
  std::set<std::string> readers = jobs_.Readers(link, now);
  for (std::string& job : book_.LinkReaders(link, now - kJobEnds)) {
    if (!jobs_.HasEnded({.job = job, .link = link})) readers.insert(std::move(job));
  }
  return readers;
}

std::map<Uuid, std::uint64_t> ClusterStats::NodePins(const std::string& node_id) const {
  std::scoped_lock lock(mutex_);
  return book_.NodePins(node_id);
}

std::uint64_t ClusterStats::NodeUsable(const NodeInfo& node) const {
  std::scoped_lock lock(mutex_);
  return book_.NodeUsable(node.id, node.capacity_bytes);
}

std::uint64_t ClusterStats::RoomFor(const Uuid& link, const LinkPriorities& priorities,
                                    const std::vector<NodeInfo>& nodes) const {
  std::scoped_lock lock(mutex_);
  std::uint64_t room = 0;
  for (const NodeInfo& node : nodes) {
    // One that is to go takes no new blocks.
    if (node.state == NodeState::kDraining) continue;
    room += book_.NodeRoom(node.id, node.capacity_bytes, link, priorities);
  }
  return room;
}

std::uint64_t ClusterStats::CachedBytes(const Uuid& link,
                                        const std::vector<NodeInfo>& nodes) const {
  std::set<std::string> ids;
  for (const NodeInfo& node : nodes) ids.insert(node.id);
  std::scoped_lock lock(mutex_);
  return book_.LinkCached(link, ids).bytes;
}

std::optional<std::uint64_t> ClusterStats::CachedBytesAt(const std::string& node,
                                                         const Uuid& link) const {
  std::scoped_lock lock(mutex_);
  if (book_.NodeLatest(node).arrived == TimePoint()) return std::nullopt;
  return book_.LinkCached(link, {node}).bytes;
}

void ClusterStats::Sample() {
  std::scoped_lock lock(mutex_);
  book_.Sample(Clock::now());
  jobs_.Tidy(Clock::now());
}

Task<Status> ClusterStats::Save() {
  auto work = [this] { return SaveNow(); };
  Status saved = co_await offload_.Run(std::move(work));
  co_return saved;
}

Status ClusterStats::SaveNow() {
  // Whoever comes second finds stored what the first one took.
  const std::scoped_lock one_at_a_time(save_mutex_);
  std::vector<std::pair<std::string, proto::NodeTotals>> unsaved;
  {
    std::scoped_lock lock(mutex_);
    unsaved = book_.TakeUnsaved();
  }
  if (unsaved.empty()) return {};
  StateBatch batch;
  for (const auto& [id, totals] : unsaved) {
    batch.Put(kStatsPrefix + id, totals.SerializeAsString());
  }
  Status written = store_.Write(batch, fence_);
  if (!written) {
    std::scoped_lock lock(mutex_);
    for (const auto& [id, totals] : unsaved) book_.MarkUnsaved(id);
  }
  return written;
}

void ClusterStats::Describe(const std::vector<Link>& links, const std::vector<MemberView>& members,
                            Duration window, proto::StatsReply& reply) const {
  std::set<std::string> present;
  for (const MemberView& member : members) {
    if (member.info.state != NodeState::kOut) present.insert(member.info.id);
  }
  std::scoped_lock lock(mutex_);
  const StatsBook::Window begun = book_.Begin(window, Clock::now());
  reply.set_window_seconds(
      static_cast<std::uint32_t>(std::chrono::ceil<std::chrono::seconds>(begun.length).count()));
  for (const Link& link : links) {
    const Uuid& id = link.spec.id;
    const Totals totals = book_.LinkTotals(id);
    const auto before = begun.links.find(id);
    const Totals base = before == begun.links.end() ? Totals() : before->second;
    const StatsBook::Cached cached = book_.LinkCached(id, present);
    proto::LinkStats& row = *reply.add_links();
    totals.WriteTo(*row.mutable_total());
    row.mutable_total()->set_link(BytesOf(id));
    row.mutable_total()->set_cached_blocks(cached.blocks);
    row.mutable_total()->set_cached_bytes(cached.bytes);
    row.set_pinned_bytes(cached.pinned_bytes);
    row.set_quota_bytes(link.spec.quota_bytes);
    row.set_priority(static_cast<std::int32_t>(link.spec.priority));
    row.set_replicas(link.spec.replicas);
    totals.Since(base).WriteTo(*row.mutable_window());
    row.set_name(link.spec.name);
    row.set_source(link.Source());
    row.set_set(link.spec.set);
    for (const std::string& glob : link.spec.includes) row.add_includes(glob);
    for (const std::string& glob : link.spec.excludes) row.add_excludes(glob);
    row.set_posix_metadata(link.spec.posix_metadata);
    row.set_sharing_domain(link.spec.sharing_domain);
    row.set_manifest(link.spec.manifest.location);
    if (link.generation) *row.mutable_generation() = *link.generation;
    row.set_state(static_cast<std::uint32_t>(link.phase()));
  }
  const std::map<std::string, std::uint32_t> slow = jobs_.SlowNodes(Clock::now());
  for (const MemberView& member : members) {
    const StatsBook::Latest latest = book_.NodeLatest(member.info.id);
    proto::NodeStats& row = *reply.add_nodes();
    *row.mutable_info() = ToProto(member.info);
    row.set_dismissal(static_cast<std::uint32_t>(member.dismissal));
    book_.NodeTotals(member.info.id).WriteTo(*row.mutable_total());
    for (const proto::DiskReport& disk : latest.disks) *row.add_disks() = disk;
    for (const proto::S3Wait& wait : latest.s3_waits) *row.add_s3_waits() = wait;
    for (const proto::S3Refusal& refusal : latest.s3_refusals) *row.add_s3_refusals() = refusal;
    row.set_blocks(latest.blocks);
    row.set_blocks_set_aside(latest.blocks_set_aside);
    row.set_last_end(latest.last_end);
    row.set_running_s(latest.running_s);
    const auto slow_mounts = slow.find(member.info.id);
    if (slow_mounts != slow.end()) row.set_slow_mounts(slow_mounts->second);
    if (const auto clock = clocks_.Of(member.info.id, Clock::now())) {
      row.set_clock_known(true);
      row.set_clock_ahead_ms(clock->ahead.count());
      if (clock->wrong_for) row.set_clock_wrong_s(SecondsOf(*clock->wrong_for));
    }
    row.set_checksum_failures(book_.NodeChecksumFailures(member.info.id));
    row.set_last_heartbeat_age_ms(
        std::chrono::duration_cast<std::chrono::milliseconds>(member.silence).count());
  }
  for (proto::JobStats& row : JobRows(links)) *reply.add_jobs() = std::move(row);
}

std::optional<proto::S3Wait> ClusterStats::UnansweredOf(const LinkOrigin& origin) const {
  std::scoped_lock lock(mutex_);
  std::optional<proto::S3Wait> longest;
  for (proto::S3Wait& wait : book_.WaitsSince(Clock::now() - kHeardLately)) {
    const bool same = wait.endpoint() == origin.endpoint && wait.bucket() == origin.bucket &&
                      wait.prefix() == origin.prefix;
    if (!same || wait.longest_ms() < kUnansweredMs) continue;
    if (!longest || wait.longest_ms() > longest->longest_ms()) longest = std::move(wait);
  }
  return longest;
}

void ClusterStats::ReportJobs(const proto::ReportJobsRequest& request,
                              proto::ReportJobsReply& reply) {
  std::scoped_lock lock(mutex_);
  const std::vector<JobKey> second_epoch = jobs_.Report(request, Clock::now(), reply);
  if (second_epoch.empty()) return;
  const std::map<JobKey, StatsBook::JobTotals> totals = book_.Jobs();
  for (const JobKey& key : second_epoch) {
    const auto early = totals.find(key);
    if (early != totals.end()) jobs_.SetEarly(key, early->second);
  }
}

std::vector<proto::JobStats> ClusterStats::JobRows(const std::vector<Link>& links) const {
  const std::map<JobKey, StatsBook::JobTotals> at_nodes = book_.Jobs();
  const std::map<JobKey, JobBook::View> at_mounts = jobs_.Jobs(Clock::now());
  std::set<JobKey> keys;
  for (const auto& [key, totals] : at_nodes) keys.insert(key);
  for (const auto& [key, view] : at_mounts) keys.insert(key);
  std::vector<proto::JobStats> rows;
  for (const JobKey& key : keys) {
    const auto link =
        std::ranges::find(links, key.link, [](const Link& one) { return one.spec.id; });
    if (link == links.end()) continue;
    proto::JobStats& row = rows.emplace_back();
    row.set_id(key.job);
    row.set_link(link->spec.name);
    if (link->generation) {
      row.set_generation(link->generation->generation());
      row.set_listing_digest(link->generation->listing_digest());
    }
    const auto totals = at_nodes.find(key);
    if (totals != at_nodes.end()) {
      row.set_reads(totals->second.reads);
      row.set_hits(totals->second.hits);
    }
    const auto view = at_mounts.find(key);
    if (view != at_mounts.end()) Write(view->second, row);
  }
  return rows;
}

Result<proto::DescribeJobReply> ClusterStats::DescribeJob(const std::string& job,
                                                          const std::vector<Link>& links) const {
  std::scoped_lock lock(mutex_);
  proto::DescribeJobReply reply;
  std::set<std::string> known;
  for (proto::JobStats& row : JobRows(links)) {
    known.insert(row.id());
    if (row.id() != job) continue;
    if (row.mounts() > 0) reply.set_active(true);
    AddWaits(row.waits(), *reply.mutable_waits());
    reply.set_mounts(std::max(reply.mounts(), row.mounts()));
    reply.set_processes(std::max(reply.processes(), row.processes()));
    *reply.add_links() = std::move(row);
  }
  if (reply.links().empty()) {
    const std::string nearest = Nearest(job, {known.begin(), known.end()});
    return Fail(Code::kNotFound,
                fmt::format("no job '{}' has read anything{}", job,
                            nearest.empty() ? "" : "; the nearest is '" + nearest + "'"));
  }
  for (auto& [id, answers] : jobs_.AnswersTo(job)) *reply.add_nodes() = answers;
  return reply;
}

}  // namespace forebay
