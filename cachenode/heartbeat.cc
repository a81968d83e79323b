#include "cachenode/heartbeat.h"

#include <spdlog/spdlog.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_future.hpp>
#include <future>
#include <random>
#include <thread>
#include <utility>

#include "common/wire/messages.h"

namespace forebay {
namespace {

constexpr std::chrono::seconds kCallPatience{5};
constexpr std::chrono::seconds kSayWaitingEvery{10};
constexpr std::chrono::milliseconds kLook{100};

std::uint64_t RandomIncarnation() {
  std::random_device device;
  return (std::uint64_t{device()} << 32) | device();
}

bool IsRefusal(const Status& status) {
  return !status && (status.error().code == Code::kInvalid || status.error().code == Code::kDenied);
}

std::string Join(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : ", ") + word;
  return text;
}

}  // namespace

Heartbeat::Heartbeat(HeartbeatOptions options, ClusterView& cluster, NodeCounters& counters,
                     Offload& offload)
    : options_(std::move(options)),
      cluster_(cluster),
      counters_(counters),
      offload_(offload),
      incarnation_(RandomIncarnation()),
      io_("control", 1) {
  ClientPoolOptions pool;
  pool.credentials = options_.credentials;
  coordinators_ = std::make_unique<ClientPool>(
      io_.At(0), std::move(pool), [this] { return cluster_.ring_epoch(); },
      [this](std::uint64_t epoch) { NoticeEpoch(epoch); });
  io_.Start();
}

Heartbeat::~Heartbeat() { Stop(); }

Task<Result<RpcReply>> Heartbeat::Ask(Method method, const google::protobuf::MessageLite& request) {
  Result<RpcReply> reply = Fail(Code::kUnavailable, "no coordinator is configured");
  for (std::size_t tried = 0; tried < options_.coordinators.size(); ++tried) {
    const std::string address = options_.coordinators[current_ % options_.coordinators.size()];
    reply = co_await coordinators_->Call(address, method, request, Deadline::After(kCallPatience));
    const bool elsewhere = !reply && (reply.error().code == Code::kUnavailable ||
                                      reply.error().code == Code::kTimeout);
    if (!elsewhere) co_return reply;
    ++current_;
  }
  co_return reply;
}

Result<Uuid> Heartbeat::LearnCluster(std::stop_token stopping) {
  const auto ask = [this]() -> Task<Result<RpcReply>> {
    const proto::GetLinksRequest request;
    Result<RpcReply> reply = co_await Ask(Method::kGetLinks, request);
    co_return reply;
  };
  TimePoint say_at = Clock::now();
  while (!stopping.stop_requested()) {
    Result<RpcReply> reply = asio::co_spawn(io_.At(0), ask(), asio::use_future).get();
    proto::GetLinksReply message;
    if (reply && ParseMessage(reply->message, message)) return UuidFromBytes(message.cluster());
    if (!reply && reply.error().code == Code::kDenied) return Fail(reply.error());
    if (!reply && Clock::now() >= say_at) {
      spdlog::warn("waiting for the coordinator: {}", reply.error().message);
      say_at = Clock::now() + kSayWaitingEvery;
    }
    std::this_thread::sleep_for(kLook);
  }
  return Fail(Code::kUnavailable,
              "stopped while waiting for the coordinator " + Join(options_.coordinators));
}

void Heartbeat::Start(NodeInfo self, BlockStore& store) {
  self_ = std::move(self);
  store_ = &store;
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
  for (bool last = false; !last;) {
    last = stopping_.load(std::memory_order_acquire);
    Notifier::Ticket ticket = hurry_.Enlist(executor);
    Status status;
    if (!registered_) status = co_await Register();
    if (status && registered_) status = co_await Report();
    if (status && wanted_epoch_.load() > cluster_.ring_epoch()) status = co_await FetchRing();
    NoteOutcome(status);
    if (last) break;
    const bool hurried = co_await ticket.Wait(Deadline::After(options_.every));
    (void)hurried;
  }
  {
    const std::scoped_lock lock(mutex_);
    running_ = false;
  }
  changed_.notify_all();
}

void Heartbeat::NoteOutcome(const Status& status) {
  if (status && silent_) spdlog::info("the coordinator answers again");
  if (!status && !silent_ && !stopping_.load()) {
    spdlog::warn("no coordinator answers, serving on from what is known: {}",
                 status.error().message);
  }
  silent_ = !status;
}

Task<Status> Heartbeat::Register() {
  proto::RegisterNodeRequest request;
  *request.mutable_node() = ToProto(self_);
  request.set_incarnation(incarnation_);
  Result<RpcReply> reply = co_await Ask(Method::kRegisterNode, request);
  proto::RegisterNodeReply message;
  Status status = reply ? ParseMessage(reply->message, message) : Fail(reply.error());
  if (status) {
    registered_ = true;
    status = co_await TakeRing(std::move(reply->payload));
  }
  std::vector<LinkSpec> links;
  for (const proto::LinkSpec& link : message.links()) {
    Result<LinkSpec> spec = FromProto(link);
    if (spec) links.push_back(std::move(*spec));
  }
  if (status) status = co_await TakeLinks(std::move(links), message.links_version());
  {
    const std::scoped_lock lock(mutex_);
    if (!first_ && (status || IsRefusal(status))) first_ = status;
  }
  changed_.notify_all();
  co_return status;
}

