// A server under clients that say the wrong thing, too much, or nothing. Each loses its connection;
// an honest client of the same server goes on.
#include <gtest/gtest.h>

#include <random>

#include "tests/component/wire/raw_peer.h"
#include "tests/component/wire/wire_fixture.h"

namespace forebay {
namespace {

const Credentials kClient = Who(proto::ROLE_CLIENT);

std::string RequestBytes(std::uint64_t id, std::uint32_t number = 1,
                         Method method = Method::kReadBlock) {
  proto::ReadBlockRequest request;
  request.set_range_begin(number);
  return FrameBytes(HeaderOf(FrameKind::kRequest, id, method), request.SerializeAsString());
}

std::string WithLength(std::string frame, std::size_t offset, std::uint32_t length) {
  for (std::size_t i = 0; i < 4; ++i) frame[offset + i] = static_cast<char>(length >> (8 * i));
  return frame;
}

constexpr std::size_t kMessageLengthAt = 28;
constexpr std::size_t kPayloadLengthAt = 32;

class HostileClient : public WireFixture {
 protected:
  HostileClient() { server_options_.handshake_timeout = std::chrono::milliseconds(300); }

  RawPeer Opened() {
    RawPeer peer = RawPeer::ConnectTo(address_);
    EXPECT_TRUE(peer.connected());
    EXPECT_TRUE(peer.OpenAsClient(kClient));
    return peer;
  }

  std::uint64_t Refused() const { return server_->counters().handshakes_refused.load(); }
  std::uint64_t Broken() const { return server_->counters().protocol_errors.load(); }

  void ExpectOnlyTheHonestClient() {
    EXPECT_EQ(AnswerOf(Call(77)), 77u);
    EXPECT_TRUE(Eventually([this] { return server_->counters().connections.load() == 1; }));
  }

  std::mt19937 random_{20'240'601};

  std::string RandomBytes(std::size_t count) {
    std::string bytes(count, '\0');
    for (char& byte : bytes) byte = static_cast<char>(random_());
    return bytes;
  }

