// A bad wire: stands in front of a node, knows what a frame is (docs/WIRE.md), and bends some of
// those that carry blocks. wire_proxy.py starts it.
//   wire_proxy SEED
// Says where it listens, and then answers each line of standard input with one of its own: how many
// frames it has bent since the last "bend", and how many connections it has had.
//   target IP:PORT           the node; before the first connection comes
//   bend FAULT EVERY TIMES   from now on each EVERY-th such frame, TIMES at most
//   straighten               no frame any more
//   count
// Ends with its standard input.
#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <boost/asio/buffer.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/read_until.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/socket_base.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <optional>
#include <random>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>

#include "common/base/deadline.h"
#include "common/base/executors.h"
#include "common/base/host_port.h"
#include "common/wire/frame.h"

namespace forebay {
namespace {

using Tcp = asio::ip::tcp;

constexpr std::size_t kReadBytes = 256 << 10;
constexpr std::size_t kCutBytes = 100;
constexpr std::chrono::milliseconds kDelay{100};
constexpr std::chrono::seconds kStall{60};
constexpr std::size_t kTrickleBytes = 100;  // in each kDelay

/// What is done to a reply with a block, or, the last two, to a question for one.
enum class Fault : std::uint8_t {
  kNone,
  kFlipHead,     ///< One bit, there …
  kFlipMessage,  ///< … there …
  kFlipPayload,  ///< … or there.
  kTwice,
  kCutOut,    ///< Some bytes of its middle are missing.
  kCutShort,  ///< The first half, and the connection ends; …
  kReset,     ///< … ends with a RST.
  kDelay,
  kStall,    ///< The first half, and nothing more.
  kTrickle,  ///< 1000 bytes a second.
  kFlipQuestion,
  kQuestionTwice,
};

constexpr std::array<std::pair<std::string_view, Fault>, 12> kFaults{{
    {"flip_head", Fault::kFlipHead},
    {"flip_message", Fault::kFlipMessage},
    {"flip_payload", Fault::kFlipPayload},
    {"twice", Fault::kTwice},
    {"cut_out", Fault::kCutOut},
    {"cut_short", Fault::kCutShort},
    {"reset", Fault::kReset},
    {"delay", Fault::kDelay},
    {"stall", Fault::kStall},
    {"trickle", Fault::kTrickle},
    {"flip_question", Fault::kFlipQuestion},
    {"question_twice", Fault::kQuestionTwice},
}};

Fault FaultOf(std::string_view name) {
  for (const auto& [known, fault] : kFaults) {
    if (known == name) return fault;
  }
  return Fault::kNone;
}

FrameKind WayOf(Fault fault) {
  return fault == Fault::kFlipQuestion || fault == Fault::kQuestionTwice ? FrameKind::kRequest
                                                                         : FrameKind::kReply;
}

bool IsAboutBlock(const FrameHeader& header) {
  if (header.kind == FrameKind::kRequest) return header.method == Method::kReadBlock;
  return header.kind == FrameKind::kReply && header.message_bytes > 0 && header.payload_bytes > 0;
}

/// Which frames are bent, and how.
struct Bends {
  /// What is done to this one.
  Fault Next(const FrameHeader& header) {
    if (fault == Fault::kNone || WayOf(fault) != header.kind || !IsAboutBlock(header)) {
      return Fault::kNone;
    }
    if (++seen % every != 0 || made == times) return Fault::kNone;
    ++made;
    return fault;
  }

  /// Another bit than it was, somewhere in [begin, end).
  void FlipBit(std::string* bytes, std::size_t begin, std::size_t end) {
    const std::size_t at = begin + random() % (end - begin);
    (*bytes)[at] = static_cast<char>((*bytes)[at] ^ (1 << random() % 8));
  }

  std::mt19937_64 random;
  Tcp::endpoint target;
  Fault fault = Fault::kNone;
  std::uint64_t every = 1;
  std::uint64_t times = 0;
  std::uint64_t seen = 0;
  std::uint64_t made = 0;
  std::uint64_t connections = 0;
};

struct Connection {
  void Close() {
    boost::system::error_code ignored;
    mount.close(ignored);
    node.close(ignored);
  }

