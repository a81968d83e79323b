// Nodes that S3 does not serve, and those that ask it in their place.
#include <algorithm>
#include <atomic>
#include <string>
#include <vector>

#include "tests/component/cachenode/peers_fixture.h"

namespace forebay {
namespace {

using fakes::FakeNode;

class PeersStandInsTest : public PeersTest {
 protected:
  void LoseS3() {
    s3_.OnGet([](const GetRequest&) { return fakes::GetScript{.unanswered = 1'000'000}; });
    s3_.OnHead([] { return Fail(Code::kUnavailable, "S3 at test does not answer"); });
  }
  /// They have begun, and have it when they are asked.
  void Stand(const std::string& id) {
    Peer(id).OnPrefetch([](const proto::ReadBlockRequest&) { return false; });
  }
  void Refuse(const std::string& id) {
    Peer(id).OnPrefetch([](const proto::ReadBlockRequest&) { return true; });
  }
  static proto::ReadBlockRequest StandInFor(proto::ReadBlockRequest request) {
    request.set_peer_only(true);
    request.set_stand_in(true);
    return request;
  }
  proto::PrefetchBlockReply Tell(Caller& caller, const proto::ReadBlockRequest& request) {
    const Result<RpcReply> reply = Call(caller, Method::kPrefetchBlock, request);
    proto::PrefetchBlockReply answer;
    EXPECT_TRUE(reply && ParseMessage(reply->message, answer));
    return answer;
  }

  Caller peer_{proto::ROLE_NODE};
};

TEST_F(PeersStandInsTest, TheNextOwnerAsksS3ForANodeThatItDoesNotAnswer) {
  LoseS3();
  Stand("n1");
  StartNode();
  const auto request = OwnedBy({"self", "n1", "n2"});
  EXPECT_EQ(Read(request), Tier::kS3);
  EXPECT_EQ(s3_.gets(), 1u);
  ASSERT_EQ(Peer("n1").prefetches().size(), 1u);
  EXPECT_TRUE(Peer("n1").prefetches()[0].stand_in());
  EXPECT_TRUE(Peer("n1").prefetches()[0].peer_only());
  EXPECT_TRUE(Peer("n2").prefetches().empty());
  ASSERT_TRUE(FillsEnd());
  EXPECT_TRUE(IsCached(request.block())) << "it is this node's";
  // From then on S3 is not waited for.
  EXPECT_EQ(Read(OwnedBy({"self", "n1"}, 1)), Tier::kS3);
  EXPECT_EQ(s3_.gets(), 1u);
}

TEST_F(PeersStandInsTest, WhoeverIsNotServedEitherIsAskedOnceInAWhile) {
  LoseS3();
  Refuse("n1");
  Stand("n2");
  StartNode();
  for (int i = 0; i < 3; ++i) EXPECT_EQ(Read(OwnedBy({"self", "n1", "n2"}, i)), Tier::kS3);
  EXPECT_EQ(Peer("n1").prefetches().size(), 1u);
  EXPECT_EQ(Peer("n2").prefetches().size(), 3u);
  EXPECT_EQ(s3_.gets(), 1u);
}

TEST_F(PeersStandInsTest, ADeadNodeIsPassedOver) {
  LoseS3();
  Peer("n1").Stop();
  Stand("n2");
  StartNode();
  EXPECT_EQ(Read(OwnedBy({"self", "n1", "n2"})), Tier::kS3);
  EXPECT_EQ(Peer("n2").prefetches().size(), 1u);
}

// It waited for this node until a moment ago, and asks S3 itself now.
TEST_F(PeersStandInsTest, OneThatStillLooksItselfIsAskedAgainBeforeAnother) {
  LoseS3();
  Stand("n1");
  Stand("n2");
  std::atomic<int> questions{0};
  Peer("n1").OnRead([&](proto::ReadBlockRequest request) -> FakeNode::Answer {
    if (++questions < 4) return {Fail(Code::kOverloaded, "looks for the block at other nodes")};
    return {FakeNode::RightAnswer(request)};
  });
  StartNode();
  EXPECT_EQ(Read(OwnedBy({"self", "n1", "n2"})), Tier::kS3);
  EXPECT_GE(questions, 4);
  EXPECT_TRUE(Peer("n2").prefetches().empty());
}

TEST_F(PeersStandInsTest, WhereAllOthersAreNotServedS3IsWaitedFor) {
  s3_.OnGet([](const GetRequest&) { return fakes::GetScript{.unanswered = 5}; });
  s3_.OnHead([] { return Fail(Code::kUnavailable, "S3 at test does not answer"); });
  Refuse("n1");
  Peer("n2").OnRead([](const proto::ReadBlockRequest&) -> FakeNode::Answer {
    return {Fail(Code::kTimeout, "S3 does not answer")};
  });
  StartNode();
  EXPECT_EQ(Read(OwnedBy({"self", "n1", "n2"})), Tier::kS3);
  EXPECT_EQ(s3_.gets(), 1u);
  EXPECT_EQ(Peer("n1").prefetches().size(), 1u);
  EXPECT_EQ(Peer("n2").prefetches().size(), 1u);
}

TEST_F(PeersStandInsTest, AVersionThatIsGoneIsGoneForAll) {
  LoseS3();
  Stand("n1");
  Peer("n1").OnRead([](const proto::ReadBlockRequest&) -> FakeNode::Answer {
    return {Fail(Code::kStale, "the object has changed")};
  });
  StartNode();
  EXPECT_EQ(Read(OwnedBy({"self", "n1", "n2"})).error().code, Code::kStale);
  EXPECT_TRUE(Peer("n2").prefetches().empty());
}

TEST_F(PeersStandInsTest, ANodeThatStandsInAsksNobodyAndKeepsNothing) {
  StartNode();
  const auto request = StandInFor(OwnedBy({"n1", "self"}));
  EXPECT_TRUE(Tell(peer_, request).started());
  EXPECT_TRUE(Read(request).has_value());
  ASSERT_TRUE(FillsEnd());
  EXPECT_EQ(s3_.gets(), 1u);
  EXPECT_EQ(Peer("n1").reads(), 0u) << "it waits for this node";
  EXPECT_FALSE(IsCached(request.block()));
}

TEST_F(PeersStandInsTest, AMountsWordForItIsNotTaken) {
  Peer("n1").OnRead(nullptr);
  StartNode();
  const auto request = StandInFor(OwnedBy({"n1", "self"}));
  EXPECT_TRUE(Tell(client_, request).started());
  ASSERT_TRUE(FillsEnd());
  EXPECT_EQ(s3_.gets(), 0u);
  EXPECT_GT(Peer("n1").reads(), 0u) << "the first owner has it";
}

TEST_F(PeersStandInsTest, ANodeThatIsNotServedEitherSaysSoUntilItIs) {
  LoseS3();
  StartNode();
  EXPECT_TRUE(Tell(peer_, StandInFor(OwnedBy({"n1", "self"}))).started());
  ASSERT_TRUE(FillsEnd());
  EXPECT_TRUE(Tell(peer_, StandInFor(OwnedBy({"n1", "self"}, 1))).refused());
  EXPECT_EQ(s3_.gets(), 1u);
  EXPECT_EQ(Peer("n1").prefetches().size() + Peer("n2").prefetches().size(), 0u);
  s3_.OnGet(nullptr);
  s3_.OnHead([] { return Status(); });
  EXPECT_TRUE(
      Eventually([this] { return Tell(peer_, StandInFor(OwnedBy({"n1", "self"}, 2))).started(); }));
}

}  // namespace
}  // namespace forebay
