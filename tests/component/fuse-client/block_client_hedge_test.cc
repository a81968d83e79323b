#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/use_future.hpp>
#include <future>
#include <vector>

#include "tests/component/fuse-client/block_client_fixture.h"

namespace forebay {
namespace {

using fakes::FakeNode;
using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr Duration kSlow = milliseconds(1200);

/// Nodes of which the client knows already how fast they are.
class HedgeTest : public BlockClientTest {
 protected:
  explicit HedgeTest(std::uint64_t max_bandwidth = 0)
      : BlockClientTest(kPendingEvery + milliseconds(400), max_bandwidth) {
    owners_ = OwnersOf(request_);
    for (const FakeNode* node : owners_) Teach(node, milliseconds(1));
  }

  /// That is how fast it has answered so far.
  void Teach(const FakeNode* node, Duration took) {
    for (int i = 0; i < 100; ++i) pace_.Note(node->Info().id, took, Clock::now());
  }

  /// What the client has learned of the first owner is judged with the next answer.
  void LearnWhenToHedge() {
    EXPECT_TRUE(Eventually([this] {
      pace_.Note(owners_[0]->Info().id, milliseconds(1), Clock::now());
      return pace_.HedgeAfter(owners_[0]->Info().id).has_value();
    }));
  }
  /// `node` becomes slow; half a second on, everybody is judged anew.
  void MakeSlow(const FakeNode* node) {
    for (const FakeNode* other : owners_) {
      if (other != node) Teach(other, milliseconds(1));
    }
    for (int i = 0; i < 400; ++i) pace_.Note(node->Info().id, kSlow, Clock::now());
    EXPECT_TRUE(Eventually([&] {
      pace_.Note(node->Info().id, kSlow, Clock::now());
      return pace_.IsSlow(node->Info().id);
    }));
  }

  static FakeNode::Read SlowAnswer(std::atomic<int>* asked) {
    return [asked](proto::ReadBlockRequest message) -> FakeNode::Answer {
      ++*asked;
      return {FakeNode::RightAnswer(message), kSlow};
    };
  }
  static FakeNode::Read Lacking(std::atomic<int>* asked) {
    return [asked](proto::ReadBlockRequest message) -> FakeNode::Answer {
      if (message.peer_only()) ++*asked;
      return {Fail(Code::kNotFound, "the block is not cached here")};
    };
  }