  Tcp::socket mount;
  Tcp::socket node;
};

struct Frame {
  FrameHeader header;
  std::string_view bytes;
};

/// The one that begins with `bytes`, once it is whole.
Result<std::optional<Frame>> FirstFrame(std::string_view bytes) {
  std::array<std::byte, kFrameHeaderBytes> fixed;
  if (bytes.size() < fixed.size()) return std::nullopt;
  std::memcpy(fixed.data(), bytes.data(), fixed.size());
  const Result<FrameHeader> header = DecodeFrameHeader(fixed);
  if (!header) return Fail(header.error());
  const std::size_t size =
      fixed.size() + std::size_t{header->message_bytes} + header->payload_bytes;
  if (bytes.size() < size) return std::nullopt;
  return Frame{*header, bytes.substr(0, size)};
}

/// One direction of a connection, which outlives it. Each of these returns false when the
/// connection is to end.
class Way {
 public:
  Way(Tcp::socket* from, Tcp::socket* to, Bends* bends) : from_(from), to_(to), bends_(bends) {}

  Task<bool> Receive() {
    if (filled_ == buffer_.size()) buffer_.resize(buffer_.size() + kReadBytes);
    boost::system::error_code error;
    const asio::mutable_buffer room(buffer_.data() + filled_, buffer_.size() - filled_);
    filled_ +=
        co_await from_->async_read_some(room, asio::redirect_error(asio::use_awaitable, error));
    co_return !error;
  }

  /// The whole frames that were received. What is not bent leaves as it came, in one write.
  Task<bool> PassOn() {
    const std::string_view received(buffer_.data(), filled_);
    std::size_t sent = 0;
    std::size_t seen = 0;
    for (;;) {
      const Result<std::optional<Frame>> frame = FirstFrame(received.substr(seen));
      if (!frame) {
        fmt::print(stderr, "wire_proxy: this is no frame: {}\n", frame.error().message);
        co_return false;
      }
      if (!*frame) break;
      const Fault fault = bends_->Next((*frame)->header);
      if (fault != Fault::kNone) {
        const std::string_view straight = received.substr(sent, seen - sent);
        if (!co_await Send(straight) || !co_await SendBent(fault, **frame)) co_return false;
        sent = seen + (*frame)->bytes.size();
      }
      seen += (*frame)->bytes.size();
    }
    if (!co_await Send(received.substr(sent, seen - sent))) co_return false;
    std::memmove(buffer_.data(), buffer_.data() + seen, filled_ - seen);
    filled_ -= seen;
    co_return true;
  }

 private:
  Task<bool> Send(std::string_view bytes) {
    if (bytes.empty()) co_return true;
    boost::system::error_code error;
    const asio::const_buffer buffer(bytes.data(), bytes.size());
    co_await asio::async_write(*to_, buffer, asio::redirect_error(asio::use_awaitable, error));
    co_return !error;
  }

  Task<bool> SendBent(Fault fault, Frame frame) {
    const std::size_t head = kFrameHeaderBytes;
    const std::size_t message_end = head + frame.header.message_bytes;
    const std::size_t half = frame.bytes.size() / 2;
    std::string bent(frame.bytes);
    switch (fault) {
      case Fault::kNone:
        break;
      case Fault::kFlipHead:
      case Fault::kFlipQuestion:
        bends_->FlipBit(&bent, 0, head);
        break;
      case Fault::kFlipMessage:
        bends_->FlipBit(&bent, head, message_end);
        break;
      case Fault::kFlipPayload:
        bends_->FlipBit(&bent, message_end, bent.size());
        break;
      case Fault::kTwice:
      case Fault::kQuestionTwice:
        bent += frame.bytes;
        break;
      case Fault::kCutOut:
        bent.erase(half, kCutBytes);
        break;
      case Fault::kCutShort:
      case Fault::kReset:
      case Fault::kStall:
        bent.resize(half);
        co_await EndAfter(fault, std::move(bent));
        co_return false;
      case Fault::kDelay:
        co_await SleepFor(kDelay);
        break;
      case Fault::kTrickle:
        co_return co_await Trickle(std::move(bent));
    }
    co_return co_await Send(bent);
  }

  Task<void> EndAfter(Fault fault, std::string half) {
    co_await Send(half);
    if (fault == Fault::kReset) {
      boost::system::error_code ignored;
      to_->set_option(asio::socket_base::linger(true, 0), ignored);
    }
    const Deadline end = Deadline::After(kStall);
    while (fault == Fault::kStall && to_->is_open() && !end.Expired()) co_await SleepFor(kDelay);
  }