Task<Status> Heartbeat::Report() {
  const proto::HeartbeatRequest request = Compose();
  Result<RpcReply> reply = co_await Ask(Method::kHeartbeat, request);
  if (!reply) co_return Fail(reply.error());
  proto::HeartbeatReply message;
  Status parsed = ParseMessage(reply->message, message);
  if (!parsed) co_return parsed;
  if (message.register_again()) {
    registered_ = false;
    Hurry();
  }
  if (message.links_version() == cluster_.links_version()) co_return Status();
  std::vector<LinkSpec> links;
  for (const proto::LinkSpec& link : message.links()) {
    Result<LinkSpec> spec = FromProto(link);
    if (!spec) co_return Fail(spec.error());
    links.push_back(std::move(*spec));
  }
  Status taken = co_await TakeLinks(std::move(links), message.links_version());
  co_return taken;
}

Task<Status> Heartbeat::FetchRing() {
  proto::GetRingRequest request;
  request.set_have_epoch(cluster_.ring_epoch());
  Result<RpcReply> reply = co_await Ask(Method::kGetRing, request);
  if (!reply) co_return Fail(reply.error());
  if (reply->payload.bytes.empty()) co_return Status();
  Status taken = co_await TakeRing(std::move(reply->payload));
  co_return taken;
}

Task<Status> Heartbeat::TakeLinks(std::vector<LinkSpec> links, std::uint64_t version) {
  // The view is written to the disk.
  auto take = [this, links = std::move(links), version]() mutable {
    return cluster_.SetLinks(std::move(links), version);
  };
  Status taken = co_await offload_.Run(std::move(take));
  co_return taken;
}

Task<Status> Heartbeat::TakeRing(Slice bytes) {
  auto take = [this, bytes = std::move(bytes)]() -> Status {
    Result<RingTable> table = RingTable::Parse(
        std::string_view(reinterpret_cast<const char*>(bytes.bytes.data()), bytes.bytes.size()));
    if (!table) return Fail(table.error());
    return cluster_.OfferRing(std::move(*table));
  };
  Status taken = co_await offload_.Run(std::move(take));
  co_return taken;
}

proto::HeartbeatRequest Heartbeat::Compose() const {
  proto::HeartbeatRequest request;
  request.set_node_id(self_.id);
  request.set_incarnation(incarnation_);
  request.set_links_version(cluster_.links_version());
  const auto usage = store_->UsageByLink();
  const auto evicted = store_->EvictedBytesByLink();
  for (const auto& [link, count] : counters_.Links()) {
    proto::LinkCounters& counters = *request.add_links();
    counters.set_link(BytesOf(link));
    counters.set_reads(count->reads.load());
    counters.set_read_bytes(count->read_bytes.load());
    counters.set_hits(count->hits.load());
    counters.set_hit_bytes(count->hit_bytes.load());
    counters.set_misses(count->misses.load());
    counters.set_s3_gets(count->s3_gets.load());
    counters.set_s3_bytes(count->s3_bytes.load());
    counters.set_s3_retries(count->s3_retries.load());
    counters.set_s3_errors(count->s3_errors.load());
    auto gone = evicted.find(link);
    if (gone != evicted.end()) counters.set_evicted_bytes(gone->second);
    auto used = usage.find(link);
    if (used == usage.end()) continue;
    counters.set_cached_blocks(used->second.blocks);
    counters.set_cached_bytes(used->second.bytes);
  }
  for (const DiskUsage& disk : store_->Disks()) {
    proto::DiskReport& report = *request.add_disks();
    report.set_path(disk.path);
    report.set_state(static_cast<std::uint32_t>(disk.state));
    report.set_used_bytes(disk.used_bytes);
    report.set_capacity_bytes(disk.capacity_bytes);
  }
  request.set_blocks(store_->BlockCount());
  request.set_checksum_failures(store_->counters().checksum_failures.load());
  for (const JobCount& job : counters_.Jobs()) {
    proto::JobCounters& counters = *request.add_jobs();
    counters.set_job(job.job);
    counters.set_link(BytesOf(job.link));
    counters.set_reads(job.reads);
    counters.set_hits(job.hits);
  }
  return request;
}

void Heartbeat::Stop() {
  stopping_.store(true, std::memory_order_release);
  Hurry();
  {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, kCallPatience, [this] { return !running_; });
  }
  if (!coordinators_) return;
  asio::post(io_.At(0), [this] { coordinators_->Close(); });
  io_.Stop();
  coordinators_.reset();
}

}  // namespace forebay
