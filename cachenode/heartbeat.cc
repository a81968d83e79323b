#include "cachenode/heartbeat.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/use_future.hpp>
#include <cmath>
#include <future>
#include <random>
#include <thread>
#include <utility>

#include "common/wire/messages.h"

namespace forebay {
namespace {

constexpr std::chrono::seconds kCallPatience{5};
// For 4 MiB, from a disk and over a slow line.
constexpr std::chrono::seconds kListingPatience{30};
constexpr std::chrono::seconds kSayWaitingEvery{10};
constexpr std::chrono::milliseconds kLook{100};
// Between two heartbeats, however often somebody is in a hurry.
constexpr std::chrono::milliseconds kShortestPause{20};
// Keys have 1 KiB at most: a heartbeat stays far below the largest frame.
constexpr std::size_t kMostChangedAtOnce = 128;
constexpr std::chrono::seconds kBetweenKeptLeases{10};

std::uint64_t RandomIncarnation() {
  std::random_device device;
  return (std::uint64_t{device()} << 32) | device();
}

/// Of other links, or one by more than a quarter: a node paced by `kept` would ask S3 for too much
/// or too little.
bool AreFarFrom(const std::vector<RequestLease>& kept, const std::vector<RequestLease>& now) {
  if (kept.size() != now.size()) return true;
  return std::ranges::any_of(now, [&](const RequestLease& lease) {
    const auto same = std::ranges::find(kept, lease.link, &RequestLease::link);
    return same == kept.end() ||
           std::abs(same->requests_per_s - lease.requests_per_s) > same->requests_per_s / 4;
  });
}

std::string Join(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : ", ") + word;
  return text;
}

}  // namespace

Heartbeat::Heartbeat(HeartbeatOptions options, ClusterView& cluster, NodeCounters& counters,
                     ChangedObjects& changed, Offload& offload)
    : options_(std::move(options)),
      cluster_(cluster),
      counters_(counters),
      changed_objects_(changed),
      offload_(offload),
      incarnation_(RandomIncarnation()),
      io_("control", 1) {
  ClientPoolOptions pool;
  pool.credentials = options_.credentials;
  coordinators_ = std::make_unique<ClientPool>(
      io_.At(0), std::move(pool), [this] { return cluster_.ring_epoch(); },
      [this](std::uint64_t epoch) { NoticeEpoch(epoch); });
  leader_ = std::make_unique<Coordinators>(*coordinators_, options_.coordinators);
  io_.Start();
  if (options_.trust) KeepTrust();
}

/// From the beginning: a node that was off for long needs a new certificate before all else.
void Heartbeat::KeepTrust() {
  auto ask = [this](std::shared_ptr<const proto::RenewRequest> request) -> Task<Result<RpcReply>> {
    return AskToRenew(std::move(request));
  };
  auto keeper = std::make_shared<TrustKeeper>(options_.trust, std::move(ask), offload_);
  Spawn(io_.At(0), TrustKeeper::Run(std::move(keeper)));
}

Task<Result<RpcReply>> Heartbeat::AskToRenew(std::shared_ptr<const proto::RenewRequest> request) {
  Result<RpcReply> reply = co_await Ask(Method::kRenew, *request);
  co_return reply;
}

Heartbeat::~Heartbeat() { Stop(Deadline::After({})); }

Task<Result<RpcReply>> Heartbeat::Ask(Method method, const google::protobuf::MessageLite& request) {
  Result<RpcReply> reply = co_await leader_->Ask(method, request, kCallPatience);
  co_return reply;
}

/// A coordinator that was replaced, or an old copy of its state, is not believed: what it says may
/// be undone already.
Status Heartbeat::CheckFence(const proto::Fence& fence) {
  if (cluster_.Believe(FromProto(fence))) return {};
  const std::string old = leader_->Current();
  leader_->PassOver();
  return Fail(Code::kUnavailable,
              fmt::format("the coordinator at {} is an old one ({}; this node knows of {}): stop "
                          "it, or restore a backup the way docs/DEPLOY.md says",
                          old, DescribeFence(FromProto(fence)), DescribeFence(cluster_.fence())));
}

