#include <chrono>
#include <cstdint>
#include <string>

#include "tests/component/cachenode/peers_fixture.h"

namespace forebay {
namespace {

using fakes::FakeNode;

/// A node whose link is pinned as a whole, and that looks for copies all the time.
class PinReleaserTest : public PeersTest {
 protected:
  PinReleaserTest() {
    pins_.look_every = std::chrono::milliseconds(5);
    link_.pins = {""};
    link_.pins_version = 1;
    coordinator_->SetLinks({link_});
  }
  /// As after a change of the ring, or an hour in which many read it: this node has it, though it
  /// is not its own.
  proto::ReadBlockRequest CopyOf(const std::vector<std::string>& order) {
    proto::ReadBlockRequest request = OwnedBy(order);
    request.set_spread(true);
    EXPECT_EQ(Read(request), Tier::kPeer);
    EXPECT_TRUE(FillsEnd());
    EXPECT_TRUE(IsCached(request.block()));
    return request;
  }
  /// Two whole looks at all there is have ended.
  bool LooksAtAll(FakeNode& asked) {
    const std::uint64_t before = asked.checks();
    return Eventually([&] { return asked.checks() >= before + 3; });
  }
};

TEST_F(PinReleaserTest, ACopyThatItsOwnerHasIsReleasedWhenNobodyReadsIt) {
  Peer("n1").SayItHolds(true);
  Peer("n2").OnRead([](proto::ReadBlockRequest) -> FakeNode::Answer {
    return {Fail(Code::kNotFound, "the block is not cached here")};
  });
  StartNode();
  const auto copy = CopyOf({"n1", "self", "n2"});
  const auto own = OwnedBy({"self", "n2", "n1"});
  ASSERT_TRUE(Read(own));
  ASSERT_TRUE(FillsEnd());
  const std::uint64_t gets = s3_.gets();
  EXPECT_EQ(Peer("n1").checks(), 0U) << "what was read within the hour is not even asked about";
  hours_later_ = 2;
  EXPECT_TRUE(Eventually([&] { return !IsCached(copy.block()); }));
  EXPECT_TRUE(IsCached(own.block()));
  EXPECT_EQ(s3_.gets(), gets);
}

TEST_F(PinReleaserTest, WithoutItsOwnersWordACopyStays) {
  StartNode();
  const auto copy = CopyOf({"n1", "self", "n2"});
  hours_later_ = 2;
  ASSERT_TRUE(LooksAtAll(Peer("n1")));
  EXPECT_TRUE(IsCached(copy.block()));
  Peer("n1").SayItHolds(true);
  EXPECT_TRUE(Eventually([&] { return !IsCached(copy.block()); }));
}

TEST_F(PinReleaserTest, OfALinkWithReplicasAllThatKeepOneMustHaveIt) {
  link_.replicas = 2;
  coordinator_->SetLinks({link_});
  Peer("n1").SayItHolds(true);
  StartNode();
  const auto second = CopyOf({"n1", "self", "n2"});
  const auto third = CopyOf({"n1", "n2", "self"});
  hours_later_ = 2;
  ASSERT_TRUE(LooksAtAll(Peer("n2")));
  EXPECT_TRUE(IsCached(third.block()));
  Peer("n2").SayItHolds(true);
  EXPECT_TRUE(Eventually([&] { return !IsCached(third.block()); }));
  EXPECT_TRUE(IsCached(second.block())) << "this node keeps the second copy";
}

TEST_F(PinReleaserTest, OnlyAnOwnerSaysThatItHasABlockForOthersToGiveUp) {
  pins_.look_every = std::chrono::hours(1);
  StartNode();
  const auto copy = CopyOf({"n1", "self", "n2"});
  const auto own = OwnedBy({"self", "n1", "n2"});
  ASSERT_TRUE(Read(own));
  ASSERT_TRUE(Eventually([&] { return IsCached(own.block()); }));
  Caller peer(proto::ROLE_NODE);
  const auto says = [&](const proto::ReadBlockRequest& about, bool as_owner) {
    proto::CheckBlocksRequest check;
    check.set_link(about.link());
    check.set_as_owner(as_owner);
    *check.add_blocks() = about.block();
    const Result<RpcReply> reply = Call(peer, Method::kCheckBlocks, check);
    proto::CheckBlocksReply answer;
    EXPECT_TRUE(reply && ParseMessage(reply->message, answer));
    return answer.present() == std::string(1, '\1');
  };
  EXPECT_TRUE(says(copy, false));
  EXPECT_FALSE(says(copy, true)) << "it would be given up by both";
  EXPECT_TRUE(says(own, true));
  link_.pins.clear();
  coordinator_->SetLinks({link_});
  EXPECT_TRUE(Eventually([&] { return !says(own, true); })) << "it is not pinned: it may go";
}

}  // namespace
}  // namespace forebay
