#include "coordinator/standby.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/use_future.hpp>
#include <future>

#include "common/wire/connection_limit.h"
#include "common/wire/messages.h"
#include "common/wire/rpc_rules.h"
#include "coordinator/snapshot_reads.h"

namespace forebay {
namespace {

constexpr std::chrono::seconds kFollowEvery{1};
constexpr std::chrono::seconds kAskPatience{5};
/// As members do.
constexpr std::chrono::seconds kReportEvery{5};
constexpr std::chrono::milliseconds kStopPatience{500};
/// The current generation of a link, and the one before.
constexpr std::size_t kGenerationsKept = 2;

}  // namespace

Result<std::unique_ptr<Standby>> Standby::Start(StandbyOptions options) {
  std::unique_ptr<Standby> standby(new Standby(std::move(options)));
  Status started = standby->server_->Start();
  if (!started) return Fail(started.error());
  standby->following_ = true;
  Spawn(standby->io_.At(0), standby->Follow());
  standby->reporting_ = standby->options_.report != nullptr;
  if (standby->reporting_) Spawn(standby->io_.At(0), standby->Report());
  return standby;
}

Standby::Standby(StandbyOptions options)
    : options_(std::move(options)),
      offload_(2, 64),
      replies_(options_.reply_bytes),
      io_("standby", 1),
      index_(options_.state_dir + "/snapshots") {
  ClientPoolOptions client_options;
  client_options.credentials = options_.credentials;
  pool_ = std::make_unique<ClientPool>(
      io_.At(0), std::move(client_options), [] { return std::uint64_t{0}; }, [](std::uint64_t) {});
  copier_ = std::make_unique<GenerationCopier>(*pool_, index_, offload_);
  RpcServerOptions server_options;
  server_options.listen = {options_.listen};
  server_options.reach = options_.reach;
  server_options.max_connections = ConnectionsOfProcess();
  server_options.credentials = options_.credentials;
  server_ = std::make_unique<RpcServer>(
      io_, server_options, Methods(), [] { return std::uint64_t{0}; }, [](std::uint64_t) {});
  io_.Start();
}

Standby::~Standby() { Stop(); }

std::vector<MethodEntry> Standby::Methods() {
  std::vector<MethodEntry> methods;
  for (const RpcRule& rule : AllRules()) {
    if (!rule.servers.Has(proto::ROLE_COORDINATOR)) continue;
    MethodEntry entry{.method = rule.method, .handler = {}};
    if (rule.method == Method::kGetLeader) {
      entry.handler = [this](RpcCall call) { return GetLeader(std::move(call)); };
    } else if (rule.method == Method::kReadSnapshot) {
      entry.handler = [this](RpcCall call) { return ReadSnapshot(std::move(call)); };
    } else {
      entry.handler = [this](RpcCall call) { return Refuse(std::move(call)); };
    }
    methods.push_back(std::move(entry));
  }
  return methods;
}

std::string Standby::WhoLeads() const {
  const std::string leader = options_.leader();
  if (!leader.empty()) return "the leader is at " + leader;
  const std::string trouble = options_.trouble();
  return trouble.empty() ? "nobody leads at this moment" : "who leads is not known: " + trouble;
}

Task<Result<RpcReply>> Standby::Refuse(RpcCall /*call*/) {
  co_return Fail(Code::kUnavailable, "this coordinator is not the leader, " + WhoLeads());
}

Task<Result<RpcReply>> Standby::GetLeader(RpcCall /*call*/) {
  proto::GetLeaderReply reply;
  reply.set_leader(options_.leader());
  co_return ReplyWith(reply);
}

/// For other coordinators alone: which links a client may read, the leader knows.
Task<Result<RpcReply>> Standby::ReadSnapshot(RpcCall call) {
  if (call.peer.role != proto::ROLE_COORDINATOR) {
    Result<RpcReply> refused = co_await Refuse(std::move(call));
    co_return refused;
  }
  proto::ReadSnapshotRequest request;
  Status parsed = ParseMessage(call.message, request);
  if (!parsed) co_return Fail(parsed.error());
  Result<RpcReply> reply = co_await ReadPublished(
      index_, offload_, replies_, ReplyRoom::PayerOf(call.peer), std::move(request));
  co_return reply;
}

Task<void> Standby::Follow() {
  while (!stop_following_) {
    Notifier::Ticket ticket = wake_.Enlist(io_.At(0).get_executor());
    const std::string leader = options_.leader();
    Status followed;
    if (!leader.empty()) followed = co_await FollowOnce(leader);
    const std::string trouble = followed ? "" : followed.error().message;
    if (!trouble.empty() && trouble != said_ && !stop_following_) {
      spdlog::warn("listings are not copied from the leader at {}: {}", leader, trouble);
    }
    said_ = trouble;
    if (stop_following_) break;
    (void)co_await ticket.Wait(Deadline::After(kFollowEvery));
  }
  following_ = false;
  wake_.NotifyAll();
}

/// So that a change of the authority waits for this one, and its own certificate has an alert; also
/// while a listing is copied. One of an earlier release does not take it, which is no matter.
Task<void> Standby::Report() {
  while (!stop_following_) {
    Notifier::Ticket ticket = wake_.Enlist(io_.At(0).get_executor());
    const std::string leader = options_.leader();
    if (!leader.empty()) {
      const proto::RenewRequest report = options_.report();
      const Result<RpcReply> reply =
          co_await pool_->Call(leader, Method::kRenew, report, Deadline::After(kAskPatience));
      if (!reply) spdlog::debug("the leader was told nothing: {}", reply.error().message);
    }
    if (stop_following_) break;
    (void)co_await ticket.Wait(Deadline::After(kReportEvery));
  }
  reporting_ = false;
  wake_.NotifyAll();
}

/// What the leader has published by now is here afterwards.
Task<Status> Standby::FollowOnce(std::string leader) {
  const proto::GetLinksRequest request;
  Result<RpcReply> reply =
      co_await pool_->Call(leader, Method::kGetLinks, request, Deadline::After(kAskPatience));
  if (!reply) co_return Fail(reply.error());
  proto::GetLinksReply links;
  Status parsed = ParseMessage(reply->message, links);
  if (!parsed) co_return parsed;
  std::set<Uuid> present;
  bool changed = false;
  Status all;
  for (const proto::LinkState& state : links.links()) {
    const Uuid link = UuidFromBytes(state.spec().id());
    present.insert(link);
    std::vector<std::uint64_t>& kept = kept_[link];
    const std::uint64_t generation = state.generation().generation();
    if (!state.has_generation() || std::ranges::find(kept, generation) != kept.end()) continue;
    Status here = co_await copier_->TakeOwn(link, state.generation());
    const bool copies = !here;
    if (copies) here = co_await copier_->Copy(leader, link, state.generation());
    if (!here) {
      all = Fail(here.error().Within("link '" + state.spec().name() + "'"));
      continue;
    }
    if (copies) {
      spdlog::info("generation {} of link '{}' is copied from the leader", generation,
                   state.spec().name());
    }
    kept.push_back(generation);
    if (kept.size() > kGenerationsKept) kept.erase(kept.begin());
    changed = true;
  }
  changed |=
      std::erase_if(kept_, [&](const auto& row) { return !present.contains(row.first); }) > 0;
  if (!changed || !all) co_return all;
  Status pruned = co_await Prune();
  co_return pruned;
}

Task<Status> Standby::Prune() {
  NamespaceIndex::Needed needed;
  for (const auto& [link, generations] : kept_) {
    for (const std::uint64_t generation : generations) needed.files.emplace(link, generation);
  }
  auto prune = [this, needed = std::move(needed)]() -> Status {
    index_.Prune([needed] { return needed; });
    return {};
  };
  Status done = co_await offload_.Run(std::move(prune));
  co_return done;
}

void Standby::Stop() {
  if (stopped_) return;
  stopped_ = true;
  server_->Stop(Deadline::After({}));
  const auto end = [](Standby* self) -> Task<void> {
    self->stop_following_ = true;
    self->wake_.NotifyAll();
    self->pool_->Close();
    const Deadline deadline = Deadline::After(kStopPatience);
    for (;;) {
      Notifier::Ticket ticket = self->wake_.Enlist(self->io_.At(0).get_executor());
      if (!self->following_ && !self->reporting_) co_return;
      const bool notified = co_await ticket.Wait(deadline);
      if (!notified) co_return;
    }
  };
  std::future<void> ended = asio::co_spawn(io_.At(0), end(this), asio::use_future);
  (void)ended.wait_for(kStopPatience * 2);
  io_.Stop();
  offload_.Stop();
}

}  // namespace forebay
