#include <atomic>
#include <chrono>
#include <map>
#include <string>
#include <vector>

#include "tests/component/cachenode/peers_fixture.h"

namespace forebay {
namespace {

using fakes::FakeNode;

/// The node lies in zone "z1", n2 does too, and n1 lies elsewhere.
class ZonedPeersTest : public PeersTest {
 protected:
  ZonedPeersTest() {
    std::vector<NodeInfo> members = Members();
    for (NodeInfo& member : members) member.zone = member.id == "n1" ? "z2" : "z1";
    table_ = table_.WithNodeDetails(members);  // the owners are what they were
    coordinator_->SetRing(table_);
    link_.replicas = 3;
    coordinator_->SetLinks({link_});
    for (const char* id : {"n1", "n2"}) {
      lacks_[id] = false;
      Peer(id).OnRead([this, id](proto::ReadBlockRequest request) -> FakeNode::Answer {
        EXPECT_TRUE(request.peer_only());
        EXPECT_EQ(request.cross_zone(), id == std::string("n1"));
        if (lacks_.at(id)) return {Fail(Code::kNotFound, "the block is not cached here")};
        return {FakeNode::RightAnswer(request)};
      });
    }
  }

  std::map<std::string, std::atomic<bool>> lacks_;
};

TEST_F(ZonedPeersTest, ACopyInThisZoneIsTakenBeforeTheFirstOwnersElsewhere) {
  StartNode();
  const auto request = OwnedBy({"n1", "n2", "self"});
  EXPECT_EQ(Read(request), Tier::kPeer);
  ASSERT_TRUE(FillsEnd());
  EXPECT_EQ(Peer("n1").reads(), 0u);
  EXPECT_EQ(Peer("n2").reads(), 1u);
  EXPECT_TRUE(IsCached(request.block())) << "this node keeps a copy as well";
}

TEST_F(ZonedPeersTest, TheFirstOwnerFillsAsEverWhereNobodyInThisZoneHasACopy) {
  lacks_["n2"] = true;
  Peer("n1").OnRead([this](proto::ReadBlockRequest request) -> FakeNode::Answer {
    if (Peer("n1").prefetches().empty()) return {Fail(Code::kNotFound, "not cached here")};
    return {FakeNode::RightAnswer(request)};
  });
  StartNode();
  EXPECT_EQ(Read(OwnedBy({"n1", "n2", "self"})), Tier::kPeer);
  EXPECT_EQ(Peer("n1").prefetches().size(), 1u);
  EXPECT_TRUE(Peer("n2").prefetches().empty()) << "who is asked in passing asks nobody";
  EXPECT_EQ(s3_.gets(), 0u);
}

TEST_F(ZonedPeersTest, WhereTheFirstOwnerLiesInThisZoneNobodyIsAskedInPassing) {
  StartNode();
  EXPECT_EQ(Read(OwnedBy({"n2", "n1", "self"})), Tier::kPeer);
  EXPECT_EQ(Peer("n2").reads(), 1u);
  EXPECT_EQ(Peer("n1").reads(), 0u);
}

TEST_F(ZonedPeersTest, OfTheOwnersBehindTheOneInThisZoneIsAskedFirstAndAllBeforeS3) {
  StartNode();
  EXPECT_EQ(Read(OwnedBy({"self", "n1", "n2"})), Tier::kPeer);
  EXPECT_EQ(Peer("n2").reads(), 1u);
  EXPECT_EQ(Peer("n1").reads(), 0u);
  lacks_["n2"] = true;
  EXPECT_EQ(Read(OwnedBy({"self", "n1", "n2"}, 1)), Tier::kPeer);
  EXPECT_EQ(Peer("n1").reads(), 1u);
  lacks_["n1"] = true;
  EXPECT_EQ(Read(OwnedBy({"self", "n1", "n2"}, 2)), Tier::kS3);
  EXPECT_EQ(Peer("n1").reads(), 2u);
  EXPECT_EQ(Peer("n2").reads(), 3u);
}

TEST_F(ZonedPeersTest, WhoKeepsNoCopyIsNotAskedInPassing) {
  link_.replicas = 1;
  coordinator_->SetLinks({link_});
  StartNode();
  EXPECT_EQ(Read(OwnedBy({"n1", "n2", "self"})), Tier::kPeer);
  EXPECT_EQ(Peer("n1").reads(), 1u);
  EXPECT_EQ(Peer("n2").reads(), 0u);
}

TEST_F(ZonedPeersTest, WhatIsSentToAnotherZoneIsCounted) {
  StartNode();
  auto request = OwnedBy({"self", "n1", "n2"});
  EXPECT_EQ(Read(request), Tier::kPeer);
  ASSERT_TRUE(FillsEnd());
  request.set_cross_zone(true);
  EXPECT_EQ(Read(request), Tier::kLocal);
  request.set_peer_only(true);  // as another node asks
  EXPECT_EQ(Read(request), Tier::kLocal);
  EXPECT_NE(metrics_.Render().find("forebay_cross_zone_bytes_total{link=\"data\"} " +
                                   std::to_string(2 * kSize) + "\n"),
            std::string::npos);
  StopNode();
  EXPECT_EQ(Reported().cross_zone_bytes(), 2 * kSize);
}

}  // namespace
}  // namespace forebay
