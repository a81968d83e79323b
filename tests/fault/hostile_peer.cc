// A member with a good certificate that means harm: frames that claim 2^31 bytes, frames of noise,
// and questions by the thousand whose answers it never takes: of a node reads and the ring table,
// of a coordinator all links, pieces of a listing and the ring table. Says at the end, as JSON,
// what it has done.
//   hostile_peer TRUST-DIR COORDINATOR NODE LINK KEY ETAG SIZE SECONDS
//   hostile_peer TRUST-DIR COORDINATOR LINK SECONDS
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
constexpr int kTableFloods = 100;  // 16 MiB of answers may wait on each.
// Of a coordinator. All connections together are fewer than the handshakes that one address may
// have under way: more would close one another.
constexpr int kLinksFloods = 40;
constexpr int kFewTableFloods = 8;
constexpr int kQuestionsOfAFlood = 1000;
// Longer than a server waits for who takes nothing.
constexpr std::chrono::seconds kFloodStays{6};
constexpr std::chrono::seconds kPatience{20};
// Each of them is a TLS handshake for the victim.
constexpr std::chrono::milliseconds kPause{20};

struct Plan {
  Credentials credentials;
  std::string coordinator, victim, link;
  ObjectRef object;  ///< That the node has; none: the coordinator is the victim.
  TimePoint end;
};

struct Done {
  std::uint64_t claims = 0;  ///< Connections that the victim closed for it …
  std::uint64_t noise = 0;   ///< … and for this.
  std::uint64_t floods = 0;  ///< Connections.
  std::uint64_t reads = 0;   ///< Asked for on these …
  std::uint64_t tables = 0;  ///< … on these …
  std::uint64_t links = 0;   ///< … on these …
  std::uint64_t pieces = 0;  ///< … and these.
  std::uint64_t failed = 0;  ///< Connections that were not had.
};

using Stream = std::unique_ptr<WireStream>;

Task<Stream> Connected(const Plan* plan) {
  const Deadline deadline = Deadline::After(kPatience);
  const auto places = co_await ResolveAddress(plan->victim, deadline);
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
  co_await stream->WriteAll(buffer, &error);
  co_return !error;
}

