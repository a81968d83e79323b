#include <algorithm>
#include <atomic>
#include <chrono>
#include <future>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "common/base/token_bucket.h"
#include "common/model/fill_outcome.h"
#include "common/ring/ring.h"
#include "common/wire/messages.h"
#include "tests/component/cachenode/peers_fixture.h"

namespace forebay {
namespace {

using fakes::FakeNode;

FakeNode::Read Lacking() {
  return [](proto::ReadBlockRequest request) -> FakeNode::Answer {
    EXPECT_TRUE(request.peer_only());
    return {Fail(Code::kNotFound, "the block is not cached here")};
  };
}

TEST_F(PeersTest, ANodeThatIsAskedOutOfTurnTakesTheBlockFromTheFirstOwner) {
  StartNode();
  const auto request = OwnedBy({"n1", "self", "n2"});
  EXPECT_EQ(Read(request), Tier::kPeer);
  ASSERT_TRUE(FillsEnd());
  EXPECT_EQ(Read(request), Tier::kLocal);
  EXPECT_EQ(Peer("n1").reads(), 1u);
  EXPECT_EQ(Peer("n2").reads(), 0u);
  EXPECT_EQ(s3_.gets(), 0u);
  EXPECT_FALSE(IsCached(request.block())) << "the first owner keeps it";
  EXPECT_EQ(PeerFills(), 1u);
}

TEST_F(PeersTest, ACopyOfWhatASlowOwnerHasIsKept) {
  StartNode();
  auto request = OwnedBy({"n1", "self", "n2"});
  request.set_spread(true);
  EXPECT_EQ(Read(request), Tier::kPeer);
  ASSERT_TRUE(FillsEnd());
  EXPECT_TRUE(IsCached(request.block()));
  EXPECT_EQ(Read(request), Tier::kLocal);
  EXPECT_EQ(Peer("n1").reads(), 1u) << "it is asked for each block once";
  EXPECT_EQ(s3_.gets(), 0u);
}

TEST_F(PeersTest, OfALinkWithReplicasTheNextOwnerKeepsItsCopyAndTheThirdDoesNot) {
  link_.replicas = 2;
  coordinator_->SetLinks({link_});
  StartNode();
  const auto second = OwnedBy({"n1", "self", "n2"});
  const auto third = OwnedBy({"n1", "n2", "self"});
  EXPECT_EQ(Read(second), Tier::kPeer);
  EXPECT_EQ(Read(third), Tier::kPeer);
  ASSERT_TRUE(FillsEnd());
  EXPECT_TRUE(IsCached(second.block()));
  EXPECT_FALSE(IsCached(third.block()));
  EXPECT_EQ(s3_.gets(), 0u);
}

TEST_F(PeersTest, TheOwnersOfCopiesAreAskedBeforeS3) {
  link_.replicas = 2;
  coordinator_->SetLinks({link_});
  StartNode();
  EXPECT_EQ(Read(OwnedBy({"self", "n1", "n2"})), Tier::kPeer);
  EXPECT_EQ(Peer("n1").reads(), 1u);
  EXPECT_EQ(Peer("n2").reads(), 0u) << "it keeps no copy";
  EXPECT_EQ(s3_.gets(), 0u);
}

proto::FillBlocksRequest CopiesOf(const std::vector<proto::ReadBlockRequest>& reads) {
  proto::FillBlocksRequest request;
  request.set_link(reads.front().link());
  for (const proto::ReadBlockRequest& read : reads) {
    proto::FillObject& object = *request.add_objects();
    object.set_key(read.key());
    object.set_etag(read.etag());
    object.set_size(read.object_size());
    proto::FillBlock& block = *request.add_blocks();
    *block.mutable_block() = read.block();
    block.set_object(static_cast<std::uint32_t>(request.objects_size() - 1));
  }
  return request;
}

TEST_F(PeersTest, CopiesComeFromOtherNodesAloneAndAreKept) {
  link_.replicas = 2;
  coordinator_->SetLinks({link_});
  const auto held = OwnedBy({"n1", "self", "n2"});
  const auto lacking = OwnedBy({"n1", "self", "n2"}, 1);
  Peer("n1").OnRead([&](proto::ReadBlockRequest request) -> FakeNode::Answer {
    if (request.key() == held.key()) return {FakeNode::RightAnswer(request)};
    return {Fail(Code::kNotFound, "not cached here")};
  });
  Peer("n2").OnRead(Lacking());
  StartNode();
  Caller peer(proto::ROLE_NODE);
  const Result<RpcReply> answer = Call(peer, Method::kCopyBlocks, CopiesOf({held, lacking}));
  ASSERT_TRUE(answer.has_value()) << answer.error().message;
  proto::FillBlocksReply reply;
  ASSERT_TRUE(ParseMessage(answer->message, reply).has_value());
  ASSERT_EQ(reply.results_size(), 2);
  EXPECT_EQ(reply.results(0).outcome(), static_cast<std::uint32_t>(FillOutcome::kKept));
  EXPECT_TRUE(IsCached(held.block()));
  EXPECT_EQ(reply.results(1).outcome(), static_cast<std::uint32_t>(FillOutcome::kFailed));
  EXPECT_FALSE(IsCached(lacking.block()));
  EXPECT_TRUE(Peer("n1").prefetches().empty()) << "nobody is told to ask S3";
  EXPECT_EQ(s3_.gets(), 0u);
}

// From below alone: a slow machine takes longer. What is asked for in several requests at once
// shares the rate.
TEST_F(PeersTest, CopiesComeAtTheirRateAndNoFaster) {
  constexpr int kRequests = 2;
  constexpr int kOfEach = 8;
  copy_bytes_per_s_ = 400'000;
  link_.replicas = 2;
  coordinator_->SetLinks({link_});
  StartNode();
  std::vector<proto::FillBlocksRequest> requests;
  requests.reserve(kRequests);
  int skip = 0;
  for (int i = 0; i < kRequests; ++i) {
    std::vector<proto::ReadBlockRequest> reads;
    reads.reserve(kOfEach);
    for (int k = 0; k < kOfEach; ++k) reads.push_back(OwnedBy({"n1", "self", "n2"}, skip++));
    requests.push_back(CopiesOf(reads));
  }
  const TimePoint begin = Clock::now();
  std::vector<std::future<int>> copies;
  copies.reserve(requests.size());
  for (const proto::FillBlocksRequest& request : requests) {
    copies.push_back(std::async(std::launch::async, [this, &request] {
      Caller peer(proto::ROLE_NODE);
      const Result<RpcReply> answer = Call(peer, Method::kCopyBlocks, request);
      proto::FillBlocksReply reply;
      if (!answer || !ParseMessage(answer->message, reply)) return 0;
      const auto kept = static_cast<std::uint32_t>(FillOutcome::kKept);
      return static_cast<int>(std::ranges::count_if(
          reply.results(), [&](const auto& result) { return result.outcome() == kept; }));
    }));
  }
  for (auto& kept : copies) EXPECT_EQ(kept.get(), kOfEach);
  const std::chrono::duration<double> took = Clock::now() - begin;
  // The last one begins when all others are paid for, less what gathers while nobody takes.
  const double paid = static_cast<double>((kRequests * kOfEach - 1) * kSize);
  const std::chrono::duration<double> burst = TokenBucket::kBurst;
  EXPECT_GE(took + burst, std::chrono::duration<double>(paid / 400'000));
}

TEST_F(PeersTest, ABlockLargerThanAFrameComesInParts) {
  link_.block_bytes = 16ULL << 20;
  coordinator_->SetLinks({link_});
  StartNode();
  std::uint64_t size = 0;
  proto::ReadBlockRequest request;
  do {
    size += 1;
    request = RequestFor("data/large", (10ULL << 20) + size);
  } while (table_.nodes()[table_.OwnersOf(PartitionOf(FromProto(request.block())))[0]].id != "n1");
  request.set_range_begin(static_cast<std::uint32_t>(size + (9ULL << 20)));
  EXPECT_EQ(Read(request), Tier::kPeer);
  EXPECT_EQ(Peer("n1").reads(), 3u);
  EXPECT_EQ(s3_.gets(), 0u);
}

TEST_F(PeersTest, OfABlockThatIsReadFarBehindItsFrontTheseCellsComeFirst) {
  constexpr std::uint32_t kBig = 4U << 20;
  constexpr std::uint32_t kFar = 3U << 20;
  constexpr auto kCell = static_cast<std::uint32_t>(kCellBytes);
  link_.block_bytes = kBig;
  coordinator_->SetLinks({link_});
  std::mutex mutex;
  std::vector<BlockRange> asked;
  Peer("n1").OnRead([&](proto::ReadBlockRequest request) -> FakeNode::Answer {
    const std::scoped_lock lock(mutex);
    asked.push_back({request.range_begin(), request.range_end()});
    if (asked.size() == 1) return {Fail(Code::kNotFound, "not cached here")};
    return {FakeNode::RightAnswer(request)};
  });
  StartNode();
  proto::ReadBlockRequest request;
  std::uint64_t size = 2ULL * kBig;
  do {
    request = RequestFor("data/shard", ++size);
  } while (table_.nodes()[table_.OwnersOf(PartitionOf(FromProto(request.block())))[0]].id != "n1");
  request.set_range_begin(kFar + 10);
  request.set_range_end(kFar + 20);
  EXPECT_EQ(Read(request), Tier::kPeer);
  ASSERT_TRUE(FillsEnd());
  const BlockRange cell{kFar, kFar + kCell};
  ASSERT_EQ(Peer("n1").prefetches().size(), 1u);
  EXPECT_EQ(Peer("n1").prefetches()[0].range_begin(), cell.begin);
  EXPECT_EQ(Peer("n1").prefetches()[0].range_end(), cell.end);
  const std::vector<BlockRange> expected{cell, cell, {cell.end, kBig}, {0, cell.begin}};
  {
    const std::scoped_lock lock(mutex);
    EXPECT_EQ(asked, expected);
  }
  // All of it, out of what this node remembers.
  request.set_range_begin(0);
  request.set_range_end(kBig);
  EXPECT_TRUE(Read(request).has_value());
  EXPECT_EQ(Peer("n1").reads(), expected.size());
  EXPECT_EQ(s3_.gets(), 0u);
}

TEST_F(PeersTest, TheFirstOwnerIsToldToFetchWhatItLacks) {
  Peer("n1").OnRead([this](proto::ReadBlockRequest request) -> FakeNode::Answer {
    EXPECT_TRUE(request.peer_only());
    if (Peer("n1").prefetches().empty()) return {Fail(Code::kNotFound, "not cached here")};
    return {FakeNode::RightAnswer(request)};
  });
  StartNode();
  EXPECT_EQ(Read(OwnedBy({"n1", "self"})), Tier::kPeer);
  EXPECT_EQ(Peer("n1").prefetches().size(), 1u);
  EXPECT_EQ(s3_.gets(), 0u);
}

TEST_F(PeersTest, WhatTheFirstOwnerCannotFetchIsFetchedHere) {
  Peer("n1").OnRead(Lacking());
  StartNode();
  EXPECT_EQ(Read(OwnedBy({"n1", "self"})), Tier::kS3);
  EXPECT_EQ(Peer("n1").prefetches().size(), 1u);
  EXPECT_EQ(s3_.gets(), 1u);
}

TEST_F(PeersTest, AfterADeadFirstOwnerThisNodeFillsAndKeeps) {
  Peer("n1").Stop();
  StartNode();
  const auto request = OwnedBy({"n1", "self"});
  EXPECT_EQ(Read(request), Tier::kS3);
  ASSERT_TRUE(Eventually([&] { return IsCached(request.block()); }));
  EXPECT_EQ(Read(request), Tier::kLocal);
  EXPECT_EQ(s3_.gets(), 1u);
  EXPECT_EQ(PeerFills(), 0u);
}

TEST_F(PeersTest, AnOwnerWhoseProcessIsRestartedIsWaitedForAndSparesTheGets) {
  const std::string address = Peer("n1").Info().address;
  StartNode();
  auto request = OwnedBy({"n1", "self"});
  EXPECT_EQ(Read(request), Tier::kPeer);
  Peer("n1").Stop();
  std::vector<std::future<Result<Tier>>> readers;
  for (int i = 1; i <= 3; ++i) {
    auto cold = OwnedBy({"n1", "self"}, i);
    cold.set_passed_over(i > 1);  // as of a reader whom n1 refused, or whose table is old
    readers.push_back(std::async(std::launch::async, [this, cold] { return Read(cold); }));
  }
  EXPECT_EQ(readers.front().wait_for(std::chrono::milliseconds(300)), std::future_status::timeout);
  nodes_["n1"] = std::make_unique<FakeNode>("n1", kTestSecret, address);
  for (auto& reader : readers) EXPECT_EQ(reader.get(), Tier::kPeer);
  EXPECT_EQ(s3_.gets(), 0u);
}

TEST_F(PeersTest, AnOwnerThatIsRemovedIsNotWaitedFor) {
  StartNode();
  const auto request = OwnedBy({"n1", "self"});
  Peer("n1").Stop();
  const TimePoint begin = Clock::now();
  std::future<Result<Tier>> reader = std::async(std::launch::async, [&] { return Read(request); });
  std::vector<NodeInfo> members = Members();
  std::erase_if(members, [](const NodeInfo& node) { return node.id == "n1"; });
  coordinator_->SetRing(RingTable::Next(table_, members, 1'700'000'001));
  EXPECT_EQ(reader.get(), Tier::kS3);
  EXPECT_LT(Clock::now() - begin, kSilence);
}

TEST_F(PeersTest, AReaderThatHasWaitedForASilentOwnerDoesNotWaitAgain) {
  Peer("n1").Freeze();
  StartNode();
  auto request = OwnedBy({"n1", "self"});
  request.set_passed_over(true);
  const TimePoint begin = Clock::now();
  EXPECT_EQ(Read(request), Tier::kS3);
  EXPECT_LT(Clock::now() - begin, kSilence);
  Peer("n1").Thaw();
  EXPECT_EQ(Peer("n1").reads(), 0u) << "the probe alone is asked";
}

TEST_F(PeersTest, WhatAReaderHasWaitedIsNotWaitedForARestartOnceMore) {
  StartNode();
  Peer("n1").Stop();
  const auto fresh = OwnedBy({"n1", "self"});
  auto late = OwnedBy({"n1", "self"}, 1);
  late.set_passed_over(true);
  late.set_waited_ms(2000);
  std::future<Result<Tier>> reader = std::async(std::launch::async, [&] { return Read(fresh); });
  EXPECT_EQ(Read(late), Tier::kS3);
  EXPECT_EQ(reader.wait_for(std::chrono::seconds(0)), std::future_status::timeout)
      << "who has not waited yet waits for the restart";
  EXPECT_EQ(reader.get(), Tier::kS3);
}

TEST_F(PeersTest, AnOwnerThatFallsSilentBetweenTwoQuestionsIsNotAskedAThirdTime) {
  const auto request = OwnedBy({"n1", "self"});
  std::atomic<int> asked = 0;
  Peer("n1").OnRead([&](proto::ReadBlockRequest read) -> FakeNode::Answer {
    if (read.key() != request.key()) return {FakeNode::RightAnswer(read)};
    ++asked;
    return {Fail(Code::kNotFound, "the block is not cached here")};
  });
  std::promise<void> thaw;
  Peer("n1").OnPrefetch([stopped = thaw.get_future().share()](const proto::ReadBlockRequest&) {
    stopped.wait();
    return false;
  });
  StartNode();
  EXPECT_EQ(Read(request), Tier::kS3);
  EXPECT_EQ(s3_.gets(), 1u);
  thaw.set_value();
  int skip = 0;
  // Over the same connection: whatever was asked before has come by then.
  EXPECT_TRUE(Eventually([&] { return Read(OwnedBy({"n1", "self"}, ++skip)) == Tier::kPeer; }));
  EXPECT_EQ(asked, 1);
}

TEST_F(PeersTest, AnOwnerThatReadersPassOverAndThatIsAliveIsStillTheFiller) {
  StartNode();
  auto request = OwnedBy({"n1", "self"});
  request.set_passed_over(true);
  EXPECT_EQ(Read(request), Tier::kPeer);
  EXPECT_EQ(s3_.gets(), 0u);
}

TEST_F(PeersTest, ASilentOwnerIsAskedAgainOnceItIsBack) {
  const std::string address = Peer("n1").Info().address;
  Peer("n1").Stop();
  StartNode();
  EXPECT_EQ(Read(OwnedBy({"n1", "self"})), Tier::kS3);
  nodes_["n1"] = std::make_unique<FakeNode>("n1", kTestSecret, address);
  int skip = 0;
  EXPECT_TRUE(Eventually([&] { return Read(OwnedBy({"n1", "self"}, ++skip)) == Tier::kPeer; }));
}

TEST_F(PeersTest, AnOwnerThatIsStillLookingIsAskedAgain) {
  std::atomic<int> asked = 0;
  Peer("n1").OnRead([&](proto::ReadBlockRequest request) -> FakeNode::Answer {
    if (++asked < 4) return {Fail(Code::kOverloaded, "looking")};
    return {FakeNode::RightAnswer(request)};
  });
  StartNode();
  EXPECT_EQ(Read(OwnedBy({"n1", "self"})), Tier::kPeer);
  EXPECT_EQ(asked, 4);
  EXPECT_EQ(s3_.gets(), 0u);
}

TEST_F(PeersTest, TheFirstOwnersVerdictOnS3IsPassedOn) {
  for (const Code code : {Code::kTimeout, Code::kStale}) {
    Peer("n1").OnRead(
        [code](proto::ReadBlockRequest) -> FakeNode::Answer { return {Fail(code, "S3 said no")}; });
    if (!node_) StartNode();
    const Result<Tier> read = Read(OwnedBy({"n1", "self"}));
    ASSERT_FALSE(read.has_value());
    EXPECT_EQ(read.error().code, code);
  }
  EXPECT_EQ(s3_.gets(), 0u);
}

TEST_F(PeersTest, WrongBytesOfAPeerAreNotTaken) {
  Peer("n1").OnRead([](proto::ReadBlockRequest request) -> FakeNode::Answer {
    const std::string key = request.key();
    request.set_key("another");
    RpcReply wrong = FakeNode::RightAnswer(request);
    request.set_key(key);
    wrong.message = FakeNode::RightAnswer(request).message;
    return {std::move(wrong)};
  });
  StartNode();
  EXPECT_EQ(Read(OwnedBy({"n1", "self"})), Tier::kS3);
}

TEST_F(PeersTest, NobodyIsAskedForWhatThisNodeOwnsFirst) {
  StartNode();
  EXPECT_EQ(Read(OwnedBy({"self"})), Tier::kS3);
  EXPECT_EQ(Peer("n1").reads() + Peer("n2").reads(), 0u);
}

TEST_F(PeersTest, AfterARestartTheOwnersBehindAreAskedBeforeS3) {
  StartNode();
  StopNode();
  Peer("n1").OnRead(Lacking());
  StartNode();
  EXPECT_EQ(Read(OwnedBy({"self", "n1", "n2"})), Tier::kPeer);
  EXPECT_EQ(Peer("n1").reads(), 1u);
  EXPECT_EQ(Peer("n2").reads(), 1u);
  EXPECT_EQ(Peer("n1").prefetches().size(), 0u) << "nobody fills for an earlier owner";
  EXPECT_EQ(s3_.gets(), 0u);
}

TEST_F(PeersTest, WhatMovedHereIsTakenFromItsFormerOwner) {
  const auto request = OwnedBy({"n1", "n2"});
  std::vector<NodeInfo> members = Members();
  for (NodeInfo& member : members)
    if (member.id != "self") member.state = NodeState::kDraining;
  table_ = RingTable::Next(table_, members, 1'700'000'001);
  coordinator_->SetRing(table_);
  ASSERT_EQ(table_.nodes()[table_.OwnersOf(PartitionOf(FromProto(request.block())))[0]].id, "self");
  StartNode();
  EXPECT_EQ(Read(request), Tier::kPeer);
  ASSERT_TRUE(Eventually([&] { return IsCached(request.block()); })) << "it is ours to keep now";
  EXPECT_EQ(Peer("n1").reads(), 1u);
  EXPECT_EQ(Peer("n2").reads(), 0u);
  EXPECT_EQ(s3_.gets(), 0u);
}

TEST_F(PeersTest, WhatIsToComeFromOtherNodesAloneNeverAsksS3) {
  const auto held = OwnedBy({"self", "n2"});
  const auto lacking = OwnedBy({"self", "n2"}, 1);
  Peer("n1").OnRead([&](proto::ReadBlockRequest request) -> FakeNode::Answer {
    if (request.key() == held.key()) return {FakeNode::RightAnswer(request)};
    return {Fail(Code::kNotFound, "not cached here")};
  });
  // It never owned them: what a node that is to go filled in others' place counts, too.
  std::vector<NodeInfo> members = Members();
  for (NodeInfo& member : members)
    if (member.id == "n1") member.state = NodeState::kDraining;
  coordinator_->SetRing(RingTable::Next(table_, members, 1'700'000'001));
  StartNode();
  proto::FillBlocksRequest request;
  request.set_link(held.link());
  request.set_peers_only(true);
  for (const proto::ReadBlockRequest& read : {held, lacking}) {
    proto::FillObject& object = *request.add_objects();
    object.set_key(read.key());
    object.set_etag(read.etag());
    object.set_size(read.object_size());
    proto::FillBlock& block = *request.add_blocks();
    *block.mutable_block() = read.block();
    block.set_object(static_cast<std::uint32_t>(request.objects_size() - 1));
  }
  const Result<RpcReply> answer = Call(admin_, Method::kFillBlocks, request);
  ASSERT_TRUE(answer.has_value()) << answer.error().message;
  proto::FillBlocksReply reply;
  ASSERT_TRUE(ParseMessage(answer->message, reply).has_value());
  ASSERT_EQ(reply.results_size(), 2);
  EXPECT_EQ(reply.results(0).outcome(), static_cast<std::uint32_t>(FillOutcome::kKept));
  EXPECT_TRUE(IsCached(held.block()));
  EXPECT_EQ(reply.results(1).outcome(), static_cast<std::uint32_t>(FillOutcome::kFailed));
  EXPECT_EQ(reply.results(1).code(), static_cast<std::uint32_t>(Code::kNotFound));
  EXPECT_EQ(s3_.gets(), 0u);
  EXPECT_EQ(Read(lacking), Tier::kS3) << "a reader gets it all the same";
}

TEST_F(PeersTest, ANodeThatIsStillLookingSaysSoToItsPeers) {
  std::promise<void> asked;
  std::promise<void> go_on;
  Peer("n1").OnRead([&](proto::ReadBlockRequest request) -> FakeNode::Answer {
    asked.set_value();
    go_on.get_future().wait();
    return {FakeNode::RightAnswer(request)};
  });
  StartNode();
  auto request = OwnedBy({"n1", "self"});
  std::future<Result<Tier>> reader = std::async(std::launch::async, [&] { return Read(request); });
  asked.get_future().wait();
  Caller peer(proto::ROLE_NODE);
  auto question = request;
  question.set_peer_only(true);
  const Result<RpcReply> refused = Call(peer, Method::kReadBlock, question);
  go_on.set_value();
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code, Code::kOverloaded);
  EXPECT_EQ(reader.get(), Tier::kPeer);
}

}  // namespace
}  // namespace forebay
