#include "tests/sim/network.h"

#include <google/protobuf/message_lite.h>

#include <algorithm>
#include <boost/asio/io_context.hpp>
#include <boost/asio/this_coro.hpp>
#include <cstring>
#include <list>

#include "common/base/executors.h"

namespace forebay {
namespace sim {
namespace {

// Between machines of one rack.
constexpr std::chrono::microseconds kShortest{50};
constexpr std::chrono::microseconds kUsual{300};
// Until TCP has sent a lost packet again, once or twice.
constexpr std::chrono::milliseconds kFirstAgain{200};
constexpr std::chrono::milliseconds kLastAgain{1000};

thread_local Network* network = nullptr;

std::string MachineIn(const std::string& address) { return address.substr(0, address.find(':')); }

}  // namespace

void SetNetwork(Network* used) { network = used; }

void Network::Listen(const std::string& address, Server server) {
  servers_[address] = std::move(server);
}

void Network::Close(const std::string& address) {
  const auto found = servers_.find(address);
  if (found == servers_.end()) return;
  Process* process = found->second.process;
  servers_.erase(found);
  std::vector<Held> orphans;
  for (const auto& [number, exchange] : working_) {
    if (exchange->server == process) orphans.push_back(exchange);
  }
  for (const Held& exchange : orphans) {
    working_.erase(exchange->number);
    exchange->server = nullptr;
    exchange->silent_since = world_.now();
    Fail(exchange, "the connection was lost");
  }
}

void Network::Cut(const std::string& from, const std::string& to) {
  cuts_.try_emplace({from, to}, world_.now());
}

void Network::Isolate(const std::string& machine) { isolated_.try_emplace(machine, world_.now()); }

void Network::HealAll() {
  cuts_.clear();
  isolated_.clear();
  slow_.clear();
}

std::optional<TimePoint> Network::CutSince(const std::string& from, const std::string& to) const {
  std::optional<TimePoint> since;
  const auto take = [&since](TimePoint at) { since = since ? std::min(*since, at) : at; };
  if (from == to || (cuts_.empty() && isolated_.empty())) return since;
  if (const auto cut = cuts_.find({from, to}); cut != cuts_.end()) take(cut->second);
  if (const auto cut = isolated_.find(from); cut != isolated_.end()) take(cut->second);
  if (const auto cut = isolated_.find(to); cut != isolated_.end()) take(cut->second);
  return since;
}

bool Network::Passes(const std::string& from, const std::string& to) const {
  return !CutSince(from, to);
}

Duration Network::Latency(const std::string& from, const std::string& to) {
  Duration latency = world_.Between(kShortest, kUsual);
  for (const auto& [machine, by] : slow_) {
    if (machine == from) latency += by;
    if (machine == to) latency += by;
  }
  if (world_.Chance(faults_.late)) {
    ++late_;
    latency += world_.Between(kFirstAgain, kLastAgain);
  }
  return latency;
}

std::shared_ptr<Network::Exchange> Network::Send(Process& client, std::string address,
                                                 Method method, std::string message,
                                                 std::uint64_t epoch, Deadline deadline) {
  auto exchange = std::make_shared<Exchange>();
  exchange->number = ++calls_;
  exchange->client = &client;
  exchange->from = MachineOf(client);
  exchange->machine = MachineIn(address);
  exchange->to = std::move(address);
  exchange->method = method;
  exchange->message = std::move(message);
  exchange->epoch = epoch;
  exchange->deadline = deadline;
  exchange->silent_since = world_.now();
  if (world_.Chance(faults_.reset)) {
    ++resets_;
    Fail(exchange, "the connection was reset");
    // Whether the request had arrived nobody knows.
    if (world_.Chance(0.5)) return exchange;
  }
  world_.After(Latency(exchange->from, exchange->machine), [this, exchange] { Arrive(exchange); });
  return exchange;
}

void Network::Arrive(const Held& exchange) {
  if (!Passes(exchange->from, exchange->machine)) {
    ++lost_;
    return;
  }
  const auto found = servers_.find(exchange->to);
  if (found == servers_.end()) {
    Fail(exchange, "nobody listens at " + exchange->to);
    return;
  }
  found->second.process->Deliver([this, exchange] { Work(exchange); });
}

void Network::Work(const Held& exchange) {
  const auto found = servers_.find(exchange->to);
  if (found == servers_.end()) return;
  Server& server = found->second;
  if (exchange->epoch > server.epoch()) server.on_newer_epoch(exchange->epoch);
  const auto handler = server.methods.find(exchange->method);
  if (handler == server.methods.end()) {
    Answer(exchange, forebay::Fail(Code::kInvalid, "there is no such method here"));
    return;
  }
  RpcCall call;
  call.method = exchange->method;
  call.message = exchange->message;
  call.deadline = exchange->deadline;
  call.ring_epoch = exchange->epoch;
  call.peer.role = proto::ROLE_NODE;
  call.peer.id = exchange->from;
  exchange->server = server.process;
  exchange->cancel = std::make_shared<asio::cancellation_signal>();
  working_.emplace(exchange->number, exchange);
  auto ended = [this, exchange] {
    if (working_.erase(exchange->number) > 0) exchange->silent_since = world_.now();
    exchange->server = nullptr;
  };
  Spawn(server.executor, Handle(exchange, &handler->second, std::move(call)),
        exchange->cancel->slot(), std::move(ended));
}

Task<void> Network::Handle(Held exchange, const RpcHandler* handler, RpcCall call) {
  Result<RpcReply> reply = co_await (*handler)(std::move(call));
  Answer(exchange, std::move(reply));
}

void Network::Answer(const Held& exchange, Result<RpcReply> reply) {
  const auto found = servers_.find(exchange->to);
  if (reply && found != servers_.end()) {
    const bool hides = hides_epochs_ && exchange->from.starts_with(kMountMachines);
    reply->ring_epoch = hides ? 0 : found->second.epoch();
  }
  if (reply && !reply->payload.bytes.empty()) Carry(*reply);
  Return(exchange, std::move(reply));
}

// What has left a process does not belong to it any more.
void Network::Carry(RpcReply& reply) {
  auto bytes = std::make_shared<Buffer>(reply.payload.bytes.size());
  std::memcpy(bytes->data(), reply.payload.bytes.data(), bytes->size());
  if (world_.Chance(faults_.flipped)) {
    ++flips_;
    bytes->data()[world_.Random(bytes->size())] ^= std::byte{1};
  }
  reply.payload = Slice::Of(std::shared_ptr<const Buffer>(std::move(bytes)));
}

void Network::Return(const Held& exchange, Result<RpcReply> reply) {
  const Duration latency = Latency(exchange->machine, exchange->from);
  world_.After(latency, [this, exchange, reply = std::move(reply)]() mutable {
    if (exchange->client == nullptr || exchange->answer) return;
    if (!Passes(exchange->machine, exchange->from)) {
      ++lost_;
      return;
    }
    exchange->client->Deliver([exchange, reply = std::move(reply)]() mutable {
      if (exchange->waiting == nullptr || exchange->answer) return;
      exchange->answer = std::move(reply);
      exchange->waiting->Cancel();
    });
  });
}

void Network::Fail(const Held& exchange, std::string why) {
  Return(exchange, forebay::Fail(Code::kUnavailable, std::move(why)));
}

TimePoint Network::HeardAt(const Exchange& exchange) const {
  if (exchange.server == nullptr) return exchange.silent_since;
  TimePoint heard = world_.now();
  if (exchange.server->stopped()) heard = std::min(heard, exchange.server->stopped_since());
  const std::optional<TimePoint> cut = CutSince(exchange.machine, exchange.from);
  return cut ? std::min(heard, *cut) : heard;
}

void Network::GiveUp(const Held& exchange) {
  exchange->client = nullptr;
  exchange->waiting = nullptr;
  if (given_up_ && !exchange->answer) given_up_();
  if (exchange->answer || !Passes(exchange->from, exchange->machine)) return;
  world_.After(Latency(exchange->from, exchange->machine), [exchange] {
    Process* server = exchange->server;
    if (server == nullptr) return;
    server->Deliver([exchange] {
      if (exchange->server != nullptr) exchange->cancel->emit(asio::cancellation_type::terminal);
    });
  });
}

}  // namespace sim

/// Calls over the simulated network.
class ClientPool::Impl {
 public:
  Impl(asio::io_context& context, ClientPoolOptions options, std::function<std::uint64_t()> epoch,
       std::function<void(std::uint64_t)> on_newer_epoch)
      : process_(sim::World::Current()->OwnerOf(context)),
        silence_(options.silence),
        epoch_(std::move(epoch)),
        on_newer_epoch_(std::move(on_newer_epoch)) {}

