// A member with a good certificate that means harm to a node: frames that claim 2^31 bytes, frames
// of noise, and reads by the thousand whose answers it never takes. Says at the end, as JSON, what
// it has done.
//   hostile_peer TRUST-DIR COORDINATOR NODE LINK KEY ETAG SIZE SECONDS
#include <fmt/format.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <utility>

#include "common/base/executors.h"
#include "common/wire/address.h"
#include "common/wire/block_messages.h"
#include "common/wire/client_pool.h"
#include "common/wire/messages.h"
#include "common/wire/opening.h"
#include "common/wire/wire_stream.h"
#include "proto/coordinator.pb.h"
#include "proto/node.pb.h"

namespace forebay {
namespace {

constexpr std::uint32_t kClaim = 1U << 31;
constexpr int kFloods = 8;
constexpr int kReadsOfAFlood = 1000;
// Longer than a server waits for who takes nothing.
constexpr std::chrono::seconds kFloodStays{6};
constexpr std::chrono::seconds kPatience{20};
// Each of them is a TLS handshake for the node.
constexpr std::chrono::milliseconds kPause{20};

struct Plan {
  Credentials credentials;
  std::string coordinator, node, link;
  ObjectRef object;
  TimePoint end;
};

struct Done {
  std::uint64_t claims = 0;  ///< Connections that the node closed for it …
  std::uint64_t noise = 0;   ///< … and for this.
  std::uint64_t floods = 0;  ///< Connections.
  std::uint64_t reads = 0;   ///< Asked for on these.
  std::uint64_t failed = 0;  ///< Connections that were not had.
};

using Stream = std::unique_ptr<WireStream>;

Task<Stream> Connected(const Plan* plan) {
  const Deadline deadline = Deadline::After(kPatience);
  const auto places = co_await ResolveAddress(plan->node, deadline);
  if (!places) co_return nullptr;
  const asio::any_io_executor executor = co_await asio::this_coro::executor;
  auto socket = std::make_shared<StreamSocket>(executor);
  boost::system::error_code error;
  co_await socket->async_connect(places->front(), asio::redirect_error(asio::use_awaitable, error));
  if (error) co_return nullptr;
  auto stream = std::make_unique<WireStream>(std::move(socket));
  const Result<OpenedSocket> opened = co_await OpenAsClient(*stream, plan->credentials, deadline);
  if (!opened) co_return nullptr;
  co_return stream;
}

Task<bool> Written(WireStream* stream, const std::string* bytes) {
  boost::system::error_code error;
  const asio::const_buffer buffer(bytes->data(), bytes->size());
  co_await asio::async_write(*stream, buffer, asio::redirect_error(asio::use_awaitable, error));
  co_return !error;
}

/// True when the node closes the connection; nothing that it says meanwhile is looked at.
Task<bool> Closes(WireStream* stream) {
  const Deadline deadline = Deadline::After(kPatience);
  const SocketLimit limit(stream->socket(), deadline);
  std::string ignored(4096, '\0');
  for (;;) {
    boost::system::error_code error;
    const asio::mutable_buffer buffer(ignored.data(), ignored.size());
    co_await stream->async_read_some(buffer, asio::redirect_error(asio::use_awaitable, error));
    if (error) co_return !deadline.Expired();
  }
}

std::string FrameOf(FrameHeader header, const std::string& message) {
  header.message_bytes = static_cast<std::uint32_t>(message.size());
  const auto fixed = EncodeFrameHeader(header, message);
  return std::string(reinterpret_cast<const char*>(fixed.data()), fixed.size()) + message;
}

/// One that is right but for a length at `offset` (docs/WIRE.md).
std::string Claiming(std::size_t offset) {
  FrameHeader header;
  header.kind = FrameKind::kRequest;
  header.request_id = 1;
  header.method = Method::kReadBlock;
  std::string frame = FrameOf(header, "");
  std::memcpy(frame.data() + offset, &kClaim, sizeof kClaim);
  return frame;
}

std::string Noise(std::mt19937_64* random) {
  std::string bytes(512, '\0');
  for (char& byte : bytes) byte = static_cast<char>((*random)());
  return bytes;
}

Task<void> SendBadFrames(const Plan* plan, bool noise, Done* done) {
  std::mt19937_64 random(4711);
  while (Clock::now() < plan->end) {
    const Stream stream = co_await Connected(plan);
    if (!stream) {
      ++done->failed;
    } else {
      const std::size_t message_bytes = 28;
      const std::size_t payload_bytes = 32;
      const std::string bytes =
          noise ? Noise(&random) : Claiming(random() % 2 == 0 ? message_bytes : payload_bytes);
      (void)co_await Written(stream.get(), &bytes);
      if (co_await Closes(stream.get())) ++(noise ? done->noise : done->claims);
    }
    co_await SleepFor(kPause);
  }
}

/// Asks for all of the object, over and over, and takes no answer.
Task<void> Flood(const Plan* plan, const LinkSpec* link, Done* done) {
  const ObjectRef& object = plan->object;
  const ObjectVersion version = VersionOf(*link, object.key, object.etag, object.size);
  std::string questions;
  for (std::uint64_t n = 0; n < kReadsOfAFlood; ++n) {
    BlockRequest request;
    request.link = link->id;
    request.object = object;
    request.block =
        BlockAt(version, object.size, link->block_bytes, n * link->block_bytes % object.size);
    request.range = {0, request.block.length};
    FrameHeader header;
    header.kind = FrameKind::kRequest;
    header.request_id = n + 1;
    header.method = Method::kReadBlock;
    header.deadline_ms = 60'000;
    questions += FrameOf(header, ToProto(request).SerializeAsString());
  }
  while (Clock::now() < plan->end) {
    const Stream stream = co_await Connected(plan);
    if (!stream) {
      ++done->failed;
      co_await SleepFor(kPause);
      continue;
    }
    ++done->floods;
    const SocketLimit limit(stream->socket(), Deadline::After(kFloodStays));
    if (co_await Written(stream.get(), &questions)) done->reads += kReadsOfAFlood;
    co_await SleepFor(kFloodStays);
  }
}

Task<Result<LinkSpec>> FindLink(ClientPool* pool, const Plan* plan) {
  proto::GetLinksRequest request;
  request.set_name(plan->link);
  const Result<RpcReply> reply = co_await pool->Call(plan->coordinator, Method::kGetLinks, request,
                                                     Deadline::After(kPatience));
  if (!reply) co_return Fail(reply.error());
  proto::GetLinksReply links;
  const Status parsed = ParseMessage(reply->message, links);
  if (!parsed) co_return Fail(parsed.error());
  if (links.links_size() != 1) co_return Fail(Code::kNotFound, "no link " + plan->link);
  co_return FromProto(links.links(0).spec());
}

template <typename T>
T Run(asio::io_context& context, Task<T> task) {
  std::optional<T> result;
  asio::co_spawn(context, std::move(task), [&](const std::exception_ptr& failed, T value) {
    if (failed) std::rethrow_exception(failed);
    result.emplace(std::move(value));
    context.stop();
  });
  context.run();
  context.restart();
  return *std::move(result);
}

int Main(const Plan& plan) {
  asio::io_context context(1);
  ClientPoolOptions options;
  options.credentials = plan.credentials;
  ClientPool pool(context, options, [] { return std::uint64_t{0}; }, [](std::uint64_t) {});
  const Result<LinkSpec> link = Run(context, FindLink(&pool, &plan));
  if (!link) {
    fmt::print(stderr, "hostile_peer: {}\n", link.error().message);
    return 1;
  }
  pool.Close();
  Done done;
  Spawn(context, SendBadFrames(&plan, false, &done));
  Spawn(context, SendBadFrames(&plan, true, &done));
  for (int i = 0; i < kFloods; ++i) Spawn(context, Flood(&plan, &*link, &done));
  context.run_until(plan.end + kFloodStays);
  fmt::print("{{\"claims\": {}, \"noise\": {}, \"floods\": {}, \"reads\": {}, \"failed\": {}}}\n",
             done.claims, done.noise, done.floods, done.reads, done.failed);
  std::fflush(stdout);
  std::_Exit(0);  // what is still open ends with the process
}

}  // namespace
}  // namespace forebay

int main(int argc, char** argv) {
  using namespace forebay;
  if (argc != 9) {
    fmt::print(stderr,
               "usage: hostile_peer TRUST-DIR COORDINATOR NODE LINK KEY ETAG SIZE SECONDS\n");
    return 2;
  }
  Result<std::shared_ptr<Trust>> trust = Trust::Open(TrustFolder(argv[1]), proto::ROLE_CLIENT);
  if (!trust || !*trust) {
    fmt::print(stderr, "hostile_peer: {}\n",
               trust ? "no certificate is there" : trust.error().message);
    return 1;
  }
  Plan plan;
  plan.credentials.role = proto::ROLE_CLIENT;
  plan.credentials.id = (*trust)->self().id;
  plan.credentials.program = "hostile_peer 0";
  plan.credentials.trust = *trust;
  plan.coordinator = argv[2];
  plan.node = argv[3];
  plan.link = argv[4];
  plan.object = {argv[5], argv[6], std::strtoull(argv[7], nullptr, 10)};
  plan.end = Clock::now() + std::chrono::seconds(std::atoi(argv[8]));
  return Main(plan);
}
