// What a peer can make a server keep by asking: calls and bytes that wait for their answers. One
// too many is answered `overloaded` at once, and when others have ended there is room again.
#include <gtest/gtest.h>

#include <atomic>

#include "common/wire/request_room.h"
#include "common/wire/status_map.h"
#include "tests/component/wire/raw_peer.h"
#include "tests/component/wire/wire_fixture.h"

namespace forebay {
namespace {

constexpr std::size_t kMiB = std::size_t{1} << 20;

std::string RequestBytes(std::uint64_t id, std::size_t message_bytes,
                         Method method = Method::kReadBlock) {
  const FrameHeader header = HeaderOf(FrameKind::kRequest, id, method);
  return FrameBytes(header, std::string(message_bytes, 'x'));
}

/// Answers what is small; the rest when the gate is opened.
Task<Result<RpcReply>> BehindTheGate(std::size_t message_bytes, std::size_t small,
                                     std::atomic<int>* begun, const std::atomic<bool>* open) {
  if (message_bytes <= small) co_return Echo(1);
  begun->fetch_add(1);
  // Thousands of them look at once.
  while (!open->load()) co_await SleepFor(std::chrono::milliseconds(50));
  co_return Echo(1);
}

class Overload : public WireFixture {
 protected:
  /// What is not larger than `small` is answered at once.
  void ServeBehindTheGate(std::size_t small = 0) {
    Serve([this, small](RpcCall call) {
      return BehindTheGate(call.message.size(), small, &begun_, &open_);
    });
  }

  RawPeer Opened(proto::Role role = proto::ROLE_CLIENT) {
    RawPeer peer = RawPeer::ConnectTo(address_);
    EXPECT_TRUE(peer.connected());
    EXPECT_TRUE(peer.OpenAsClient(Who(role)));
    return peer;
  }

  /// The code of the next reply; what says that calls are alive is passed over.
  static int NextCode(const RawPeer& peer) {
    for (;;) {
      const std::optional<RawFrame> frame = peer.Read();
      if (!frame) return -1;
      if (frame->header.kind == FrameKind::kReply) return frame->header.code;
    }
  }
  static void ExpectCodes(const RawPeer& peer, int count, int code) {
    for (int i = 0; i < count; ++i) ASSERT_EQ(NextCode(peer), code) << i;
  }

  std::uint64_t Overloaded() const { return server_->counters().calls_overloaded.load(); }

