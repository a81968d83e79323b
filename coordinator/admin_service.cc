#include "coordinator/admin_service.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <chrono>
#include <iterator>
#include <ranges>
#include <set>
#include <utility>

#include "common/base/version.h"
#include "common/base/wall_clock.h"
#include "common/model/limits.h"
#include "common/model/link_set.h"
#include "common/wire/messages.h"
#include "coordinator/frozen_links.h"
#include "coordinator/preload_records.h"
#include "coordinator/set_sums.h"
#include "coordinator/target.h"
#include "coordinator/target_listing.h"
#include "coordinator/task_sum.h"

namespace forebay {
namespace {

/// `check` names so many files that have changed, and counts all.
constexpr int kMostChangedShown = 100;
/// `unlink` names so many of the jobs that read the link.
constexpr int kMostReadersNamed = 5;
/// kStats waits so long for heartbeats, which come once a second.
constexpr std::chrono::milliseconds kFreshStatsWait{1500};
/// After an eviction each node sends a heartbeat at once.
constexpr std::chrono::seconds kShownWithin{2};
constexpr std::chrono::seconds kDefaultWindow{60};
constexpr std::uint32_t kDefaultListLimit = 1000;
constexpr std::uint32_t kDirectory = 1;  // ListedEntry.kind
constexpr std::int64_t kFailedTaskAlertSeconds = 3600;

/// Work that must answer before the caller gives up leaves this much for the way back.
Deadline BeforeCallers(const RpcCall& call) {
  constexpr std::chrono::milliseconds kWayBack{200};
  return Deadline(call.deadline.at() - kWayBack);
}

}  // namespace

AdminService::AdminService(Parts parts) : parts_(parts), started_unix_s_(UnixSeconds()) {}

std::vector<MethodEntry> AdminService::Methods() {
  std::vector<MethodEntry> methods;
  const auto add = [&](Method method, auto handler) {
    methods.push_back(
        {method, [this, handler](RpcCall call) { return (this->*handler)(std::move(call)); }});
  };
  add(Method::kLink, &AdminService::StartLink);
  add(Method::kUnlink, &AdminService::Unlink);
  add(Method::kListTarget, &AdminService::ListTarget);
  add(Method::kCheckTarget, &AdminService::CheckTarget);
  add(Method::kEvictTarget, &AdminService::EvictTarget);
  add(Method::kExplain, &AdminService::Explain);
  add(Method::kStats, &AdminService::Stats);
  add(Method::kRefresh, &AdminService::Refresh);
  return methods;
}

Task<Result<RpcReply>> AdminService::StartLink(RpcCall call) {
  proto::LinkRequest request;
  Status parsed = ParseMessage(call.message, request);
  if (!parsed) co_return Fail(parsed.error());
  Result<proto::LinkReply> reply = co_await parts_.linker.StartLink(std::move(request));
  if (!reply) co_return Fail(reply.error());
  co_return ReplyWith(*reply);
}

Task<Result<RpcReply>> AdminService::Unlink(RpcCall call) {
  proto::UnlinkRequest request;
  Status parsed = ParseMessage(call.message, request);
  if (!parsed) co_return Fail(parsed.error());
  std::vector<Link> links = parts_.links.PartsOf(request.name());
  if (links.empty()) {
    Result<Link> link = parts_.links.Find(request.name());
    if (!link) co_return Fail(link.error());
    links.push_back(std::move(*link));
  }
  for (const Link& link : links) {
    if (link.spec.pins.empty()) continue;
    co_return Fail(
        Code::kInvalid,
        fmt::format("link '{}' is pinned: `forebay pins` shows what, `forebay unpin` ends "
                    "it; nothing was changed",
                    link.spec.name));
  }
  const bool is_part = links.size() == 1 && !links.front().spec.set.empty();
  if (!request.force() && !is_part) {  // a part is refused
    const Status unread = CheckNobodyReads(links);
    if (!unread) co_return Fail(unread.error());
  }
  proto::UnlinkReply reply;
  for (const Link& link : links) {
    if (!request.evict() || is_part) break;
    std::vector<proto::NodeEvicted> evicted = co_await parts_.census.EvictLink(
        link.spec.id, parts_.membership.CurrentRoster(), EvictRules(), BeforeCallers(call));
    for (const proto::NodeEvicted& node : evicted) AddEvicted(*reply.mutable_evicted(), node);
  }
  Result<std::vector<Link>> removed = co_await parts_.linker.Remove(request.name());
  if (!removed) co_return Fail(removed.error());
  co_return ReplyWith(reply);
}

Status AdminService::CheckNobodyReads(const std::vector<Link>& links) const {
  for (const Link& link : links) {
    const std::set<std::string> jobs = parts_.stats.ReadersNow(link.spec.id);
    if (jobs.empty()) continue;
    const auto named = std::ranges::subrange(
        jobs.begin(), std::ranges::next(jobs.begin(), kMostReadersNamed, jobs.end()));
    const std::size_t more = jobs.size() - static_cast<std::size_t>(std::ranges::distance(named));
    return Fail(
        Code::kInvalid,
        fmt::format("link '{}' is read by the {} '{}'{}, whose reads fail when it is gone: "
                    "unmount it first, or give --force to remove what a running job reads; "
                    "nothing was changed",
                    link.spec.name, jobs.size() == 1 ? "job" : "jobs", fmt::join(named, "', '"),
                    more == 0 ? "" : fmt::format(" and {} more", more)));
  }
  return {};
}

Result<LocatedTargets> AdminService::Locate(const std::string& target) const {
  return LocateTargets(target, parts_.links, parts_.index);
}

/// A set's parts, as its mount shows them.
Task<Result<proto::ListTargetReply>> AdminService::ListParts(LocatedTargets parts,
                                                             proto::ListTargetRequest request,
                                                             Deadline deadline) {
  if (request.hidden()) {
    co_return Fail(Code::kInvalid,
                   fmt::format("'{0}' is a set, and hidden keys are those of one link: name a "
                               "part, as in {0}/{1}",
                               parts.name, PartOf(parts.all.front().link)));
  }
  proto::ListTargetReply reply;
  reply.set_link(parts.name);
  const Roster roster = parts_.membership.CurrentRoster();
  for (const LocatedTarget& part : parts.all) {
    proto::ListedEntry& entry = *reply.add_entries();
    entry.set_name(std::string(PartOf(part.link)));
    entry.set_kind(kDirectory);
    if (!request.with_cached()) continue;
    std::vector<SnapshotRow> roots = {part.row};
    Result<CacheCount> count =
        co_await parts_.census.Count(part.snapshot, std::move(roots), roster, deadline);
    if (!count) co_return Fail(count.error());
    const CacheTally& tally = count->tallies.front();
    entry.set_size(tally.bytes);
    entry.set_cached_bytes(tally.cached_bytes);
    entry.set_unknown_bytes(tally.unknown_bytes);
  }
  co_return reply;
}

Task<Result<RpcReply>> AdminService::ListTarget(RpcCall call) {
  proto::ListTargetRequest request;
  Status parsed = ParseMessage(call.message, request);
  if (!parsed) co_return Fail(parsed.error());
  Result<LocatedTargets> found = Locate(request.target().text());
  if (!found) co_return Fail(found.error());
  if (found->is_set) {
    Result<proto::ListTargetReply> parts =
        co_await ListParts(std::move(*found), std::move(request), BeforeCallers(call));
    if (!parts) co_return Fail(parts.error());
    co_return ReplyWith(*parts);
  }
  const LocatedTarget* const target = &found->all.front();
  const std::uint32_t asked = request.limit() == 0 ? kDefaultListLimit : request.limit();
  const std::uint32_t limit = std::min(asked, static_cast<std::uint32_t>(kMaxRepeatedFields));
  auto list = [snapshot = target->snapshot, row = target->row, cursor = request.cursor(), limit,
               hidden = request.hidden()] {
    return hidden ? ListHidden(*snapshot, row, cursor, limit)
                  : ListEntries(*snapshot, row, cursor, limit);
  };
  Result<TargetPage> page = co_await parts_.offload.Run(std::move(list));
  if (!page) co_return Fail(page.error());
  if (request.with_cached() && !page->rows.empty()) {
    Result<CacheCount> count = co_await parts_.census.Count(
        target->snapshot, page->rows, parts_.membership.CurrentRoster(), BeforeCallers(call));
    if (!count) co_return Fail(count.error());
    for (std::size_t i = 0; i < count->tallies.size(); ++i) {
      const CacheTally& tally = count->tallies[i];
      page->entries[i].set_cached_bytes(tally.cached_bytes);
      page->entries[i].set_unknown_bytes(tally.unknown_bytes);
      if (page->rows[i].is_directory()) page->entries[i].set_size(tally.bytes);
    }
  }
  proto::ListTargetReply reply;
  for (proto::ListedEntry& entry : page->entries) *reply.add_entries() = std::move(entry);
  reply.set_next_cursor(page->next_cursor);
  reply.set_link(target->link.name);
  co_return ReplyWith(reply);
}

Task<Result<proto::CheckTargetReply>> AdminService::CheckOne(LocatedTarget target, bool verify,
                                                             Roster roster, Deadline deadline) {
  proto::CheckTargetReply reply;
  if (verify) {
    Result<VerifyCount> verified =
        co_await parts_.census.Verify(target.snapshot, target.row, roster, deadline);
    if (!verified) co_return Fail(verified.error());
    reply.set_verified_blocks(verified->verified);
    reply.set_corrupt_blocks(verified->corrupt);
  }
  // After the broken copies are gone.
  std::vector<SnapshotRow> roots = {target.row};
  Result<CacheCount> count =
      co_await parts_.census.Count(target.snapshot, std::move(roots), roster, deadline);
  if (!count) co_return Fail(count.error());
  const CacheTally& tally = count->tallies.front();
  reply.set_objects(tally.objects);
  reply.set_bytes(tally.bytes);
  reply.set_blocks(tally.blocks);
  reply.set_cached_objects(tally.cached_objects);
  reply.set_cached_bytes(tally.cached_bytes);
  reply.set_cached_blocks(tally.cached_blocks);
  reply.set_unknown_blocks(tally.unknown_blocks);
  reply.set_unknown_bytes(tally.unknown_bytes);
  reply.set_set_aside_blocks(tally.set_aside_blocks);
  for (proto::UnknownNode& node : count->unknown) *reply.add_unknown() = std::move(node);
  for (proto::ChangedFile& file : parts_.changed.Below(target.link.id, target.path)) {
    reply.set_changed_objects(reply.changed_objects() + 1);
    if (reply.changed_size() < kMostChangedShown) *reply.add_changed() = std::move(file);
  }
  if (target.row.index == 0) reply.set_hidden_keys(target.snapshot->totals().hidden_keys);
  co_return reply;
}

Task<Result<RpcReply>> AdminService::CheckTarget(RpcCall call) {
  proto::CheckTargetRequest request;
  Status parsed = ParseMessage(call.message, request);
  if (!parsed) co_return Fail(parsed.error());
  if (request.verify() && call.peer.role == proto::ROLE_VIEWER) {
    co_return Fail(OnlyLooks(call.peer,
                             "`check --verify`, by which nodes read all of it again and drop what "
                             "is damaged,"));
  }
  Result<LocatedTargets> found = Locate(request.target().text());
  if (!found) co_return Fail(found.error());
  const Roster roster = parts_.membership.CurrentRoster();
  proto::CheckTargetReply reply;
  for (const LocatedTarget& target : found->all) {
    Result<proto::CheckTargetReply> one =
        co_await CheckOne(target, request.verify(), roster, BeforeCallers(call));
    if (!one) co_return Fail(one.error());
    if (found->is_set) {
      AddTo(reply, *one, std::string(PartOf(target.link)));
    } else {
      reply = std::move(*one);
    }
  }
  reply.set_link(found->name);
  co_return ReplyWith(reply);
}

Status AdminService::CheckUnread(const LinkSpec& target) const {
  std::optional<JobActivity> job = parts_.stats.LastReader(target.id);
  LinkSpec link = target;
  // What it has cached may be what others read.
  for (const LinkSpec& other : parts_.links.Specs()) {
    if (other.domain != target.domain) continue;
    const std::optional<JobActivity> theirs = parts_.stats.LastReader(other.id);
    if (!theirs || (job && job->idle <= theirs->idle)) continue;
    job = theirs;
    link = other;
  }
  if (!job || job->idle >= kJobEnds) return {};
  return Fail(Code::kInvalid,
              fmt::format("job '{}' read link '{}' {} s ago: give --force to evict what a "
                          "running job reads; nothing was freed",
                          job->job, link.name,
                          std::chrono::floor<std::chrono::seconds>(job->idle).count()));
}

Task<Result<proto::EvictTargetReply>> AdminService::EvictOne(LocatedTarget target, EvictRules rules,
                                                             Roster nodes, Deadline deadline) {
  std::vector<SnapshotRow> roots = {target.row};
  Result<CacheCount> count =
      co_await parts_.census.Count(target.snapshot, std::move(roots), nodes, deadline);
  if (!count) co_return Fail(count.error());
  proto::EvictTargetReply reply;
  reply.set_objects(count->tallies.front().objects);
  reply.set_cached_bytes(count->tallies.front().cached_bytes);
  const bool whole_link = target.row.index == 0;
  if (whole_link) {
    if (count->tallies.front().set_aside_blocks > 0 && !rules.dry_run) {
      // By name as well: only so a node tries again what it has set aside.
      auto named =
          co_await parts_.census.Evict(target.snapshot, target.row, nodes, rules, deadline);
      if (!named) co_return Fail(named.error());
    }
    std::vector<proto::NodeEvicted> evicted =
        co_await parts_.census.EvictLink(target.link.id, nodes, rules, deadline);
    for (const proto::NodeEvicted& node : evicted) *reply.add_nodes() = node;
    co_return reply;
  }
  Result<std::vector<proto::NodeEvicted>> evicted =
      co_await parts_.census.Evict(target.snapshot, target.row, nodes, rules, deadline);
  if (!evicted) co_return Fail(evicted.error());
  for (const proto::NodeEvicted& node : *evicted) *reply.add_nodes() = node;
  co_return reply;
}

Task<Result<RpcReply>> AdminService::EvictTarget(RpcCall call) {
  proto::EvictTargetRequest request;
  Status parsed = ParseMessage(call.message, request);
  if (!parsed) co_return Fail(parsed.error());
  Result<LocatedTargets> found = Locate(request.target().text());
  if (!found) co_return Fail(found.error());
  if (!request.force() && !request.dry_run()) {
    for (const LocatedTarget& target : found->all) {
      const Status unread = CheckUnread(target.link);
      if (!unread) co_return Fail(unread.error());
    }
  }
  const Roster nodes = parts_.membership.CurrentRoster();
  const EvictRules rules{.unused_for_hours = request.unused_for_hours(),
                         .dry_run = request.dry_run()};
  proto::EvictTargetReply reply;
  for (const LocatedTarget& target : found->all) {
    Result<proto::EvictTargetReply> one =
        co_await EvictOne(target, rules, nodes, BeforeCallers(call));
    if (!one) co_return Fail(one.error());
    AddTo(reply, *one);
  }
  if (!rules.dry_run) {
    // Who asks next how much is free, as a preload does, is to be told of what was freed.
    std::vector<proto::NodeEvicted> evicted(reply.nodes().begin(), reply.nodes().end());
    co_await parts_.stats.WaitForRoom(std::move(evicted), BeforeCallers(call).AtMost(kShownWithin));
  }
  reply.set_link(found->name);
  co_return ReplyWith(reply);
}

Task<Result<RpcReply>> AdminService::Explain(RpcCall call) {
  proto::ExplainRequest request;
  Status parsed = ParseMessage(call.message, request);
  if (!parsed) co_return Fail(parsed.error());
  const std::vector<LinkSpec> parts = PartsNamed(request.target().text(), parts_.links.Specs());
  if (!parts.empty()) {
    co_return Fail(Code::kInvalid,
                   fmt::format("'{0}' is a set: explain needs the path of a file below a part, as "
                               "in {0}/{1}/PATH",
                               parts.front().set, PartOf(parts.front())));
  }
  Result<LocatedTarget> target = LocateTarget(request.target().text(), parts_.links, parts_.index);
  if (!target) co_return Fail(target.error());
  Result<proto::ExplainReply> reply = co_await parts_.explainer.Explain(
      std::move(*target), parts_.membership.CurrentRoster(), BeforeCallers(call));
  if (!reply) co_return Fail(reply.error());
  co_return ReplyWith(*reply);
}

Task<Result<RpcReply>> AdminService::Stats(RpcCall call) {
  const TimePoint asked = Clock::now();
  proto::StatsRequest request;
  Status parsed = ParseMessage(call.message, request);
  if (!parsed) co_return Fail(parsed.error());
  co_await parts_.stats.WaitForReports(parts_.membership.UpNodes(), asked,
                                       call.deadline.AtMost(kFreshStatsWait));
  const std::chrono::seconds window = request.window_seconds() == 0
                                          ? kDefaultWindow
                                          : std::chrono::seconds(request.window_seconds());
  proto::StatsReply reply;
  reply.set_cluster(BytesOf(parts_.cluster));
  reply.set_ring_epoch(parts_.membership.epoch());
  std::vector<MemberView> members = parts_.membership.Members();
  const std::set<std::string> revoked = parts_.certificates.RevokedNodes();
  for (MemberView& member : members) member.revoked = revoked.contains(member.info.id);
  const std::vector<Link> links = parts_.links.All();
  parts_.stats.Describe(links, members, window, reply);
  for (proto::LinkStats& row : *reply.mutable_links()) {
    const auto copies = parts_.copies.StateOf(UuidFromBytes(row.total().link()));
    if (!copies) continue;
    row.set_copies_missing(copies->missing);
    row.set_copies_looked_unix_s(copies->looked_unix_s);
  }
  *reply.mutable_fill_limits() = parts_.budget.record().limits();
  for (const proto::TaskState& task : parts_.tasks.All()) {
    if (task.kind() == kFillKind && task.ended_unix_s() == 0) *reply.add_fills() = task;
  }
  for (proto::ThrottledPlace& place : parts_.requests.Throttled())
    *reply.add_throttled() = std::move(place);
  const std::int64_t now = UnixSeconds();
  const std::vector<proto::TaskState> failed = parts_.tasks.FailedSince(0);
  for (proto::Alert& alert :
       ClusterAlerts(reply, members, parts_.tasks.FailedSince(now - kFailedTaskAlertSeconds), now))
    *reply.add_alerts() = std::move(alert);
  // The alerts say it; of each of a thousand nodes it would not fit.
  for (proto::NodeStats& node : *reply.mutable_nodes()) node.clear_s3_refusals();
  for (proto::Alert& alert : LostListingAlerts(links, failed))
    *reply.add_alerts() = std::move(alert);
  for (proto::Alert& alert : FailedListingAlerts(links, failed))
    *reply.add_alerts() = std::move(alert);
  for (proto::Alert& alert : parts_.certificates.Alerts(now))
    *reply.add_alerts() = std::move(alert);
  for (proto::Alert& alert : parts_.nodes.Alerts(Clock::now(), now))
    *reply.add_alerts() = std::move(alert);
  const auto since_1970 = std::chrono::system_clock::now().time_since_epoch();
  reply.set_time_unix_ms(std::chrono::duration_cast<std::chrono::milliseconds>(since_1970).count());
  reply.set_coordinator_version(std::string(Version()));
  reply.set_started_unix_s(started_unix_s_);
  // What was shown once must never be more than what a coordinator that is killed now comes back
  // with.
  const Status saved = co_await parts_.stats.Save();
  if (!saved) spdlog::error("the statistics cannot be saved: {}", saved.error().message);
  co_return ReplyWith(reply);
}

Task<Result<RpcReply>> AdminService::Refresh(RpcCall call) {
  proto::RefreshRequest request;
  Status parsed = ParseMessage(call.message, request);
  if (!parsed) co_return Fail(parsed.error());
  const std::vector<LinkSpec> parts = PartsNamed(request.target().text(), parts_.links.Specs());
  if (!parts.empty()) {
    Result<proto::RefreshReply> set = co_await RefreshParts(parts);
    if (!set) co_return Fail(set.error());
    co_return ReplyWith(*set);
  }
  // What is refreshed need not exist in the listing: it may be new in S3.
  Result<ResolvedTarget> target = ResolveTarget(request.target().text(), parts_.links.Specs());
  if (!target) co_return Fail(target.error());
  Result<proto::RefreshReply> reply = co_await parts_.linker.StartRefresh(
      std::move(target->link), std::move(target->path), RefreshCause::kAsked);
  if (!reply) co_return Fail(reply.error());
  co_return ReplyWith(*reply);
}

/// A task for each part, of which some may have run already.
Task<Result<proto::RefreshReply>> AdminService::RefreshParts(std::vector<LinkSpec> parts) {
  proto::RefreshReply sum;
  sum.set_link(parts.front().set);
  sum.set_started(true);
  std::vector<std::string> tasks;
  for (const LinkSpec& part : parts) {
    Result<proto::RefreshReply> one =
        co_await parts_.linker.StartRefresh(part, "", RefreshCause::kAsked);
    if (!one) co_return Fail(one.error());
    tasks.push_back(one->task_id());
    sum.set_started(sum.started() && one->started());
  }
  sum.set_task_id(JoinTaskIds(tasks));
  co_return sum;
}

}  // namespace forebay