Task<Result<RpcReply>> Heartbeat::AskForCluster() {
  const proto::GetLinksRequest request;
  Result<RpcReply> reply = co_await Ask(Method::kGetLinks, request);
  co_return reply;
}

Task<Result<RpcReply>> Heartbeat::AskForListing(proto::ReadSnapshotRequest request) {
  Result<RpcReply> reply = co_await leader_->Ask(Method::kReadSnapshot, request, kListingPatience);
  co_return reply;
}

Task<Result<RpcReply>> Heartbeat::ReadListing(proto::ReadSnapshotRequest request) {
  if (stopping_.load(std::memory_order_acquire))
    co_return Fail(Code::kUnavailable, "this node is stopping");
  Result<RpcReply> reply =
      co_await asio::co_spawn(io_.At(0), AskForListing(std::move(request)), asio::use_awaitable);
  co_return reply;
}

Result<Uuid> Heartbeat::LearnCluster(std::stop_token stopping) {
  TimePoint say_at = Clock::now();
  while (!stopping.stop_requested()) {
    Result<RpcReply> reply = asio::co_spawn(io_.At(0), AskForCluster(), asio::use_future).get();
    proto::GetLinksReply message;
    Status answered = reply ? ParseMessage(reply->message, message) : Fail(reply.error());
    const Uuid cluster = UuidFromBytes(message.cluster());
    if (answered && cluster.IsZero())
      answered = Fail(Code::kUnavailable, "the coordinator does not say which cluster this is");
    if (answered) return cluster;
    if (answered.error().code == Code::kDenied) return Fail(answered.error());
    if (Clock::now() >= say_at) {
      spdlog::warn("waiting for the coordinator: {}", answered.error().message);
      say_at = Clock::now() + kSayWaitingEvery;
    }
    std::this_thread::sleep_for(kLook);
  }
  return Fail(Code::kUnavailable,
              "stopped while waiting for the coordinator " + Join(options_.coordinators));
}

void Heartbeat::Start(NodeInfo self, BlockStore& store, S3Brakes& brakes, NodeFacts facts) {
  self_ = std::move(self);
  facts_ = std::move(facts);
  started_ = Clock::now();
  store_ = &store;
  brakes_ = &brakes;
  kept_leases_ = cluster_.leases();
  {
    const std::scoped_lock lock(mutex_);
    running_ = true;
  }
  Spawn(io_.At(0), Beat());
}

Status Heartbeat::WaitUntilRegistered(std::stop_token stopping) {
  TimePoint say_at = Clock::now() + kSayWaitingEvery;
  std::unique_lock lock(mutex_);
  while (!first_ && !stopping.stop_requested()) {
    changed_.wait_for(lock, kLook);
    if (!first_ && Clock::now() >= say_at) {
      spdlog::warn("waiting for the coordinator {} to register this node",
                   Join(options_.coordinators));
      say_at = Clock::now() + kSayWaitingEvery;
    }
  }
  return first_.value_or(Fail(Code::kUnavailable, "stopped before this node was registered"));
}

void Heartbeat::Hurry() { hurry_.NotifyAll(); }

void Heartbeat::NoticeEpoch(std::uint64_t epoch) {
  std::uint64_t wanted = wanted_epoch_.load(std::memory_order_relaxed);
  while (epoch > wanted && !wanted_epoch_.compare_exchange_weak(wanted, epoch)) {
  }
  if (epoch > wanted) Hurry();
}

Task<void> Heartbeat::Beat() {
  const asio::any_io_executor executor = co_await asio::this_coro::executor;
  for (;;) {
    Notifier::Ticket ticket = hurry_.Enlist(executor);
    const bool last = stopping_.load(std::memory_order_acquire);
    Status status;
    if (!registered_) status = co_await Register();
    if (status) status = co_await Report();
    if (status && wanted_epoch_.load() > cluster_.ring_epoch()) status = co_await FetchRing();
    NoteOutcome(status);
    KeepFence();
    if (last) break;
    const bool hurried = co_await ticket.Wait(Deadline::After(options_.every));
    if (hurried) co_await SleepFor(kShortestPause);
  }
  {
    const std::scoped_lock lock(mutex_);
    running_ = false;
  }
  changed_.notify_all();
}

