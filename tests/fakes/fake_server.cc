#include "tests/fakes/fake_server.h"

#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <future>
#include <stdexcept>
#include <utility>

#include "common/wire/messages.h"
#include "proto/coordinator.pb.h"

namespace forebay::fakes {

FakeServer::FakeServer(Credentials credentials, std::string listen,
                       std::vector<MethodEntry> methods) {
  RpcServerOptions options;
  options.listen = {std::move(listen)};
  options.credentials = std::move(credentials);
  methods.push_back(
      {Method::kGetRing, [this](RpcCall call) { return AnswerRing(std::move(call)); }});
  pool_.Start();
  server_ = std::make_unique<RpcServer>(
      pool_, std::move(options), std::move(methods), [this] { return epoch_.load(); },
      [](std::uint64_t) {});
  const Status started = server_->Start();
  if (!started) throw std::runtime_error(started.error().message);
  address_ = server_->addresses().front();
}

FakeServer::~FakeServer() { Stop(); }

void FakeServer::Post(std::function<void()> function) {
  asio::post(pool_.At(0), std::move(function));
}

void FakeServer::Stop() {
  if (!server_) return;
  server_->Stop(Deadline::After({}));
  // The port is closed by a turn of the event loop.
  std::promise<void> closed;
  Post([&closed] { closed.set_value(); });
  closed.get_future().wait();
  pool_.Stop();
  server_.reset();
}

void FakeServer::SetRing(RingTable table) {
  const std::scoped_lock lock(mutex_);
  epoch_ = table.epoch();
  ring_ = std::move(table);
}

Slice FakeServer::Ring() const {
  const std::scoped_lock lock(mutex_);
  auto bytes = std::make_shared<const std::string>(ring_.Serialize());
  const ByteView view(reinterpret_cast<const std::byte*>(bytes->data()), bytes->size());
  return Slice{std::move(bytes), view};
}

Task<Result<RpcReply>> FakeServer::AnswerRing(RpcCall call) {
  ++ring_questions_;
  proto::GetRingRequest request;
  const Status parsed = ParseMessage(call.message, request);
  if (!parsed) co_return Fail(parsed.error());
  proto::GetRingReply reply;
  reply.set_epoch(epoch_);
  if (request.have_epoch() >= reply.epoch()) co_return ReplyWith(reply);
  co_return ReplyWith(reply, Ring());
}

}  // namespace forebay::fakes