  BlockRequest request_ = RequestFor({0, 4096});
  std::vector<FakeNode*> owners_;
};

TEST_F(BlockClientTest, TheNextOwnerHearsHowLongTheReaderHasWaited) {
  const BlockRequest request = RequestFor({0, 4096});
  const auto owners = OwnersOf(request);
  std::atomic<std::uint32_t> waited_ms = 0;
  owners[1]->OnRead([&waited_ms](proto::ReadBlockRequest asked) -> FakeNode::Answer {
    waited_ms = asked.waited_ms();
    return {FakeNode::RightAnswer(asked)};
  });
  owners[0]->Freeze();
  ExpectRight(request, Read(request));
  EXPECT_GE(waited_ms, 250u) << "the silence of the first one is 300 ms";
  owners[0]->Thaw();
}

TEST_F(HedgeTest, ALateAnswerIsHadFromAnOwnerThatHasTheBlock) {
  std::atomic<int> asked = 0;
  std::atomic<int> hedged = 0;
  owners_[0]->OnRead(SlowAnswer(&asked));
  owners_[1]->OnRead([&](proto::ReadBlockRequest message) -> FakeNode::Answer {
    if (message.peer_only()) ++hedged;
    return {FakeNode::RightAnswer(message)};
  });
  LearnWhenToHedge();
  const Result<Cells> cells = Read(request_);
  ExpectRight(request_, cells);
  EXPECT_EQ(cells->node, owners_[1]->Info().id);
  EXPECT_EQ(asked, 1);
  EXPECT_EQ(hedged, 1) << "peer_only: it costs no GET";
  EXPECT_EQ(Stats().hedges, 1u);
  EXPECT_EQ(Stats().hedges_won, 1u);
  EXPECT_EQ(Stats().owner_switches, 0u);
  EXPECT_FALSE(health_.IsSilent(owners_[0]->Info().id));
}

/// Of a block that n1, n2 and n3 own in this order n1 is late. It and n3 lie in this zone.
class ZonedHedgeTest : public HedgeTest {
 protected:
  ZonedHedgeTest() {
    std::vector<NodeInfo> members = table_.nodes();
    for (NodeInfo& member : members) member.zone = member.id == "n2" ? "there" : "here";
    table_ = RingTable::Next(table_, members, 1'700'000'001);
    ring_.Offer(table_);
    owners_ = {nodes_["n1"].get(), nodes_["n2"].get(), nodes_["n3"].get()};
    for (std::uint32_t number = 0; OwnersOf(request_) != owners_; ++number)
      request_ = RequestFor({0, 4096}, number);
    owners_[0]->OnRead(SlowAnswer(&asked_));
    owners_[1]->OnRead(Lacking(&far_));
    owners_[2]->OnRead([this](proto::ReadBlockRequest message) -> FakeNode::Answer {
      if (message.peer_only() && !message.cross_zone()) ++near_;
      return {FakeNode::RightAnswer(message)};
    });
    EXPECT_TRUE(Eventually([&] {
      pace_.Note(owners_[0]->Info().id, milliseconds(1), Clock::now());
      return pace_.HedgeAfter(owners_[0]->Info().id).has_value();
    }));
  }

  std::atomic<int> asked_ = 0;
  std::atomic<int> far_ = 0;
  std::atomic<int> near_ = 0;
};

TEST_F(ZonedHedgeTest, OfThoseThatMayHaveTheBlockTheOneInThisZoneIsAskedFirst) {
  ExpectRight(request_, Read(request_));
  EXPECT_EQ(near_, 1);
  EXPECT_EQ(far_, 0);
  EXPECT_EQ(Stats().hedges_won, 1u);
  EXPECT_EQ(Stats().cross_zone_bytes, 0u);
}

TEST_F(ZonedHedgeTest, WhoKeepsACopyIsAskedBeforeWhoIsMerelyNear) {
  *replicas_ = 2;
  ExpectRight(request_, Read(request_));
  EXPECT_EQ(far_, 1);
  EXPECT_EQ(near_, 1);
}

TEST_F(HedgeTest, WhereNobodyElseHasTheBlockTheFirstOwnerIsWaitedFor) {
  std::atomic<int> asked = 0;
  std::atomic<int> hedged = 0;
  owners_[0]->OnRead(SlowAnswer(&asked));
  owners_[1]->OnRead(Lacking(&hedged));
  owners_[2]->OnRead(Lacking(&hedged));
  LearnWhenToHedge();
  const Result<Cells> cells = Read(request_);
  ExpectRight(request_, cells);
  EXPECT_EQ(cells->node, owners_[0]->Info().id);
  EXPECT_EQ(asked, 1);
  EXPECT_EQ(hedged, 2) << "each of the others once";
  EXPECT_EQ(Stats().hedges, 1u);
  EXPECT_EQ(Stats().hedges_won, 0u);
}

TEST_F(HedgeTest, WrongBytesOfAHedgeNeverReachTheReader) {
  std::atomic<int> asked = 0;
  owners_[0]->OnRead(SlowAnswer(&asked));
  const auto wrong = [](proto::ReadBlockRequest message) -> FakeNode::Answer {
    RpcReply reply = FakeNode::RightAnswer(message);
    auto flipped = std::make_shared<Buffer>(reply.payload.bytes.size());
    std::copy(reply.payload.bytes.begin(), reply.payload.bytes.end(), flipped->data());
    flipped->data()[100] ^= std::byte{1};
    reply.payload = Slice::Of(std::move(flipped));
    return {std::move(reply)};
  };
  owners_[1]->OnRead(wrong);
  owners_[2]->OnRead(wrong);
  LearnWhenToHedge();
  ExpectRight(request_, Read(request_));
  EXPECT_EQ(Stats().checksum_failures, 2u);
  EXPECT_EQ(Stats().hedges_won, 0u);
}

/// A mount that may take a byte a second.
class BoundedHedgeTest : public HedgeTest {
 protected:
  BoundedHedgeTest() : HedgeTest(1) {}
};

TEST_F(BoundedHedgeTest, TheAnswerThatComesTooLateIsPaidForToo) {
  std::atomic<int> asked = 0;
  std::atomic<int> hedged = 0;
  owners_[0]->OnRead(SlowAnswer(&asked));
  owners_[1]->OnRead([&hedged](proto::ReadBlockRequest message) -> FakeNode::Answer {
    ++hedged;
    return {FakeNode::RightAnswer(message), 3 * kSlow / 2};
  });
  LearnWhenToHedge();
  const Result<Cells> cells = Read(request_);
  ExpectRight(request_, cells);
  EXPECT_EQ(cells->node, owners_[0]->Info().id);
  EXPECT_EQ(hedged, 1);
  EXPECT_TRUE(
      Eventually([this] { return OnThread([this] { return client_->in_flight(); }) == 0; }));
  bandwidth_.GiveBack(cells->bytes.bytes.size());
  const Result<Cells> late = Read(request_, milliseconds(100));
  ASSERT_FALSE(late) << "one of the two is still owed";
  EXPECT_NE(late.error().message.find("max_bandwidth"), std::string::npos) << late.error().message;
}

TEST_F(HedgeTest, ASlowOwnerIsPassedOverAndTheNextKeepsACopy) {
  std::atomic<int> with_spread = 0;
  std::atomic<int> with_little_patience = 0;
  MakeSlow(owners_[0]);
  for (FakeNode* owner : owners_) {
    owner->OnRead([&](proto::ReadBlockRequest message) -> FakeNode::Answer {
      if (message.spread()) ++with_spread;
      if (message.passed_over()) ++with_little_patience;
      return {FakeNode::RightAnswer(message)};
    });
  }
  constexpr int kReads = 200;
  for (int i = 0; i < kReads; ++i) ExpectRight(request_, Read(request_));
  const std::uint64_t samples = owners_[0]->reads();
  EXPECT_EQ(owners_[1]->reads(), kReads - samples);
  EXPECT_LT(samples, kReads / 2) << "some are asked all the same, to know when it is well";
  EXPECT_EQ(owners_[2]->reads(), 0u);
  EXPECT_EQ(with_spread, kReads - static_cast<int>(samples));
  EXPECT_EQ(with_little_patience, 0) << "a slow owner is alive, and the one to ask S3";
}

TEST_F(HedgeTest, ASlowOwnerStillAnswersWhenTheOthersAreGone) {
  MakeSlow(owners_[0]);
  owners_[1]->Stop();
  owners_[2]->Stop();
  ExpectRight(request_, Read(request_));
}

TEST_F(HedgeTest, WhatANodeHadToFetchSaysNothingOfItsPace) {
  std::atomic<int> asked = 0;
  owners_[0]->OnRead([&](proto::ReadBlockRequest message) -> FakeNode::Answer {
    ++asked;
    RpcReply reply = FakeNode::RightAnswer(message);
    proto::ReadBlockReply answer;
    answer.ParseFromString(reply.message);
    answer.set_tier(static_cast<std::uint32_t>(asked % 2 == 0 ? Tier::kS3 : Tier::kPeer));
    reply.message = answer.SerializeAsString();
    return {std::move(reply), milliseconds(20)};
  });
  for (int i = 0; i < 40; ++i) ExpectRight(request_, Read(request_));
  EXPECT_EQ(asked, 40);
  EXPECT_FALSE(pace_.IsSlow(owners_[0]->Info().id));
}

TEST_F(HedgeTest, StopEndsHedgesToo) {
  std::atomic<int> asked = 0;
  owners_[0]->OnRead(SlowAnswer(&asked));
  auto result = asio::co_spawn(
      threads_.At(0), client_->Read(request_, Deadline::After(seconds(20))), asio::use_future);
  EXPECT_TRUE(Eventually([&] { return asked == 1; }));
  OnThread([this] {
    client_->Stop();
    pool_->Close();
    return true;
  });
  EXPECT_FALSE(result.get().has_value());
}

}  // namespace
}  // namespace forebay