void Heartbeat::NoteOutcome(const Status& status) {
  using enum CoordinatorNews::News;
  const CoordinatorNews::News news = news_.Note(status, Clock::now());
  if (news == kAnswersAgain) spdlog::info("the coordinator answers again");
  if (news == kNone || news == kAnswersAgain || stopping_.load()) return;
  spdlog::warn("the coordinator {} {}, serving on from what is known: {}",
               Join(options_.coordinators),
               news == kRefuses ? "refuses this node" : "does not answer", status.error().message);
}

Task<Status> Heartbeat::Register() {
  proto::RegisterNodeRequest request;
  *request.mutable_node() = ToProto(self_);
  // Of now: it may be long since the first time.
  request.mutable_node()->set_capacity_bytes(Room());
  request.set_incarnation(incarnation_);
  *request.mutable_fence() = ToProto(cluster_.fence());
  Result<RpcReply> reply = co_await Ask(Method::kRegisterNode, request);
  proto::RegisterNodeReply message;
  Status status = reply ? ParseMessage(reply->message, message) : Fail(reply.error());
  if (status) status = CheckFence(message.fence());
  if (status && UuidFromBytes(message.cluster()) != cluster_.cluster())
    status = Fail(Code::kInvalid, "it belongs to another cluster than this node's cache");
  if (status) status = co_await TakeRing(std::move(reply->payload));
  if (status) status = co_await TakeLinks(message.links(), message.links_version());
  registered_ = status.has_value();
  {
    const std::scoped_lock lock(mutex_);
    if (!first_ && (status || IsRefusal(status))) first_ = status;
  }
  changed_.notify_all();
  co_return status;
}

Task<Status> Heartbeat::Report() {
  proto::HeartbeatRequest request = Compose();
  const std::vector<ChangedObjects::Object> changed = changed_objects_.ToReport(kMostChangedAtOnce);
  for (const ChangedObjects::Object& object : changed) {
    proto::ChangedObject& message = *request.add_changed();
    message.set_link(BytesOf(object.link));
    message.set_key(object.key);
    message.set_etag(object.etag);
  }
  Result<RpcReply> reply = co_await Ask(Method::kHeartbeat, request);
  if (!reply) co_return Fail(reply.error());
  proto::HeartbeatReply message;
  Status status = ParseMessage(reply->message, message);
  if (status) status = CheckFence(message.fence());
  if (!status) co_return status;
  changed_objects_.MarkReported(changed, Clock::now());
  if (message.register_again()) {
    registered_ = false;
    Hurry();
  }
  TakeLeases(message);
  const FillLimits limits = FromProto(message.fill_limits());
  if (limits != cluster_.fill_limits()) status = co_await TakeFillLimits(limits);
  if (status && message.links_version() != cluster_.links_version())
    status = co_await TakeLinks(message.links(), message.links_version());
  co_return status;
}

/// They come every second, a little different each time. On disk they are for a restart without a
/// coordinator, which needs to know about how much S3 takes: now and then is enough.
void Heartbeat::TakeLeases(const proto::HeartbeatReply& reply) {
  std::vector<RequestLease> leases;
  for (const proto::RequestLease& lease : reply.leases())
    leases.push_back({UuidFromBytes(lease.link()), lease.requests_per_s()});
  brakes_->SetLeases(leases);
  const bool is_due = Clock::now() >= keep_leases_at_ && AreFarFrom(kept_leases_, leases);
  cluster_.SetLeases(leases);
  if (!is_due) return;
  kept_leases_ = std::move(leases);
  keep_leases_at_ = Clock::now() + kBetweenKeptLeases;
  Spawn(io_.At(0), KeepView());
}

