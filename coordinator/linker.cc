#include "coordinator/linker.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <chrono>
#include <utility>
#include <vector>

#include "common/base/executors.h"
#include "common/base/wall_clock.h"
#include "common/model/key_rules.h"
#include "common/model/limits.h"
#include "common/snapshot/difference.h"
#include "common/snapshot/listing_digest.h"
#include "coordinator/frozen_links.h"
#include "coordinator/generation_deltas.h"
#include "coordinator/listing_feed.h"

namespace forebay {
namespace {

/// A snapshot that is just being written is not torn down.
constexpr std::chrono::seconds kCancelPatience{10};

/// Failures that a later try may not have: S3 or this process went away.
bool IsInterruption(const Error& error, bool stopping) {
  return stopping && (error.code == Code::kUnavailable || error.code == Code::kTimeout);
}

Error ListingCancelled() { return Error{Code::kUnavailable, "it was cancelled"}; }

}  // namespace

Linker::Linker(asio::io_context& context, Parts parts)
    : context_(context), parts_(std::move(parts)) {}

Task<Result<proto::LinkReply>> Linker::StartLink(proto::LinkRequest request) {
  if (request.parts_size() > 0) {
    Result<proto::LinkReply> set = co_await StartSet(std::move(request));
    co_return set;
  }
  const bool dry_run = request.dry_run();
  Result<LinkSpec> spec = co_await SpecOf(std::move(request));
  if (!spec) co_return Fail(spec.error());
  if (stopping_) co_return Fail(Code::kUnavailable, "the coordinator is stopping");
  if (dry_run) {
    Status fits = parts_.links.CheckAdd(*spec);
    if (!fits) co_return Fail(fits.error());
    proto::LinkReply answer;
    answer.set_name(spec->name);
    co_return answer;
  }
  // The caller may go away while the link is stored: its listing must begin all the same.
  auto add = [this, wanted = *spec] {
    Result<LinkRegistry::Added> added = parts_.links.Add(wanted);
    if (added && added->is_new) {
      asio::post(context_, [this, link = added->link] { Begin(link); });
    }
    return added;
  };
  Result<LinkRegistry::Added> added = co_await parts_.offload.Run(std::move(add));
  if (!added) co_return Fail(added.error());
  Result<std::string> task = co_await TaskOf(std::move(*added));
  if (!task) co_return Fail(task.error());
  proto::LinkReply reply;
  reply.set_name(spec->name);
  reply.set_task_id(*std::move(task));
  co_return reply;
}

void Linker::Begin(Link link) {
  if (stopping_ || running_.contains(link.spec.id)) return;
  spdlog::info("link '{}': listing {} (task {})", link.spec.name, link.Source(), link.task_id);
  running_.emplace(link.spec.id, std::make_shared<Listing>());
  Spawn(context_, List(std::move(link)));
}

Task<void> Linker::List(Link link) {
  const std::shared_ptr<Listing> listing = running_.at(link.spec.id);
  Status built = co_await Build(link, listing);
  parts_.index.EndBuild(link.spec.id);
  if (!built && !parts_.links.FindById(link.spec.id)) {
    spdlog::info("the listing of link '{}' ended: it was removed", link.spec.name);
  } else if (!built && (listing->cancelled || !IsInterruption(built.error(), stopping_))) {
    auto record = [this, link, listing, why = built.error()] {
      return RecordEnd(link, *listing, why);
    };
    Status recorded = co_await parts_.offload.Run(std::move(record));
    if (!recorded) spdlog::error("its end cannot be recorded: {}", recorded.error().message);
  }
  Status pruned = co_await PruneFiles();
  if (!pruned) spdlog::warn("old snapshots cannot be deleted: {}", pruned.error().message);
  running_.erase(link.spec.id);
  // One that was asked for after this one had published found it still running.
  const std::optional<Link> now = parts_.links.FindById(link.spec.id);
  if (now && !now->task_id.empty() && now->task_id != link.task_id) Begin(*now);
  ended_.NotifyAll();
}

/// Blocks.
Status Linker::RecordEnd(const Link& link, const Listing& listing, const Error& why) {
  if (listing.cancelled) {
    spdlog::info("the refresh of link '{}' was cancelled (task {})", link.spec.name, link.task_id);
    return parts_.links.CancelRefresh(link.spec.id, ListingCancelled().message);
  }
  spdlog::error("link '{}' cannot be listed: {}", link.spec.name, why.message);
  const Result<std::vector<Link>> removed = parts_.links.FailListing(link.spec.id, why.message);
  if (!removed) return Fail(removed.error());
  std::vector<Link> others = *removed;  // of a set, whose listings may run
  std::erase_if(others, [&](const Link& each) { return each.spec.id == link.spec.id; });
  ForgetSoon(others);
  return {};
}

/// Lists the link, builds the snapshot and publishes it.
Task<Status> Linker::Build(Link link, std::shared_ptr<Listing> listing) {
  const TimePoint start = Clock::now();
  const std::int64_t begun_unix_s = UnixSeconds();
  auto prepare = [this, link, listing] { return Prepare(link, *listing); };
  Result<Plan> plan = co_await parts_.offload.Run(std::move(prepare));
  if (!plan) co_return Fail(plan.error());
  const bool is_named = !link.spec.manifest.location.empty();
  Status listed;
  if (is_named && plan->parts.empty()) listed = co_await ReadNames(link, listing);
  if (!listed) co_return listed;
  auto open = [this, link, listing, begun_unix_s, plan = *plan] {
    return OpenFiles(link, plan, *listing, begun_unix_s);
  };
  plan = co_await parts_.offload.Run(std::move(open));
  if (!plan) co_return Fail(plan.error());
  ShowKept(link, *plan, *listing);
  if (is_named) {
    listed = co_await ListNames(link, *plan, listing);
  } else {
    listed = co_await ListInto(link, *plan, listing);
  }
  if (!listed) co_return listed;
  if (listing->lister) listing->single = listing->lister->single_objects();
  if (link.spec.posix_metadata) listed = co_await AskPosix(link, *plan, listing);
  if (!listed) co_return listed;
  const double listed_s = std::chrono::duration<double>(Clock::now() - start).count();
  auto finish = [this, link, plan = *plan, listing] { return Finish(link, plan, *listing); };
  Status finished = co_await parts_.offload.Run(std::move(finish));
  if (!finished) co_return finished;
  const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
  spdlog::info("link '{}': {} objects in {:.3f} s, listed in {:.3f} s{}", link.spec.name,
               listing->objects, seconds, listed_s,
               listing->lister
                   ? fmt::format(" over {} key ranges with {} probes",
                                 listing->lister->ranges_used(), listing->lister->probes())
                   : "");
  co_return Status();
}

/// Publishes what was listed, unless the current generation says the same. Blocks.
Status Linker::Finish(const Link& link, const Plan& plan, const Listing& listing) {
  const auto wanted = [&] { return !stopping_ && !listing.cancelled; };
  ListedLink listed = ListedBy(link, plan, listing);
  std::optional<PosixAnswers> posix;
  if (listing.posix) listed.posix = &posix.emplace(plan.previous, *listing.posix);
  // Of several parts something has changed, or nobody would ask for them.
  const bool may_be_same = plan.previous && plan.parts.size() <= 1;
  const Result<bool> same = may_be_same
                                ? ListsTheSame(listed, *plan.previous,
                                               plan.parts.empty() ? "" : plan.parts.front(), wanted)
                                : Result<bool>(false);
  if (!same) return Fail(same.error());
  if (*same) return parts_.links.Confirm(link.spec.id, plan.spool->begun_unix_s());
  Status fed;
  if (!plan.parts.empty()) fed = CarryRest(plan, listing);
  if (fed) fed = FeedBuilder(listed, *plan.builder, wanted);
  if (!fed) return fed;
  Result<FinishedSnapshot> finished = plan.builder->Finish();
  if (!finished) return Fail(finished.error());
  proto::GenerationInfo info =
      DescribeGeneration(link.next_generation, *finished, plan.listed_unix_s);
  const bool is_filtered = !link.spec.includes.empty() || !link.spec.excludes.empty();
  const bool is_first = !link.generation && !link.HasLostGeneration();
  if (is_filtered && is_first && info.objects() + info.hidden_keys() == 0) {
    return Fail(Code::kInvalid,
                fmt::format("--include and --exclude leave nothing of {}: give other globs",
                            link.Source()));
  }
  Status opened = parts_.index.Open(link.spec.id, info, true);
  if (!opened) return opened;
  const auto now = parts_.index.Find(link.spec.id, info.generation());
  SnapshotDifference difference;
  difference.added = info.objects();
  if (plan.previous) {
    Result<SnapshotDifference> found = Compare(*plan.previous, *now->snapshot());
    if (!found) return Fail(found.error());
    difference = *found;
  }
  // The last moment: its file is nobody's and goes.
  if (listing.cancelled) return Fail(ListingCancelled());
  if (difference.same) return parts_.links.Confirm(link.spec.id, plan.spool->begun_unix_s());
  Result<std::string> digest = ListingDigest(*now->snapshot());
  if (!digest) return Fail(digest.error());
  info.set_listing_digest(*std::move(digest));
  Status may = CheckFrozen(link, info);
  if (!may) return may;
  if (plan.previous) AddDelta(parts_.index, link.spec.id, *link.generation, info);
  Status published = parts_.links.Publish(link.spec.id, info, difference);
  if (!published) return published;
  spdlog::info("link '{}': generation {} with {} objects, {} bytes and {} hidden keys: +{} -{} ~{}",
               link.spec.name, info.generation(), info.objects(), info.bytes(), info.hidden_keys(),
               difference.added, difference.removed, difference.changed);
  return {};
}

Task<Status> Linker::ListInto(Link link, Plan plan, std::shared_ptr<Listing> listing) {
  const LinkOrigin origin = link.spec.origin;
  // Of a link to one object, S3 also lists the keys that merely begin like it.
  const bool single = IsSingleObjectPrefix(origin.prefix);
  // The lister holds this and the listing holds the lister: it must not hold either.
  Listing* const counted = listing.get();
  const RangeLister::Progress progress = [this, counted, task = link.task_id](std::uint64_t objects,
                                                                              std::uint64_t bytes) {
    counted->objects += objects;
    counted->bytes += bytes;
    parts_.tasks.Progress(task, counted->objects, counted->bytes);
  };
  // It was parsed before the link was made.
  Result<KeyFilter> filter = KeyFilter::Parse(link.spec.includes, link.spec.excludes);
  if (!filter) co_return Fail(filter.error());
  RangeLister::Job job{.origin = origin,
                       .prefix = plan.parts.empty()
                                     ? origin.prefix
                                     : KeyAtPath(origin.prefix, plan.parts.front()) + "/",
                       .ranges = plan.spool->found(),
                       .keys_only = single,
                       .filter = std::move(*filter),
                       .root_bytes = origin.prefix.size()};
  RangeListerOptions options = parts_.listing;
  options.wait = WaitOf(link);
  listing->lister = RangeLister::Create(parts_.store, std::move(job), std::move(options),
                                        *plan.spool, parts_.workers, progress);
  if (stopping_) co_return Fail(Code::kUnavailable, "the coordinator is stopping");
  if (listing->cancelled) co_return Fail(ListingCancelled());
  if (!parts_.links.FindById(link.spec.id)) {
    co_return Fail(Code::kNotFound, "the link was removed");
  }
  if (single) listing->lister->AlsoList({origin.prefix});
  if (!plan.parts.empty()) listing->lister->AlsoList(KeysAround(origin.prefix, plan.parts));
  Status listed = co_await listing->lister->Run();
  if (listed && plan.parts.size() > 1) listed = co_await LookBelow(link, plan.parts, listing);
  co_return listed;
}

/// Of several parts only the first is listed as a folder as well. One that has become a folder
/// since then is left out: it stays as it was, and is listed when it is the only one.
Task<Status> Linker::LookBelow(Link link, std::vector<std::string> parts,
                               std::shared_ptr<Listing> listing) {
  for (std::size_t i = 1; i < parts.size(); ++i) {
    const std::string folder = KeyAtPath(link.spec.origin.prefix, parts[i]) + "/";
    std::function<Task<Result<bool>>(Deadline)> ask = [this, &link, &folder](Deadline by) {
      return HasKey(link.spec.origin, folder, by);
    };
    Task<Result<bool>> asked = AskS3<bool>(WaitOf(link), listing->ended, std::move(ask));
    Result<bool> is_folder = co_await std::move(asked);
    if (!is_folder) co_return Fail(is_folder.error());
    if (listing->cancelled) co_return Fail(ListingCancelled());
    if (*is_folder) listing->left_out.insert(parts[i]);
  }
  co_return Status();
}

Task<Result<proto::RefreshReply>> Linker::StartRefresh(LinkSpec link, std::string path,
                                                       RefreshCause cause) {
  const std::optional<Link> known = parts_.links.FindById(link.id);
  const bool lost = known && IsListingLost(*known);
  const bool unlisted = known && known->HasLostGeneration();
  if (link.refresh == RefreshPolicy::kImmutable && !lost && !unlisted) {
    co_return Fail(Code::kInvalid,
                   fmt::format("link '{}' is immutable: to see what S3 holds now, unlink it and "
                               "link it again",
                               link.name));
  }
  if (stopping_) co_return Fail(Code::kUnavailable, "the coordinator is stopping");
  if (lost) {
    Result<proto::RefreshReply> again = co_await TryAgain(*known);
    co_return again;
  }
  if (known) {
    Status sound = co_await Verify(*known);
    if (!sound && verifying_ > 0) {
      co_return Fail(Code::kUnavailable,
                     fmt::format("the listing of link '{}' is damaged, and is looked for at other "
                                 "coordinators: ask again",
                                 link.name));
    }
    if (!sound) sound = co_await ListAgain(*known, sound.error());
    if (!sound) co_return Fail(sound.error());
  }
  if (unlisted) path.clear();  // there is nothing that the rest could come from
  auto begin = [this, id = link.id, path = std::move(path), cause] {
    Result<LinkRegistry::Added> begun = parts_.links.BeginRefresh(id, path, cause);
    if (begun && begun->is_new) {
      asio::post(context_, [this, link = begun->link] { Begin(link); });
    }
    return begun;
  };
  Result<LinkRegistry::Added> begun = co_await parts_.offload.Run(std::move(begin));
  if (!begun) co_return Fail(begun.error());
  proto::RefreshReply reply;
  reply.set_link(link.name);
  reply.set_task_id(begun->link.task_id);
  reply.set_started(begun->is_new);
  co_return reply;
}

Task<void> Linker::RefreshDue() {
  const TimePoint now = Clock::now();
  const std::int64_t unix_s = UnixSeconds();
  for (const Link& link : parts_.links.All()) {
    if (link.spec.refresh != RefreshPolicy::kPeriodic || !link.task_id.empty()) continue;
    const auto every = static_cast<std::int64_t>(link.spec.refresh_seconds);
    const auto next = next_refresh_.find(link.spec.id);
    // A process that has just started goes by what was stored; afterwards its own clock counts, so
    // that a listing that fails is not repeated at once.
    const bool due =
        next == next_refresh_.end() ? unix_s - link.checked_unix_s >= every : now >= next->second;
    if (!due) continue;
    next_refresh_[link.spec.id] = now + std::chrono::seconds(every);
    Result<proto::RefreshReply> begun = co_await StartRefresh(link.spec, "", RefreshCause::kPeriod);
    if (!begun) {
      spdlog::warn("link '{}' is not refreshed: {}", link.spec.name, begun.error().message);
    }
  }
}

Task<Status> Linker::Cancel(std::string task_id) {
  const std::vector<Link> all = parts_.links.All();
  const auto link = std::ranges::find(all, task_id, &Link::task_id);
  if (link == all.end()) co_return Status();
  const std::string name = link->spec.set.empty() ? link->spec.name : link->spec.set;
  if (link->HasLostGeneration() || IsListingLost(*link)) {
    co_return Fail(
        Code::kInvalid,
        fmt::format("task {0} lists '{1}' again because its listing was lost: without it "
                    "nothing of the link can be read; `forebay unlink {2}` removes it",
                    task_id, link->spec.name, name));
  }
  if (!link->generation) {
    Result<std::vector<Link>> removed = co_await Remove(name);
    if (!removed) co_return Fail(removed.error());
    co_return Status();
  }
  const Uuid id = link->spec.id;
  const auto running = running_.find(id);
  if (running == running_.end())
    co_return Fail(Code::kUnavailable, "task " + task_id + " is only beginning: ask again");
  const std::shared_ptr<Listing> listing = running->second;
  listing->cancelled = true;
  listing->CancelRequests();
  const Deadline deadline = Deadline::After(kCancelPatience);
  for (;;) {
    Notifier::Ticket ticket = ended_.Enlist(context_.get_executor());
    const auto now = running_.find(id);
    if (now == running_.end() || now->second != listing) co_return Status();
    const bool notified = co_await ticket.Wait(deadline);
    if (!notified)
      co_return Fail(Code::kTimeout, "task " + task_id + " is still ending: ask again");
  }
}

Task<void> Linker::Forget(Uuid link) {
  const auto running = running_.find(link);
  if (running != running_.end()) {
    running->second->CancelRequests();
    co_return;  // List prunes when it has ended
  }
  Status pruned = co_await PruneFiles();
  if (!pruned) spdlog::warn("old snapshots cannot be deleted: {}", pruned.error().message);
}

Task<Status> Linker::PruneFiles() {
  auto find_needed = [this] {
    NamespaceIndex::Needed needed;
    for (const Link& link : parts_.links.All()) {
      if (link.generation) needed.files.emplace(link.spec.id, link.generation->generation());
      if (link.previous) needed.files.emplace(link.spec.id, link.previous->generation());
      if (link.generation) {
        for (const proto::GenerationDelta& delta : link.generation->deltas()) {
          needed.deltas.insert(
              parts_.index.DeltaPathOf(link.spec.id, delta.before(), delta.after()));
        }
      }
      if (!link.task_id.empty()) needed.listings.insert(link.spec.id);
    }
    return needed;
  };
  auto prune = [this, find_needed]() -> Status {
    // A generation of which it is not known whether it was published is kept: who leads next knows.
    if (parts_.leads()) parts_.index.Prune(find_needed);
    return {};
  };
  Status done = co_await parts_.offload.Run(std::move(prune));
  co_return done;
}

Task<void> Linker::CancelAll() {
  stopping_ = true;
  for (const auto& [id, listing] : running_) {
    listing->CancelRequests();
  }
  co_return;
}

Task<void> Linker::Stop() {
  co_await CancelAll();
  for (;;) {
    Notifier::Ticket ticket = ended_.Enlist(context_.get_executor());
    if (running_.empty() && verifying_ == 0) break;
    (void)co_await ticket.Wait(Deadline::After(std::chrono::seconds(1)));
  }
}

}  // namespace forebay