  static constexpr int kOverloaded = 4;  // docs/WIRE.md
  std::atomic<int> begun_{0};
  std::atomic<bool> open_{false};
};

TEST_F(Overload, AConnectionHasSoManyCallsInWorkAndNoMore) {
  ASSERT_EQ(WireCodeOf(Code::kOverloaded), kOverloaded);
  ServeBehindTheGate();
  const RawPeer peer = Opened();
  constexpr int kTooMany = 10;
  std::string requests;
  for (std::uint64_t id = 1; id <= kMaxCallsPerConnection + kTooMany; ++id)
    requests += RequestBytes(id, 1);
  ASSERT_TRUE(peer.Send(requests));
  ExpectCodes(peer, kTooMany, kOverloaded);
  EXPECT_EQ(begun_.load(), static_cast<int>(kMaxCallsPerConnection));
  EXPECT_EQ(Overloaded(), static_cast<std::uint64_t>(kTooMany));
  open_ = true;
  ExpectCodes(peer, static_cast<int>(kMaxCallsPerConnection), 0);
  ASSERT_TRUE(peer.Send(RequestBytes(1, 1)));
  EXPECT_EQ(NextCode(peer), 0);
}

TEST_F(Overload, TheRequestsOfAConnectionTakeSoManyBytesAndNoMore) {
  ServeBehindTheGate();
  const RawPeer peer = Opened();
  constexpr int kFit = kMaxRequestBytesPerConnection / kMiB;
  constexpr int kTooMany = 4;
  for (std::uint64_t id = 1; id <= kFit + kTooMany; ++id)
    ASSERT_TRUE(peer.Send(RequestBytes(id, kMiB)));
  ExpectCodes(peer, kTooMany, kOverloaded);
  EXPECT_EQ(begun_.load(), kFit);
  EXPECT_EQ(server_->request_bytes(), kMaxRequestBytesPerConnection);
  const RawPeer other = Opened();
  ASSERT_TRUE(other.Send(RequestBytes(1, kMiB)));
  EXPECT_TRUE(Eventually([this] { return begun_.load() == kFit + 1; })) << "it has room of its own";
  open_ = true;
  ExpectCodes(peer, kFit, 0);
  EXPECT_EQ(NextCode(other), 0);
  EXPECT_TRUE(Eventually([this] { return server_->request_bytes() == 0; }));
  ASSERT_TRUE(peer.Send(RequestBytes(1, kMiB)));
  EXPECT_EQ(NextCode(peer), 0);
}

TEST_F(Overload, TheRequestsOfAllConnectionsAreBoundedAndSmallOnesStillFit) {
  server_options_.max_request_bytes = 8 * kMiB;
  constexpr std::size_t kSmall = 100;
  ServeBehindTheGate(kSmall);
  const RawPeer one = Opened();
  const RawPeer other = Opened();
  for (std::uint64_t id = 1; id <= 3; ++id) ASSERT_TRUE(one.Send(RequestBytes(id, kMiB)));
  ASSERT_TRUE(Eventually([this] { return begun_.load() == 3; }));
  for (std::uint64_t id = 1; id <= 3; ++id) ASSERT_TRUE(other.Send(RequestBytes(id, kMiB)));
  ExpectCodes(other, 2, kOverloaded);
  EXPECT_EQ(begun_.load(), 4) << "half of the room is for small ones";
  ASSERT_TRUE(other.Send(RequestBytes(9, kSmall)));
  EXPECT_EQ(NextCode(other), 0);
  open_ = true;
  ExpectCodes(one, 3, 0);
  EXPECT_EQ(NextCode(other), 0);
}

TEST_F(Overload, AConnectionThatEndsGivesItsRoomBack) {
  ServeBehindTheGate();
  {
    const RawPeer peer = Opened();
    for (std::uint64_t id = 1; id <= 3; ++id) ASSERT_TRUE(peer.Send(RequestBytes(id, kMiB)));
    ASSERT_TRUE(Eventually([this] { return begun_.load() == 3; }));
    EXPECT_EQ(server_->request_bytes(), 3 * kMiB);
  }
  EXPECT_TRUE(Eventually([this] { return server_->request_bytes() == 0; }));
}

TEST_F(Overload, AnswersThatNobodyTakesAreBoundedOverAllConnections) {
  constexpr std::size_t kAnswer = 900'000;
  server_options_.max_answer_bytes = 8 * kMiB;
  Serve([](RpcCall) -> Task<Result<RpcReply>> {
    RpcReply reply;
    reply.message = std::string(kAnswer, 'a');
    co_return reply;
  });
  std::string questions;
  for (std::uint64_t id = 1; id <= 60; ++id) questions += RequestBytes(id, 1);
  const RawPeer greedy = Opened();
  ASSERT_TRUE(greedy.Send(questions));
  ASSERT_TRUE(Eventually([this] { return Overloaded() > 0; })) << "its sockets hold some 10 MiB";
  EXPECT_LE(server_->answer_bytes(), 4 * kMiB) << "a member has half";
  EXPECT_TRUE(greedy.Ends());
  EXPECT_TRUE(Eventually([this] { return server_->answer_bytes() == 0; }));
  const RawPeer modest = Opened();
  for (std::uint64_t id = 1; id <= 60; ++id) {
    ASSERT_TRUE(modest.Send(RequestBytes(id, 1)));
    ASSERT_EQ(NextCode(modest), 0) << id;
  }
  EXPECT_EQ(Overloaded(), 1u);
}

TEST_F(Overload, AMachineWithoutACertificateGetsLittleRoom) {
  ServeBehindTheGate();
  const RawPeer stranger = Opened(proto::ROLE_STRANGER);
  ASSERT_TRUE(stranger.Send(RequestBytes(1, kMaxRequestBytesOfStranger + 1)));
  EXPECT_EQ(NextCode(stranger), kOverloaded);
  ASSERT_TRUE(stranger.Send(RequestBytes(2, kMaxRequestBytesOfStranger)));
  EXPECT_EQ(NextCode(stranger), WireCodeOf(Code::kDenied)) << "which is no matter of room";
  EXPECT_EQ(begun_.load(), 0);
}

TEST(RequestRoom, WhatIsGivenBackCanBeTakenAgain) {
  RequestRoom room(100);
  EXPECT_TRUE(room.Take(60));
  EXPECT_FALSE(room.Take(41));
  EXPECT_TRUE(room.Take(40));
  EXPECT_FALSE(room.Take(1));
  room.Give(60);
  EXPECT_TRUE(room.Take(1));
  EXPECT_EQ(room.taken(), 41u);
  RequestRoom large(std::size_t{3} * RequestRoom::kSmallBytes);
  EXPECT_FALSE(large.Take(2 * RequestRoom::kSmallBytes)) << "more than half of it";
}

}  // namespace
}  // namespace forebay
