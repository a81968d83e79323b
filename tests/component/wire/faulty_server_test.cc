// A client under servers that break off, stay silent, or say the wrong thing. The call fails as
// documented, and the next one gets its answer over a new connection.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <thread>

#include "tests/component/wire/raw_peer.h"
#include "tests/component/wire/wire_fixture.h"

namespace forebay {
namespace {

const Credentials kNode = Who(proto::ROLE_NODE);
constexpr std::chrono::milliseconds kShort{300};

std::string ReplyBytes(std::uint64_t id, std::uint32_t number, std::string_view payload = {}) {
  proto::ReadBlockReply reply;
  reply.set_begin(number);
  return FrameBytes(HeaderOf(FrameKind::kReply, id), reply.SerializeAsString(), payload);
}

class FaultyServer : public WireFixture {
 protected:
  FaultyServer() { address_ = listener_.address(); }

  /// The connection that the client opens for a call.
  RawPeer Accepted() {
    RawPeer peer = listener_.Accept();
    EXPECT_TRUE(peer.OpenAsServer(kNode));
    return peer;
  }
  static std::uint64_t IdOfNextRequest(const RawPeer& peer) {
    std::optional<RawFrame> frame = peer.Read();
    while (frame && frame->header.kind != FrameKind::kRequest) frame = peer.Read();
    EXPECT_TRUE(frame.has_value());
    return frame ? frame->header.request_id : 0;
  }

  /// A call that is answered as it should be, over a connection of its own.
  void ExpectTheNextCallSucceeds() {
    auto call = Start(Ask(42));
    const RawPeer peer = Accepted();
    EXPECT_TRUE(peer.Send(ReplyBytes(IdOfNextRequest(peer), 42)));
    EXPECT_EQ(AnswerOf(Await(std::move(call))), 42u);
  }

  /// The code of a call whose server sends `bytes` made from the request's id, then keeps open.
  Code CodeAfter(const std::function<std::string(std::uint64_t)>& bytes) {
    auto call = Start(Ask(1));
    const RawPeer peer = Accepted();
    peer.Send(bytes(IdOfNextRequest(peer)));
    const Result<RpcReply> reply = Await(std::move(call));
    EXPECT_TRUE(peer.Ends());
    EXPECT_FALSE(reply.has_value());
    return reply ? Code::kInternal : reply.error().code;
  }