Task<Status> Heartbeat::FetchRing() {
  proto::GetRingRequest request;
  request.set_have_epoch(cluster_.ring_epoch());
  Result<RpcReply> reply = co_await Ask(Method::kGetRing, request);
  if (!reply) co_return Fail(reply.error());
  proto::GetRingReply message;
  Status status = ParseMessage(reply->message, message);
  // A table is known with who has shown it: a coordinator that has just begun may have a later one
  // than it began with.
  if (status && message.has_fence()) status = CheckFence(message.fence());
  if (!status) co_return status;
  if (reply->payload.bytes.empty()) co_return Status();
  Status taken = co_await TakeRing(std::move(reply->payload));
  co_return taken;
}

Task<void> Heartbeat::KeepView() {
  auto keep = [this] { return cluster_.Keep(); };
  const Status kept = co_await offload_.Run(std::move(keep));
  // The node goes on with what it was told; only a restart would not know it.
  if (!kept) spdlog::warn("what the coordinator said is not kept: {}", kept.error().message);
}

/// A node that was started again does not believe an old coordinator either.
void Heartbeat::KeepFence() {
  const Fence now = cluster_.fence();
  if (std::exchange(kept_fence_, now) == now) return;
  Spawn(io_.At(0), KeepView());
}

Task<Status> Heartbeat::TakeLinks(google::protobuf::RepeatedPtrField<proto::LinkSpec> messages,
                                  std::uint64_t version) {
  Hurry();  // as below: somebody may wait until the nodes know
  // Off the event loop: those who follow the view may have much to do.
  auto take = [this, messages = std::move(messages), version]() -> Status {
    std::vector<LinkSpec> links;
    for (const proto::LinkSpec& message : messages) {
      Result<LinkSpec> link = FromProto(message);
      if (!link) return Fail(link.error());
      links.push_back(std::move(*link));
    }
    cluster_.SetLinks(std::move(links), version);
    return {};
  };
  Status taken = co_await offload_.Run(std::move(take));
  // Beside the heartbeat, which a disk that hangs must not hold up.
  if (taken) Spawn(io_.At(0), KeepView());
  co_return taken;
}

Task<Status> Heartbeat::TakeFillLimits(FillLimits limits) {
  // Whoever decided it waits until the nodes say that they know.
  if (limits.version != cluster_.fill_limits().version) Hurry();
  auto take = [this, limits]() -> Status {
    cluster_.SetFillLimits(limits);
    return {};
  };
  Status taken = co_await offload_.Run(std::move(take));
  // Beside the heartbeat, which a disk that hangs must not hold up.
  if (taken) Spawn(io_.At(0), KeepView());
  co_return taken;
}

Task<Status> Heartbeat::TakeRing(Slice bytes) {
  auto take = [this, bytes = std::move(bytes)]() -> Status {
    Result<RingTable> table = RingTable::Parse(
        std::string_view(reinterpret_cast<const char*>(bytes.bytes.data()), bytes.bytes.size()));
    if (!table) return Fail(table.error());
    cluster_.OfferRing(std::move(*table));
    return {};
  };
  Status taken = co_await offload_.Run(std::move(take));
  // Beside the heartbeat, which a disk that hangs must not hold up.
  if (taken) Spawn(io_.At(0), KeepView());
  co_return taken;
}

// What the disks hold that are in service; a node without one is a member all the same.
std::uint64_t Heartbeat::Room() const {
  std::uint64_t bytes = 0;
  for (const DiskUsage& disk : store_->Disks())
    if (disk.state == DiskState::kOk) bytes += disk.capacity_bytes;
  return std::max<std::uint64_t>(bytes, 1);
}

void Heartbeat::Stop(Deadline deadline) {
  stopping_.store(true, std::memory_order_release);
  Hurry();
  {
    std::unique_lock lock(mutex_);
    changed_.wait_until(lock, deadline.at(), [this] { return !running_; });
  }
  // The connections end with their event loop: nothing runs on it any more.
  io_.Stop();
  leader_.reset();
  coordinators_.reset();
}

}  // namespace forebay