  void FlipOneBit(std::string& bytes) {
    char& byte = bytes[random_() % bytes.size()];
    byte = static_cast<char>(static_cast<unsigned char>(byte) ^ (1U << (random_() % 8)));
  }
};

TEST_F(HostileClient, RandomBytesBeforeTheHandshakeEndTheConnection) {
  Serve(EchoCall);
  Connect();
  for (int i = 0; i < 50; ++i) {
    const RawPeer peer = RawPeer::ConnectTo(address_);
    peer.Send(RandomBytes(kFrameHeaderBytes + random_() % 4096));
    ASSERT_TRUE(peer.Ends()) << i;
  }
  EXPECT_TRUE(Eventually([this] { return Refused() == 50; }));
  ExpectOnlyTheHonestClient();
}

TEST_F(HostileClient, AMutatedHandshakeEndsTheConnection) {
  Serve(EchoCall);
  Connect();
  proto::ClientHello hello;
  hello.set_version_min(kWireVersion);
  hello.set_version_max(kWireVersion);
  hello.set_role(proto::ROLE_CLIENT);
  hello.set_nonce(NewNonce());
  hello.set_program("test");
  for (int i = 0; i < 60; ++i) {
    const RawPeer peer = RawPeer::ConnectTo(address_);
    std::string message = hello.SerializeAsString();
    const bool below_the_checksum = i % 2 == 0;
    if (below_the_checksum) FlipOneBit(message);
    std::string frame = FrameBytes(HeaderOf(FrameKind::kHandshake), message);
    if (!below_the_checksum) FlipOneBit(frame);
    // Whatever was made of the first message, the second proves nothing.
    peer.Send(frame + FrameBytes(HeaderOf(FrameKind::kHandshake), RandomBytes(40)));
    ASSERT_TRUE(peer.Ends()) << i;
  }
  EXPECT_TRUE(Eventually([this] { return Refused() == 60; }));
  ExpectOnlyTheHonestClient();
}

TEST_F(HostileClient, AHandshakeThatNeverEndsIsEnded) {
  Serve(EchoCall);
  Connect();
  const std::string hello = FrameBytes(HeaderOf(FrameKind::kHandshake), "");
  const RawPeer silent = RawPeer::ConnectTo(address_);
  const RawPeer halfway = RawPeer::ConnectTo(address_);
  halfway.Send(hello.substr(0, 20));
  const RawPeer promises = RawPeer::ConnectTo(address_);
  promises.Send(FrameBytes(HeaderOf(FrameKind::kHandshake), std::string(4096, 'x')).substr(0, 99));
  EXPECT_TRUE(silent.Ends());
  EXPECT_TRUE(halfway.Ends());
  EXPECT_TRUE(promises.Ends());
  EXPECT_TRUE(Eventually([this] { return Refused() == 3; }));
  ExpectOnlyTheHonestClient();
}

TEST_F(HostileClient, TheFirstRequestComesSoonOrTheConnectionEnds) {
  server_options_.first_frame_timeout = std::chrono::milliseconds(200);
  Serve(EchoCall);
  const RawPeer idle = Opened();
  EXPECT_TRUE(idle.Ends());
  EXPECT_TRUE(Eventually([this] { return server_->counters().connections.load() == 0; }));
}

TEST_F(HostileClient, RandomAndMutatedFramesEndTheConnection) {
  Serve(EchoCall);
  Connect();
  for (int i = 0; i < 40; ++i) {
    const RawPeer peer = Opened();
    std::string bytes = i % 2 == 0 ? RandomBytes(kFrameHeaderBytes + 500) : RequestBytes(7);
    if (i % 2 == 1) FlipOneBit(bytes);
    // A flipped length asks for more bytes than came; the rest makes it whole, and wrong.
    peer.Send(bytes + std::string(kMaxControlFrameBytes, '\0'));
    ASSERT_TRUE(peer.Ends()) << i;
  }
  EXPECT_TRUE(Eventually([this] { return Broken() == 40; })) << Broken();
  EXPECT_EQ(server_->counters().calls.load(), 0u);
  ExpectOnlyTheHonestClient();
}

TEST_F(HostileClient, AFrameThatBreaksARuleEndsTheConnectionBeforeItsBytesCome) {
  Serve(EchoCall);
  Connect();
  const std::string request = RequestBytes(7);
  std::string reserved = request;
  reserved[36] = 1;
  std::string unknown = request;
  unknown[4] = 9;
  const std::vector<std::string> headers = {
      WithLength(request, kMessageLengthAt, 1U << 31),
      WithLength(request, kPayloadLengthAt, 1U << 31),
      WithLength(request, kMessageLengthAt, 0xFFFF'FFFF),
      WithLength(request, kMessageLengthAt, kMaxControlFrameBytes + 1),
      WithLength(request, kPayloadLengthAt, 1),
      reserved,
      unknown,
      FrameBytes(HeaderOf(FrameKind::kReply, 7), "", std::string(1 << 20, 'p')),
      FrameBytes(HeaderOf(FrameKind::kPending, 7), ""),
      FrameBytes(HeaderOf(FrameKind::kPong), ""),
      FrameBytes(HeaderOf(FrameKind::kHandshake), std::string(4096, 'h')),
  };
  for (std::size_t i = 0; i < headers.size(); ++i) {
    const RawPeer peer = Opened();
    // The header alone: nobody waits for what it promises.
    ASSERT_TRUE(peer.Send(headers[i].substr(0, kFrameHeaderBytes)));
    ASSERT_TRUE(peer.Ends()) << i;
  }
  EXPECT_TRUE(Eventually([&] { return Broken() == headers.size(); })) << Broken();
  ExpectOnlyTheHonestClient();
}

TEST_F(HostileClient, ATruncatedRequestIsNeverMade) {
  Serve(EchoCall);
  Connect();
  for (const std::size_t length : {std::size_t{1}, kFrameHeaderBytes, kFrameHeaderBytes + 1}) {
    const RawPeer peer = Opened();
    ASSERT_TRUE(peer.Send(RequestBytes(1).substr(0, length)));
  }
  EXPECT_TRUE(Eventually([this] { return server_->counters().connections.load() == 0; }));
  EXPECT_EQ(server_->counters().calls.load(), 0u);
  ExpectOnlyTheHonestClient();
}

TEST_F(HostileClient, ARequestThatComesTwiceEndsTheConnectionAndItsCalls) {
  Serve([](RpcCall) -> Task<Result<RpcReply>> {
    co_await SleepFor(kPatience);
    co_return Fail(Code::kTimeout, "nobody cancelled the call");
  });
  const RawPeer peer = Opened();
  ASSERT_TRUE(peer.Send(RequestBytes(7) + RequestBytes(7)));
  EXPECT_TRUE(peer.Ends());
  EXPECT_TRUE(Eventually([this] { return server_->counters().calls_in_flight.load() == 0; }));
  EXPECT_EQ(Broken(), 1u);
  EXPECT_EQ(server_->counters().calls.load(), 1u);
}

TEST_F(HostileClient, AnUnknownMethodIsAnsweredAndTheConnectionGoesOn) {
  Serve(EchoCall);
  const RawPeer peer = Opened();
  ASSERT_TRUE(peer.Send(RequestBytes(1, 1, static_cast<Method>(999)) + RequestBytes(2)));
  std::optional<RawFrame> refused = peer.Read();
  std::optional<RawFrame> answered = peer.Read();
  ASSERT_TRUE(refused && answered);
  if (refused->header.request_id == 2) std::swap(refused, answered);
  EXPECT_EQ(refused->header.code, 8);  // invalid (docs/WIRE.md)
  EXPECT_EQ(answered->header.code, 0);
  EXPECT_EQ(server_->counters().calls_denied.load(), 1u);
}

TEST_F(HostileClient, AMessageThatIsABombIsAnsweredInvalid) {
  Serve([](RpcCall call) -> Task<Result<RpcReply>> {
    proto::CheckBlocksRequest request;
    const Status parsed = ParseMessage(call.message, request);
    EXPECT_LE(request.blocks_size(), kMaxRepeatedFields);
    if (!parsed) co_return Fail(parsed.error());
    co_return Echo(static_cast<std::uint32_t>(request.blocks_size()));
  });
  const RawPeer peer = Opened();
  std::string empty_messages;
  while (empty_messages.size() < kMaxControlFrameBytes) empty_messages.append("\x0A\x00", 2);
  const std::string deep = std::string(500'000, '\x7B') + std::string(500'000, '\x7C');
  const std::string most = empty_messages.substr(0, std::size_t{2} * kMaxRepeatedFields);
  const std::pair<std::string, int> cases[] = {
      {empty_messages, 8}, {deep, 8}, {RandomBytes(1000), 8}, {most, 0}};
  for (const auto& [message, code] : cases) {
    const FrameHeader header = HeaderOf(FrameKind::kRequest, 1, Method::kReadBlock);
    ASSERT_TRUE(peer.Send(FrameBytes(header, message)));
    const std::optional<RawFrame> reply = peer.Read();
    ASSERT_TRUE(reply.has_value());
    EXPECT_EQ(reply->header.code, code);
  }
}

Task<Result<RpcReply>> CountedAnswer(std::atomic<std::uint64_t>* begun) {
  begun->fetch_add(1);
  auto answer = std::make_shared<const Buffer>(kMaxPayloadBytes);
  co_return ReplyWith(proto::ReadBlockReply(), Slice::Of(std::move(answer)));
}

// One test for all that FAULTS.md's minimum rate cuts off: the window of 2 s passes once.
TEST_F(HostileClient, WhoStopsInMidFrameOrTakesNoAnswersIsCutOff) {
  std::atomic<std::uint64_t> begun{0};
  Serve([&begun](RpcCall) { return CountedAnswer(&begun); });
  Connect();
  const RawPeer in_header = Opened();
  ASSERT_TRUE(in_header.Send(RequestBytes(1).substr(0, 10)));
  const RawPeer in_message = Opened();
  const FrameHeader header = HeaderOf(FrameKind::kRequest, 1, Method::kReadBlock);
  const std::string longest = FrameBytes(header, std::string(kMaxControlFrameBytes, 'x'));
  ASSERT_TRUE(in_message.Send(longest.substr(0, longest.size() / 2)));
  const RawPeer trickling = Opened();
  ASSERT_TRUE(trickling.Send(longest.substr(0, 1000)));
  // 4 GiB of answers, asked for at once and never taken.
  const RawPeer greedy = Opened();
  std::string requests;
  for (std::uint64_t id = 1; id <= 1000; ++id) requests += RequestBytes(id);
  greedy.Send(requests);
  bool trickles = true;
  for (std::size_t at = 1000; trickles && at < 1400; ++at) {
    trickles = trickling.Send(longest.substr(at, 1));
    std::this_thread::sleep_for(std::chrono::milliseconds(20));  // 50 bytes a second
  }
  EXPECT_FALSE(trickles) << "a byte now and then kept the connection";
  EXPECT_TRUE(in_header.Ends());
  EXPECT_TRUE(in_message.Ends());
  EXPECT_TRUE(greedy.Ends());
  EXPECT_TRUE(Eventually([this] { return server_->counters().calls_in_flight.load() == 0; }));
  // 16 MiB in flight, the requests of one turn, and what the sockets' buffers took.
  EXPECT_GE(begun.load(), 4u);
  EXPECT_LE(begun.load(), 32u);
  begun.store(0);
  EXPECT_TRUE(Call(77).has_value());
  EXPECT_TRUE(Eventually([this] { return server_->counters().connections.load() == 1; }));
}

}  // namespace
}  // namespace forebay