  Task<bool> Trickle(std::string bytes) {
    for (std::size_t at = 0; at < bytes.size(); at += kTrickleBytes) {
      const std::string_view piece = std::string_view(bytes).substr(at, kTrickleBytes);
      if (!co_await Send(piece)) co_return false;
      co_await SleepFor(kDelay);
    }
    co_return true;
  }

  Tcp::socket* const from_;
  Tcp::socket* const to_;
  Bends* const bends_;
  std::string buffer_;
  std::size_t filled_ = 0;
};

/// Until one end closes, or a fault wants that.
Task<void> Carry(std::shared_ptr<Connection> connection, FrameKind kind, Bends* bends) {
  const bool questions = kind == FrameKind::kRequest;
  Way way(questions ? &connection->mount : &connection->node,
          questions ? &connection->node : &connection->mount, bends);
  while (co_await way.Receive() && co_await way.PassOn()) {
  }
  connection->Close();
}

Task<void> Connect(Tcp::socket mount, Bends* bends) {
  const asio::any_io_executor executor = co_await asio::this_coro::executor;
  const auto connection =
      std::make_shared<Connection>(Connection{std::move(mount), Tcp::socket(executor)});
  boost::system::error_code error;
  co_await connection->node.async_connect(bends->target,
                                          asio::redirect_error(asio::use_awaitable, error));
  if (error) co_return;
  ++bends->connections;
  for (Tcp::socket* const socket : {&connection->mount, &connection->node}) {
    socket->set_option(Tcp::no_delay(true), error);
  }
  Spawn(executor, Carry(connection, FrameKind::kRequest, bends));
  Spawn(executor, Carry(connection, FrameKind::kReply, bends));
}

Task<void> Accept(Tcp::acceptor* listening, Bends* bends) {
  const asio::any_io_executor executor = co_await asio::this_coro::executor;
  for (;;) {
    boost::system::error_code error;
    Tcp::socket mount =
        co_await listening->async_accept(asio::redirect_error(asio::use_awaitable, error));
    if (!error) Spawn(executor, Connect(std::move(mount), bends));
  }
}

/// Does what a line wants; false when that is nothing we know.
bool Obey(const std::string& line, Bends* bends) {
  std::istringstream words(line);
  std::string order;
  std::string what;
  words >> order >> what;
  if (order == "target") {
    const Result<HostPort> place = HostPort::Parse(what);
    boost::system::error_code error;
    if (place) bends->target = {asio::ip::make_address(place->host, error), place->port};
    return place && !error;
  }
  if (order == "bend") {
    bends->fault = FaultOf(what);
    bends->seen = bends->made = 0;
    return bends->fault != Fault::kNone && words >> bends->every >> bends->times &&
           bends->every > 0;
  }
  if (order == "straighten") bends->fault = Fault::kNone;
  return order == "straighten" || order == "count";
}

void Say(const std::string& line) {
  fmt::print("{}\n", line);
  (void)std::fflush(stdout);
}

Task<void> Listen(asio::io_context* context, Bends* bends) {
  asio::posix::stream_descriptor input(*context, ::dup(STDIN_FILENO));
  std::string text;
  for (;;) {
    boost::system::error_code error;
    const std::size_t length = co_await asio::async_read_until(
        input, asio::dynamic_buffer(text), '\n', asio::redirect_error(asio::use_awaitable, error));
    if (error) break;
    const std::string line = text.substr(0, length - 1);
    text.erase(0, length);
    if (!Obey(line, bends)) {
      fmt::print(stderr, "wire_proxy: '{}' is nothing that it can do\n", line);
      std::_Exit(2);
    }
    Say(fmt::format("{} {}", bends->made, bends->connections));
  }
  context->stop();
}

}  // namespace
}  // namespace forebay

int main(int argc, char** argv) {
  using namespace forebay;
  if (argc != 2) {
    fmt::print(stderr, "usage: wire_proxy SEED\n");
    return 2;
  }
  Bends bends;
  bends.random.seed(std::strtoull(argv[1], nullptr, 10));
  asio::io_context context(1);
  Tcp::acceptor listening(context, {asio::ip::address_v4::loopback(), 0});
  Say(fmt::format("127.0.0.1:{}", listening.local_endpoint().port()));
  Spawn(context, Accept(&listening, &bends));
  Spawn(context, Listen(&context, &bends));
  context.run();
  std::_Exit(0);  // what is still open ends with the process
}
