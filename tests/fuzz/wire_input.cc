#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/message_lite.h>
#include <google/protobuf/wire_format_lite.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <boost/asio/io_context.hpp>
#include <cstring>
#include <map>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "common/model/limits.h"
#include "common/wire/connection.h"
#include "common/wire/messages.h"
#include "common/wire/rpc.h"
#include "common/wire/wire_stream.h"
#include "proto/common.pb.h"
#include "proto/coordinator.pb.h"
#include "proto/coordinator_state.pb.h"
#include "proto/handover.pb.h"
#include "proto/handshake.pb.h"
#include "proto/node.pb.h"
#include "proto/node_state.pb.h"
#include "tests/fuzz/fuzz_targets.h"

namespace forebay {
namespace {

constexpr std::uint8_t kFirstMessage = 4;

/// Zeros make a message that an input lacks so long: longer than what a connection receives at
/// once.
constexpr std::size_t kLongMessage = 70'000;

using MakeMessage = std::unique_ptr<google::protobuf::MessageLite> (*)();

template <typename Message>
std::unique_ptr<google::protobuf::MessageLite> Make() {
  return std::make_unique<Message>();
}

#define FOREBAY_MESSAGE(name) &Make<proto::name>,
constexpr MakeMessage kMessages[] = {FOREBAY_EVERY_MESSAGE};
#undef FOREBAY_MESSAGE

/// How often the most frequent field of the outermost message is there.
int MostEntries(std::string_view bytes) {
  using google::protobuf::internal::WireFormatLite;
  google::protobuf::io::CodedInputStream input(reinterpret_cast<const std::uint8_t*>(bytes.data()),
                                               static_cast<int>(bytes.size()));
  std::map<int, int> entries;
  int most = 0;
  for (std::uint32_t tag = input.ReadTag(); tag != 0; tag = input.ReadTag()) {
    most = std::max(most, ++entries[WireFormatLite::GetTagFieldNumber(tag)]);
    if (!WireFormatLite::SkipField(&input, tag)) break;
  }
  return most;
}

// What was understood is bounded, and is understood again, and the same.
void RunMessage(std::size_t number, std::string_view bytes) {
  const MakeMessage make = kMessages[number % std::size(kMessages)];
  const auto message = make();
  if (!ParseMessage(bytes, *message)) return;
  Require(MostEntries(bytes) <= kMaxRepeatedFields);
  const std::string written = message->SerializeAsString();
  const auto again = make();
  Require(ParseMessage(written, *again).has_value());
  Require(again->SerializeAsString() == written);
}

void RunModel(std::string_view bytes) {
  proto::LinkSpec link;
  if (ParseMessage(bytes, link)) {
    const Result<LinkSpec> read = FromProto(link);
    if (read) Require(FromProto(ToProto(*read)) == read);
  }
  proto::NodeInfo node;
  if (ParseMessage(bytes, node)) {
    const Result<NodeInfo> read = FromProto(node);
    if (read) Require(FromProto(ToProto(*read)) == read);
  }
}

// Whatever a header says, it asks for no more room than its kind may have.
void CheckBounds(const FrameHeader& header) {
  const bool carries = header.kind == FrameKind::kRequest || header.kind == FrameKind::kReply;
  const bool opens = header.kind == FrameKind::kHandshake;
  Require(header.message_bytes <= (carries ? kMaxControlFrameBytes
                                   : opens ? kMaxHandshakeBytes
                                           : 0));
  Require(header.payload_bytes <= (header.kind == FrameKind::kReply ? kMaxPayloadBytes : 0));
}

// Magic, reserved bytes and checksum as they should be, so that the fuzzer need not guess them.
std::string Repaired(std::string_view bytes) {
  std::string repaired;
  while (bytes.size() >= kFrameHeaderBytes) {
    std::array<std::byte, kFrameHeaderBytes> fixed;
    std::ranges::copy(std::as_bytes(std::span(bytes.substr(0, fixed.size()))), fixed.begin());
    std::memcpy(fixed.data(), "FBY1", 4);
    std::memset(fixed.data() + 36, 0, 4);
    const Result<FrameHeader> header = DecodeFrameHeader(fixed);
    if (!header) break;
    CheckBounds(*header);
    const std::string_view rest = bytes.substr(kFrameHeaderBytes);
    const std::string_view brought = rest.substr(0, header->message_bytes);
    std::string message(brought);
    message.resize(std::clamp<std::size_t>(kLongMessage, message.size(), header->message_bytes));
    const auto encoded = EncodeFrameHeader(*header, message);
    repaired.append(reinterpret_cast<const char*>(encoded.data()), encoded.size());
    repaired.append(message);
    const std::string_view payload = rest.substr(brought.size()).substr(0, header->payload_bytes);
    repaired.append(payload);
    bytes = rest.substr(brought.size() + payload.size());
  }
  return repaired.append(bytes);
}

void RunConnection(Side side, std::string_view bytes) {
  std::array<int, 2> ends{};
  Require(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) == 0);
  asio::io_context context(1);
  int closed = 0;
  StreamSocket socket(context, asio::generic::stream_protocol(AF_UNIX, 0), ends[0]);
  auto stream = std::make_unique<WireStream>(std::make_shared<StreamSocket>(std::move(socket)));
  const auto connection = std::make_shared<Connection>(std::move(stream), side);
  Connection::Events events;
  events.on_frame = [side](const InFrame& frame) {
    const FrameKind kind = frame.header.kind;
    const bool for_server = kind == FrameKind::kRequest || kind == FrameKind::kCancel;
    Require(for_server == (side == Side::kServer));
    Require(frame.message.size() <= kMaxControlFrameBytes);
    Require(frame.payload.bytes.size() <= kMaxPayloadBytes);
  };
  events.on_closed = [&closed](const Error&) { ++closed; };
  events.on_tick = [](TimePoint) {};
  events.busy = [] { return false; };
  events.epoch = [] { return std::uint64_t{1}; };
  connection->Start(std::move(events));
  // Inputs are shorter than the socket's buffer; one that is not is cut.
  const ssize_t sent = send(ends[1], bytes.data(), bytes.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
  Require(bytes.empty() || sent > 0);
  shutdown(ends[1], SHUT_WR);
  context.run();
  close(ends[1]);
  Require(closed == 1);
}

std::string FrameOf(FrameKind kind, std::string_view message, std::string_view payload = {}) {
  FrameHeader header;
  header.kind = kind;
  header.request_id = 7;
  header.payload_bytes = static_cast<std::uint32_t>(payload.size());
  const auto fixed = EncodeFrameHeader(header, message);
  std::string bytes(reinterpret_cast<const char*>(fixed.data()), fixed.size());
  return bytes.append(message).append(payload);
}

}  // namespace

void RunWireInput(std::string_view input) {
  if (input.empty()) return;
  const auto choice = static_cast<std::uint8_t>(input.front());
  const std::string_view bytes = input.substr(1);
  if (choice >= kFirstMessage) {
    RunMessage(choice - kFirstMessage, bytes);
    RunModel(bytes);
    return;
  }
  const Side side = choice % 2 == 0 ? Side::kServer : Side::kClient;
  if (choice < 2) {
    RunConnection(side, bytes);
  } else {
    RunConnection(side, Repaired(bytes));
  }
}

Seeds WireSeeds() {
  Seeds seeds;
  const auto to_server = [&seeds](const std::string& name, const std::string& bytes) {
    seeds["server-" + name] = std::string(1, '\0') + bytes;
    seeds["server-repaired-" + name] = std::string(1, '\2') + bytes;
  };
  const auto to_client = [&seeds](const std::string& name, const std::string& bytes) {
    seeds["client-" + name] = std::string(1, '\1') + bytes;
    seeds["client-repaired-" + name] = std::string(1, '\3') + bytes;
  };
  const std::string ping = FrameOf(FrameKind::kPing, "");
  to_server("requests", FrameOf(FrameKind::kRequest, "message") + ping +
                            FrameOf(FrameKind::kRequest, "another"));
  to_server("cancel", FrameOf(FrameKind::kCancel, ""));
  to_server("truncated", FrameOf(FrameKind::kRequest, "message").substr(0, 50));
  std::string unfinished = FrameOf(FrameKind::kRequest, "");
  unfinished.replace(28, 4, std::string("\x70\x11\x01\0", 4));  // 70,000
  to_server("long", unfinished);
  to_server("handshake", FrameOf(FrameKind::kHandshake, "hello"));
  to_client("replies", FrameOf(FrameKind::kReply, "message", "payload") +
                           FrameOf(FrameKind::kPending, "") + FrameOf(FrameKind::kPong, "") +
                           FrameOf(FrameKind::kReply, "", "payload alone"));
  to_client("truncated", FrameOf(FrameKind::kReply, "message", "payload").substr(0, 58));

  // Field by field: a number, bytes, a message of both, eight bytes, four bytes.
  std::string fields;
  for (int field = 1; field < 16; ++field) {
    const auto tag = [field](int type) { return static_cast<char>(field << 3 | type); };
    fields += tag(0) + std::string("\x05", 1);
    fields += tag(2) + std::string(
                           "\x03"
                           "abc",
                           4);
    fields += tag(2) + std::string("\x05\x08\x01\x12\x01x", 6);
    fields += tag(1) + std::string(8, '\1');
    fields += tag(5) + std::string(4, '\2');
  }
  std::string many(1, static_cast<char>(kFirstMessage));
  for (int entry = 0; entry <= kMaxRepeatedFields; ++entry) many += std::string("\x7A\0", 2);
  seeds["message-of-too-many"] = many;
  proto::LinkSpec link;
  link.set_id(std::string(16, 'i'));
  link.set_domain(std::string(16, 'd'));
  link.set_name("data");
  link.set_block_bytes(1 << 20);
  link.mutable_origin()->set_bucket("bucket");
  for (std::size_t i = 0; i < std::size(kMessages); ++i) {
    const std::string choice(1, static_cast<char>(kFirstMessage + i));
    seeds["message-" + std::to_string(i)] = choice + (i == 0 ? link.SerializeAsString() : fields);
  }
  return seeds;
}

}  // namespace forebay