  Task<Result<RpcReply>> Call(std::string address, Method method, std::string message,
                              Deadline deadline, CallHandle* handle);
  void Close();

 private:
  struct Waiting;
  sim::Process& process_;
  const Duration silence_;
  const std::function<std::uint64_t()> epoch_;
  const std::function<void(std::uint64_t)> on_newer_epoch_;
  std::list<Waiting*> waiting_;
  bool closed_ = false;
};

/// A call's caller, while it waits; also where its coroutine is destroyed with its process.
struct ClientPool::Impl::Waiting {
  Waiting(std::list<Waiting*>& list, const asio::any_io_executor& executor)
      : all(list), alarm(executor) {
    place = all.insert(all.end(), this);
  }
  ~Waiting() {
    all.erase(place);
    if (handle != nullptr) handle->Set({});
    if (exchange) sim::network->GiveUp(exchange);
  }
  Waiting(const Waiting&) = delete;
  Waiting& operator=(const Waiting&) = delete;

  void End() {
    given_up = true;
    alarm.Cancel();
  }

  std::list<Waiting*>& all;
  std::list<Waiting*>::iterator place;
  Alarm alarm;
  std::shared_ptr<sim::Network::Exchange> exchange;
  CallHandle* handle = nullptr;
  bool given_up = false;
};

Task<Result<RpcReply>> ClientPool::Impl::Call(std::string address, Method method,
                                              std::string message, Deadline deadline,
                                              CallHandle* handle) {
  if (closed_) co_return Fail(Code::kUnavailable, "the program is stopping");
  const asio::any_io_executor executor = co_await asio::this_coro::executor;
  Waiting waiting(waiting_, executor);
  waiting.exchange = sim::network->Send(process_, std::move(address), method, std::move(message),
                                        epoch_(), deadline);
  const sim::Network::Exchange& exchange = *waiting.exchange;
  waiting.exchange->waiting = &waiting.alarm;
  waiting.handle = handle;
  if (handle != nullptr) handle->Set([&waiting] { waiting.End(); });
  while (!exchange.answer) {
    const TimePoint now = Clock::now();
    const TimePoint patience = sim::network->HeardAt(exchange) + silence_;
    if (waiting.given_up || closed_) co_return Fail(Code::kUnavailable, "the call was given up");
    if (deadline.Expired(now)) co_return Fail(Code::kTimeout, "no answer before the deadline");
    if (now >= patience)
      co_return Fail(Code::kUnavailable, exchange.to + " has said nothing for too long");
    co_await waiting.alarm.WaitUntil(std::min(patience, deadline.at()));
  }
  Result<RpcReply> reply = *exchange.answer;
  if (reply && reply->ring_epoch > epoch_()) on_newer_epoch_(reply->ring_epoch);
  co_return reply;
}

void ClientPool::Impl::Close() {
  closed_ = true;
  for (Waiting* waiting : waiting_) waiting->alarm.Cancel();
}

ClientPool::ClientPool(asio::io_context& context, ClientPoolOptions options,
                       std::function<std::uint64_t()> epoch,
                       std::function<void(std::uint64_t)> on_newer_epoch)
    : impl_(std::make_shared<Impl>(context, std::move(options), std::move(epoch),
                                   std::move(on_newer_epoch))) {}

ClientPool::~ClientPool() = default;

Task<Result<RpcReply>> ClientPool::Call(std::string address, Method method,
                                        const google::protobuf::MessageLite& request,
                                        Deadline deadline, CallHandle* handle) {
  const std::shared_ptr<Impl> impl = impl_;
  std::string message = request.SerializeAsString();
  Result<RpcReply> reply =
      co_await impl->Call(std::move(address), method, std::move(message), deadline, handle);
  co_return reply;
}

Task<Result<RpcReply>> ClientPool::CallForFile(std::string, Method,
                                               const google::protobuf::MessageLite&, Deadline) {
  co_return Fail(Code::kUnavailable, "no files are passed between machines");
}

Task<Result<std::string>> ClientPool::Channel(std::string, Deadline) { co_return std::string(); }

void ClientPool::Close() { impl_->Close(); }

}  // namespace forebay