  RawListener listener_;
};

TEST_F(FaultyServer, AnotherProtocolIsSaidToBeNoForebayProgram) {
  Connect();
  auto call = Start(Ask(1));
  const RawPeer peer = listener_.Accept();
  EXPECT_TRUE(
      peer.Send("HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"));
  const Result<RpcReply> reply = Await(std::move(call));
  ASSERT_FALSE(reply.has_value());
  EXPECT_NE(reply.error().message.find("probably no Forebay program, or another port of one"),
            std::string::npos)
      << reply.error().message;
}

TEST_F(FaultyServer, AResetInMidReplyFailsTheCallAndTheNextReconnects) {
  Connect();
  const std::string payload(1 << 20, 'p');
  for (const bool reset : {true, false}) {
    auto call = Start(Ask(1));
    {
      RawPeer peer = Accepted();
      const std::string reply = ReplyBytes(IdOfNextRequest(peer), 1, payload);
      EXPECT_TRUE(peer.Send(reply.substr(0, reply.size() / 2)));
      if (reset) peer.Reset();
    }
    EXPECT_EQ(Await(std::move(call)).error().code, Code::kUnavailable);
  }
  ExpectTheNextCallSucceeds();
}

TEST_F(FaultyServer, AResetAmongSeveralAnswersCostsOnlyThoseThatHaveNotCome) {
  Connect();
  const std::string payload(40'000, 'p');
  std::vector<std::future<Result<RpcReply>>> calls;
  calls.reserve(3);
  for (std::uint32_t i = 0; i < 3; ++i) calls.push_back(Start(Ask(i)));
  {
    RawPeer peer = Accepted();
    std::string replies;
    for (std::uint32_t i = 0; i < 3; ++i)
      replies += ReplyBytes(IdOfNextRequest(peer), 10 + i, payload);
    // The first whole, the second in part, nothing of the third. A reset takes away what has not
    // been read: it comes once the first answer has arrived.
    EXPECT_TRUE(peer.Send(replies.substr(0, replies.size() / 2)));
    const Result<RpcReply> whole = Await(std::move(calls[0]));
    EXPECT_EQ(AnswerOf(whole), 10u);
    const ByteView bytes = whole->payload.bytes;
    EXPECT_TRUE(std::ranges::all_of(bytes, [](std::byte b) { return b == std::byte{'p'}; }));
    EXPECT_EQ(bytes.size(), payload.size());
    peer.Reset();
  }
  for (std::size_t i = 1; i < 3; ++i)
    EXPECT_EQ(Await(std::move(calls[i])).error().code, Code::kUnavailable);
  ExpectTheNextCallSucceeds();
}

TEST_F(FaultyServer, SilenceIsUnavailableAndAPassedDeadlineIsTimeout) {
  Connect(Who(proto::ROLE_CLIENT), kShort);
  auto silent = Start(Ask(1));
  const RawPeer peer = Accepted();
  EXPECT_EQ(Await(std::move(silent)).error().code, Code::kUnavailable);
  EXPECT_EQ(Call(2, Method::kReadBlock, kShort / 2).error().code, Code::kTimeout);
  // The connection is not at fault: it serves whoever asks next, and late answers are dropped.
  const std::uint64_t first = IdOfNextRequest(peer);
  const std::uint64_t second = IdOfNextRequest(peer);
  auto third = Start(Ask(3));
  const std::uint64_t id = IdOfNextRequest(peer);
  EXPECT_TRUE(peer.Send(ReplyBytes(first, 1) + ReplyBytes(second, 2) + ReplyBytes(id, 3)));
  EXPECT_EQ(AnswerOf(Await(std::move(third))), 3u);
}

TEST_F(FaultyServer, WhatWaitsBehindAnAnswerThatComesSlowlyIsNotSilent) {
  constexpr std::size_t kPieces = 10;
  Connect(Who(proto::ROLE_CLIENT), kShort);
  auto slow = Start(Ask(1));
  auto behind = Start(Ask(2));
  const RawPeer peer = Accepted();
  const std::uint64_t first = IdOfNextRequest(peer);
  const std::string reply = ReplyBytes(first, 1, std::string(1 << 20, 'p'));
  const std::uint64_t second = IdOfNextRequest(peer);
  // The line's pace: five times the silence for the whole of it.
  const std::size_t piece = reply.size() / kPieces + 1;
  for (std::size_t sent = 0; sent < reply.size(); sent += piece) {
    EXPECT_TRUE(peer.Send(reply.substr(sent, piece)));
    std::this_thread::sleep_for(kShort / 2);
  }
  EXPECT_EQ(AnswerOf(Await(std::move(slow))), 1u);
  EXPECT_TRUE(peer.Send(ReplyBytes(second, 2)));
  EXPECT_EQ(AnswerOf(Await(std::move(behind))), 2u);
}

TEST_F(FaultyServer, AServerThatNeverOpensIsUnavailableOrTimeout) {
  connect_timeout_ = kShort;
  Connect();
  EXPECT_EQ(Call(1, Method::kReadBlock, kShort / 3).error().code, Code::kTimeout);
  const Result<RpcReply> patient = Call(1);
  EXPECT_EQ(patient.error().code, Code::kUnavailable);
}

TEST_F(FaultyServer, AnAnswerToNoRequestEndsTheConnection) {
  Connect();
  EXPECT_EQ(CodeAfter([](std::uint64_t id) { return ReplyBytes(id + 1, 1); }), Code::kUnavailable);
  EXPECT_EQ(CodeAfter([](std::uint64_t) { return ReplyBytes(0, 1); }), Code::kUnavailable);
  ExpectTheNextCallSucceeds();
}

TEST_F(FaultyServer, AnAnswerThatComesTwiceCountsOnce) {
  Connect();
  auto first = Start(Ask(1));
  const RawPeer peer = Accepted();
  const std::string reply = ReplyBytes(IdOfNextRequest(peer), 1, "payload");
  EXPECT_TRUE(peer.Send(reply + reply));
  EXPECT_EQ(AnswerOf(Await(std::move(first))), 1u);
  auto second = Start(Ask(2));
  EXPECT_TRUE(peer.Send(ReplyBytes(IdOfNextRequest(peer), 2)));
  EXPECT_EQ(AnswerOf(Await(std::move(second))), 2u);
}

TEST_F(FaultyServer, RandomMutatedAndForbiddenFramesEndTheConnection) {
  Connect();
  std::mt19937 random(20'240'602);
  for (int i = 0; i < 20; ++i) {
    const Code code = CodeAfter([&random](std::uint64_t id) {
      std::string bytes = ReplyBytes(id, 1);
      char& byte = bytes[random() % bytes.size()];
      byte = static_cast<char>(static_cast<unsigned char>(byte) ^ (1U << (random() % 8)));
      return bytes + std::string(kMaxPayloadBytes + kMaxControlFrameBytes, '\0');
    });
    EXPECT_EQ(code, Code::kUnavailable) << i;
  }
  for (const FrameKind kind : {FrameKind::kRequest, FrameKind::kCancel, FrameKind::kPing,
                               FrameKind::kHandshake, static_cast<FrameKind>(77)}) {
    const Code code = CodeAfter([kind](std::uint64_t id) {
      return FrameBytes(HeaderOf(kind, id), "").substr(0, kFrameHeaderBytes);
    });
    EXPECT_EQ(code, Code::kUnavailable) << static_cast<int>(kind);
  }
  for (const std::size_t length_at : {std::size_t{28}, std::size_t{32}}) {
    const Code code = CodeAfter([length_at](std::uint64_t id) {
      std::string bytes = ReplyBytes(id, 1);
      bytes.replace(length_at, 4, std::string("\0\0\0\x80", 4));  // 2^31
      return bytes;
    });
    EXPECT_EQ(code, Code::kUnavailable);
  }
  ExpectTheNextCallSucceeds();
}

TEST_F(FaultyServer, AServerThatStopsInMidFrameIsCutOff) {
  Connect(Who(proto::ROLE_CLIENT), kPatience);
  const auto begun = [](std::uint64_t id) {
    return ReplyBytes(id, 1, std::string(1 << 20, 'p')).substr(0, 1 << 19);
  };
  EXPECT_EQ(CodeAfter(begun), Code::kUnavailable);
  ExpectTheNextCallSucceeds();
}

TEST_F(FaultyServer, AnUnprovedOrForeignServerIsRefused) {
  Credentials of_a_cluster = Who(proto::ROLE_CLIENT);
  of_a_cluster.cluster = Uuid::Random();
  // Each attempt over a client of its own: after a refusal one does not connect for a while.
  const auto code_of = [this, &of_a_cluster](const Credentials& server,
                                             const RawPeer::ChangeAnswer& change) {
    if (client_) CloseClient();
    Connect(of_a_cluster);
    auto call = Start(Ask(1));
    EXPECT_FALSE(listener_.Accept().OpenAsServer(server, change));
    const Result<RpcReply> reply = Await(std::move(call));
    EXPECT_FALSE(reply.has_value());
    return reply ? Code::kInternal : reply.error().code;
  };
  using Hello = proto::ClientHello;
  using Answer = proto::ServerHello;
  const Credentials other_secret = Who(proto::ROLE_NODE, std::string(32, 'x'));
  EXPECT_EQ(code_of(other_secret, {}), Code::kDenied);
  const RawPeer::ChangeAnswer unproved = [](const Hello&, Answer& answer) { answer.clear_proof(); };
  EXPECT_EQ(code_of(kNode, unproved), Code::kDenied);
  // The proof covers what was said: another role under it is no proof.
  const RawPeer::ChangeAnswer promoted = [](const Hello&, Answer& answer) {
    answer.set_role(proto::ROLE_ADMIN);
  };
  EXPECT_EQ(code_of(kNode, promoted), Code::kDenied);
  const RawPeer::ChangeAnswer foreign = [](const Hello& hello, Answer& answer) {
    answer.set_cluster(std::string(16, 'c'));
    answer.set_proof(ServerProof(kNode, hello, answer));
  };
  EXPECT_EQ(code_of(kNode, foreign), Code::kDenied);
  const RawPeer::ChangeAnswer newer = [](const Hello& hello, Answer& answer) {
    answer.set_version(kWireVersion + 1);
    answer.set_proof(ServerProof(kNode, hello, answer));
  };
  EXPECT_EQ(code_of(kNode, newer), Code::kInvalid);
}

}  // namespace
}  // namespace forebay