/// True when the victim closes the connection; nothing that it says meanwhile is looked at.
Task<bool> Closes(WireStream* stream) {
  const Deadline deadline = Deadline::After(kPatience);
  const SocketLimit limit(stream->socket(), deadline);
  std::string ignored(4096, '\0');
  for (;;) {
    boost::system::error_code error;
    const asio::mutable_buffer buffer(ignored.data(), ignored.size());
    co_await stream->Read(buffer, &error);
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

std::string QuestionNumber(int n, Method method, const google::protobuf::MessageLite& message) {
  FrameHeader header;
  header.kind = FrameKind::kRequest;
  header.request_id = static_cast<std::uint64_t>(n) + 1;
  header.method = method;
  header.deadline_ms = 60'000;
  return FrameOf(header, message.SerializeAsString());
}

/// For all of the object, over and over.
std::string ReadsOf(const ObjectRef& object, const LinkSpec& link) {
  const ObjectVersion version = VersionOf(link, object.key, object.etag, object.size);
  std::string questions;
  for (int n = 0; n < kQuestionsOfAFlood; ++n) {
    const auto offset = static_cast<std::uint64_t>(n) * link.block_bytes % object.size;
    BlockRequest request;
    request.link = link.id;
    request.object = object;
    request.block = BlockAt(version, object.size, link.block_bytes, offset);
    request.range = {0, request.block.length};
    questions += QuestionNumber(n, Method::kReadBlock, ToProto(request));
  }
  return questions;
}

/// The same one, over and over.
std::string QuestionsFor(Method method, const google::protobuf::MessageLite& message) {
  std::string questions;
  for (int n = 0; n < kQuestionsOfAFlood; ++n) questions += QuestionNumber(n, method, message);
  return questions;
}

std::string PieceQuestions(const proto::LinkState& link) {
  proto::ReadSnapshotRequest piece;
  piece.set_link(link.spec().id());
  piece.set_generation(link.generation().generation());
  piece.set_length(4 << 20);
  return QuestionsFor(Method::kReadSnapshot, piece);
}

/// Asks, over and over, and takes no answer.
Task<void> Flood(const Plan* plan, const std::string* questions, Done* done, std::uint64_t* asked) {
  while (Clock::now() < plan->end) {
    const Stream stream = co_await Connected(plan);
    if (!stream) {
      ++done->failed;
      co_await SleepFor(kPause);
      continue;
    }
    ++done->floods;
    const SocketLimit limit(stream->socket(), Deadline::After(kFloodStays));
    if (co_await Written(stream.get(), questions)) *asked += kQuestionsOfAFlood;
    co_await SleepFor(kFloodStays);
  }
}

Task<Result<proto::LinkState>> FindLink(ClientPool* pool, const Plan* plan) {
  proto::GetLinksRequest request;
  request.set_name(plan->link);
  const Result<RpcReply> reply = co_await pool->Call(plan->coordinator, Method::kGetLinks, request,
                                                     Deadline::After(kPatience));
  if (!reply) co_return Fail(reply.error());
  proto::GetLinksReply links;
  const Status parsed = ParseMessage(reply->message, links);
  if (!parsed) co_return Fail(parsed.error());
  if (links.links_size() != 1) co_return Fail(Code::kNotFound, "no link " + plan->link);
  co_return links.links(0);
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

Result<proto::LinkState> AskForLink(asio::io_context& context, const Plan& plan) {
  ClientPoolOptions options;
  options.credentials = plan.credentials;
  ClientPool pool(context, options, [] { return std::uint64_t{0}; }, [](std::uint64_t) {});
  Result<proto::LinkState> link = Run(context, FindLink(&pool, &plan));
  pool.Close();
  return link;
}

int Main(const Plan& plan) {
  asio::io_context context(1);
  const Result<proto::LinkState> link = AskForLink(context, plan);
  if (!link) {
    fmt::print(stderr, "hostile_peer: {}\n", link.error().message);
    return 1;
  }
  Done done;
  const auto flood = [&](int connections, const std::string& questions, std::uint64_t* asked) {
    for (int i = 0; i < connections; ++i) Spawn(context, Flood(&plan, &questions, &done, asked));
  };
  Spawn(context, SendBadFrames(&plan, false, &done));
  Spawn(context, SendBadFrames(&plan, true, &done));
  const std::string tables = QuestionsFor(Method::kGetRing, proto::GetRingRequest());
  const std::string links = QuestionsFor(Method::kGetLinks, proto::GetLinksRequest());
  const std::string pieces = PieceQuestions(*link);
  std::string reads;
  const bool harms_coordinator = plan.object.key.empty();
  flood(harms_coordinator ? kFewTableFloods : kTableFloods, tables, &done.tables);
  if (harms_coordinator) {
    flood(kLinksFloods, links, &done.links);
    flood(kFloods, pieces, &done.pieces);
  } else {
    reads = ReadsOf(plan.object, FromProto(link->spec()).value());
    flood(kFloods, reads, &done.reads);
  }
  context.run_until(plan.end + kFloodStays);
  fmt::print(
      "{{\"claims\": {}, \"noise\": {}, \"floods\": {}, \"reads\": {}, \"tables\": {}, "
      "\"links\": {}, \"pieces\": {}, \"failed\": {}}}\n",
      done.claims, done.noise, done.floods, done.reads, done.tables, done.links, done.pieces,
      done.failed);
  std::fflush(stdout);
  std::_Exit(0);  // what is still open ends with the process
}

}  // namespace
}  // namespace forebay

int main(int argc, char** argv) {
  using namespace forebay;
  const bool harms_node = argc == 9;
  if (!harms_node && argc != 5) {
    fmt::print(stderr,
               "usage: hostile_peer TRUST-DIR COORDINATOR NODE LINK KEY ETAG SIZE SECONDS\n"
               "       hostile_peer TRUST-DIR COORDINATOR LINK SECONDS\n");
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
  plan.victim = argv[harms_node ? 3 : 2];
  plan.link = argv[harms_node ? 4 : 3];
  if (harms_node) plan.object = {argv[5], argv[6], std::strtoull(argv[7], nullptr, 10)};
  plan.end = Clock::now() + std::chrono::seconds(std::atoi(argv[argc - 1]));
  return Main(plan);
}
