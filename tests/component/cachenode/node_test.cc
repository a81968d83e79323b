#include "cachenode/node.h"

#include <chrono>
#include <fstream>
#include <future>
#include <string>
#include <vector>

#include "common/wire/messages.h"
#include "proto/coordinator.pb.h"
#include "tests/component/cachenode/node_fixture.h"

namespace forebay {
namespace {

using fakes::GetScript;

TEST_F(NodeTest, AFirstStartJoinsAndServes) {
  StartNode();
  const proto::NodeInfo self = coordinator_->last_registration().node();
  EXPECT_EQ(self.id(), node_->id());
  EXPECT_EQ(self.id().substr(0, 2), "n-");
  EXPECT_EQ(self.address(), node_->address());
  EXPECT_EQ(self.local_socket(), dir_ / "node.sock");
  EXPECT_EQ(self.zone(), "z1");
  EXPECT_GT(self.capacity_bytes(), 0u);
  const proto::ReadBlockRequest request = RequestFor("data/a", 39'000);
  EXPECT_EQ(Read(request), Tier::kS3);
  ASSERT_TRUE(Eventually([&] { return IsCached(request.block()); }));
  EXPECT_EQ(Read(request), Tier::kLocal);
  EXPECT_EQ(s3_.gets(), 1u);
}

TEST_F(NodeTest, ServesThroughItsUnixSocketToo) {
  StartNode();
  const Result<RpcReply> reply = client_.Call("unix:" + (dir_ / "node.sock"), Method::kReadBlock,
                                              RequestFor("data/a", 39'000));
  ASSERT_TRUE(reply.has_value()) << reply.error().message;
  EXPECT_EQ(reply->payload.bytes.size(), 39'000u);
}

TEST_F(NodeTest, ServesFromDiskWithoutACoordinatorAfterARestart) {
  StartNode();
  const std::string id = node_->id();
  constexpr std::uint64_t kSize = 5 * std::uint64_t{kBlock} + 1;
  for (std::uint64_t n = 0; n < 6; ++n) {
    const proto::ReadBlockRequest request = RequestFor("data/big", kSize, n);
    ASSERT_TRUE(Read(request).has_value());
    ASSERT_TRUE(Eventually([&] { return IsCached(request.block()); }));
  }
  StopNode();
  coordinator_->Stop();
  StartNode();
  EXPECT_EQ(node_->id(), id);
  for (std::uint64_t n = 0; n < 6; ++n)
    EXPECT_EQ(Read(RequestFor("data/big", kSize, n)), Tier::kLocal);
  EXPECT_EQ(s3_.gets(), 6u);
  EXPECT_EQ(Read(RequestFor("data/cold", 10)), Tier::kS3) << "cold fills go on, too";
}

TEST_F(NodeTest, ItsShareOfAThrottledS3OutlivesARestartWithoutACoordinator) {
  const std::string limit = "forebay_s3_request_limit{link=\"" + link_.name + "\"} ";
  const auto limited_to = [&] {
    const std::string text = metrics_.Render();
    const std::size_t at = text.find(limit);
    return at == std::string::npos ? -1 : std::stod(text.substr(at + limit.size()));
  };
  coordinator_->SetLease(link_.id, 200);
  StartNode();
  ASSERT_TRUE(Read(RequestFor("data/first", 10)).has_value());
  ASSERT_TRUE(Eventually([&] { return limited_to() == 200; }));
  const auto is_kept = [&] {
    ClusterView view;
    return view.KeepIn({dir_ / "cache/cluster_state"}) && !view.leases().empty();
  };
  ASSERT_TRUE(Eventually(is_kept));
  StopNode();
  coordinator_->Stop();
  StartNode();
  // It goes on from there, and up slowly, as S3 refuses nothing; without the lease it had no limit.
  EXPECT_GE(limited_to(), 200);
  EXPECT_EQ(Read(RequestFor("data/second", 10)), Tier::kS3);
}

TEST_F(NodeTest, AFirstStartWaitsForTheCoordinatorUntilItIsStopped) {
  coordinator_->Stop();
  std::stop_source stop;
  std::future<Result<std::unique_ptr<Node>>> start =
      std::async(std::launch::async, [&] { return TryStart(stop.get_token()); });
  EXPECT_EQ(start.wait_for(std::chrono::milliseconds(300)), std::future_status::timeout);
  stop.request_stop();
  const Result<std::unique_ptr<Node>> node = start.get();
  ASSERT_FALSE(node.has_value());
  EXPECT_EQ(node.error().code, Code::kUnavailable);
  EXPECT_NE(node.error().message.find(coordinators_.front()), std::string::npos);
}

TEST_F(NodeTest, AFirstStartThatIsRefusedSaysWhy) {
  coordinator_->Refuse(Error{Code::kInvalid, "another node has this id"});
  const Result<std::unique_ptr<Node>> node = TryStart();
  ASSERT_FALSE(node.has_value());
  EXPECT_EQ(node.error().message, "another node has this id");
}

TEST_F(NodeTest, ACoordinatorOfAnotherClusterChangesNothing) {
  StartNode();
  const proto::ReadBlockRequest request = RequestFor("data/a", 39'000);
  ASSERT_TRUE(Read(request).has_value());
  ASSERT_TRUE(Eventually([&] { return IsCached(request.block()); }));
  StopNode();
  fakes::NodeCoordinator other(kTestSecret);
  coordinators_ = {other.address()};
  StartNode();
  EXPECT_EQ(Read(request), Tier::kLocal);
  StopNode();
  EXPECT_EQ(other.registrations(), 0u);
  EXPECT_EQ(other.heartbeats(), 0u);
}

TEST_F(NodeTest, ADamagedClusterStateIsAskedForAgain) {
  StartNode();
  const proto::ReadBlockRequest request = RequestFor("data/a", 39'000);
  ASSERT_TRUE(Read(request).has_value());
  ASSERT_TRUE(Eventually([&] { return IsCached(request.block()); }));
  StopNode();
  std::ofstream(dir_ / "cache/cluster_state") << "what is this";
  StartNode();
  EXPECT_EQ(Read(request), Tier::kLocal);
}

TEST_F(NodeTest, ALinkThatIsNotKnownIsRefusedAndNotCounted) {
  StartNode();
  proto::ReadBlockRequest request = RequestFor("data/a", 39'000);
  const Uuid other = Uuid::Random();
  request.set_link(BytesOf(other));
  const Result<Tier> read = Read(request);
  ASSERT_FALSE(read.has_value());
  EXPECT_EQ(read.error().code, Code::kNotFound);
  EXPECT_EQ(read.error().message, "link " + other.ToString() + " is not known to this node");
  StopNode();
  EXPECT_EQ(coordinator_->last_heartbeat().links_size(), 0);
}

TEST_F(NodeTest, AWrongRequestIsRefusedAndNotCounted) {
  StartNode();
  proto::ReadBlockRequest request = RequestFor("data/a", 39'000);
  request.set_etag("another");
  EXPECT_EQ(Read(request).error().code, Code::kInvalid);
  request = RequestFor("data/a", 39'000);
  request.set_range_end(39'001);
  EXPECT_EQ(Read(request).error().code, Code::kInvalid);
  request = RequestFor("other\xFF/a", 39'000);
  const Result<Tier> read = Read(request);
  EXPECT_EQ(read.error().code, Code::kInvalid);
  EXPECT_EQ(read.error().message, "the key 'other\\xff/a' is not part of link data");
  proto::BlockKey nonsense;
  EXPECT_EQ(Call(client_, Method::kPrefetchBlock, nonsense).error().code, Code::kInvalid);
  StopNode();
  EXPECT_EQ(s3_.gets(), 0u);
  EXPECT_EQ(coordinator_->last_heartbeat().links_size(), 0);
}

// kUnavailable would send the reader to the next owner, and S3 would be asked a second time.
TEST_F(NodeTest, AFillThatOutlastsItsPatienceIsATimeout) {
  s3_timeout_ = std::chrono::milliseconds(500);
  StartNode();
  s3_.OnGet([](const GetRequest&) { return fakes::GetScript{.hold_after = 0}; });
  const Result<Tier> read = Read(RequestFor("data/a", 39'000));
  ASSERT_FALSE(read.has_value());
  EXPECT_EQ(read.error().code, Code::kTimeout) << read.error().message;
  s3_.OnGet([](const GetRequest&) {
    return fakes::GetScript{.error = Error{Code::kUnavailable, "500"}};
  });
  const Result<Tier> refused = Read(RequestFor("data/a", 39'000));
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code, Code::kTimeout) << refused.error().message;
}

TEST_F(NodeTest, TheLastReportHoldsEveryRead) {
  StartNode();
  constexpr std::uint64_t kFiles = 20;
  for (int epoch = 0; epoch < 3; ++epoch) {
    for (std::uint64_t i = 0; i < kFiles; ++i) {
      ASSERT_TRUE(Read(RequestFor("data/" + std::to_string(i), 1000 + i)).has_value());
    }
  }
  StopNode();
  const proto::LinkCounters counters = Reported();
  EXPECT_EQ(counters.reads(), 3 * kFiles);
  EXPECT_EQ(counters.hits() + counters.misses(), counters.reads());
  EXPECT_EQ(counters.misses(), kFiles);
  EXPECT_EQ(counters.s3_gets(), kFiles);
  EXPECT_EQ(counters.s3_errors(), 0u);
  EXPECT_EQ(counters.cached_blocks(), kFiles);
  EXPECT_EQ(counters.cached_bytes(), counters.s3_bytes());
  EXPECT_EQ(counters.read_bytes(), 3 * counters.s3_bytes());
  const proto::HeartbeatRequest last = coordinator_->last_heartbeat();
  EXPECT_EQ(last.blocks(), kFiles);
  ASSERT_EQ(last.jobs_size(), 1);
  EXPECT_EQ(last.jobs(0).job(), "job");
  EXPECT_EQ(last.jobs(0).reads(), 3 * kFiles);
  ASSERT_EQ(last.disks_size(), 1);
  EXPECT_GT(last.disks(0).used_bytes(), 0u);
}

TEST_F(NodeTest, ARestartReportsWhatIsCachedBeforeAnybodyReads) {
  StartNode();
  ASSERT_TRUE(Read(RequestFor("data/a", 39'000)).has_value());
  StopNode();
  const std::uint64_t before = coordinator_->heartbeats();
  StartNode();
  ASSERT_TRUE(Eventually([&] { return coordinator_->heartbeats() > before; }));
  EXPECT_EQ(Reported().cached_blocks(), 1u);
  EXPECT_EQ(Reported().cached_bytes(), 39'000u);
  EXPECT_EQ(Reported().reads(), 0u) << "each process counts from zero";
}

TEST_F(NodeTest, EvictingABlockMakesItCold) {
  StartNode();
  const proto::ReadBlockRequest a = RequestFor("data/a", 39'000);
  const proto::ReadBlockRequest b = RequestFor("data/b", 39'000);
  ASSERT_TRUE(Read(a).has_value() && Read(b).has_value());
  ASSERT_TRUE(Eventually([&] { return IsCached(a.block()) && IsCached(b.block()); }));
  proto::EvictBlocksRequest evict;
  *evict.add_blocks() = a.block();
  const Result<RpcReply> reply = Call(admin_, Method::kEvictBlocks, evict);
  ASSERT_TRUE(reply.has_value()) << reply.error().message;
  proto::EvictBlocksReply evicted;
  ASSERT_TRUE(ParseMessage(reply->message, evicted).has_value());
  EXPECT_EQ(evicted.blocks(), 1u);
  EXPECT_GE(evicted.bytes(), 39'000u);
  EXPECT_FALSE(IsCached(a.block()));
  EXPECT_TRUE(IsCached(b.block()));
  EXPECT_EQ(Read(a), Tier::kS3);
  EXPECT_EQ(s3_.gets(), 3u);
}

TEST_F(NodeTest, DescribesWhoReadABlockAndWhyItIsGone) {
  StartNode();
  const proto::ReadBlockRequest request = RequestFor("data/a", 39'000);
  proto::DescribeBlocksRequest question;
  *question.add_blocks() = request.block();
  *question.add_blocks() = RequestFor("data/b", 39'000).block();
  const auto describe = [&] {
    const Result<RpcReply> reply = Call(admin_, Method::kDescribeBlocks, question);
    proto::DescribeBlocksReply answer;
    EXPECT_TRUE(reply && answer.ParseFromString(reply->message) && answer.blocks_size() == 2);
    return answer;
  };
  proto::DescribeBlocksReply before = describe();
  EXPECT_FALSE(before.blocks(0).cached());
  EXPECT_EQ(before.blocks(0).read_unix_s(), 0);
  EXPECT_GT(before.blocks(0).since_unix_s(), 0);
  ASSERT_TRUE(Read(request).has_value());
  ASSERT_TRUE(Eventually([&] { return IsCached(request.block()); }));
  const proto::BlockDescription cached = describe().blocks(0);
  EXPECT_TRUE(cached.cached());
  EXPECT_EQ(cached.job(), "job");
  EXPECT_GE(cached.read_unix_s(), cached.since_unix_s());
  EXPECT_EQ(cached.lost_unix_s(), 0);
  proto::EvictBlocksRequest evict;
  *evict.add_blocks() = request.block();
  ASSERT_TRUE(Call(admin_, Method::kEvictBlocks, evict).has_value());
  const proto::DescribeBlocksReply after = describe();
  EXPECT_FALSE(after.blocks(0).cached());
  EXPECT_EQ(after.blocks(0).loss(), static_cast<std::uint32_t>(BlockLoss::kAsked));
  EXPECT_GE(after.blocks(0).lost_unix_s(), cached.read_unix_s());
  EXPECT_EQ(after.blocks(1).lost_unix_s(), 0) << "the other block has a memory of its own";
  EXPECT_EQ(after.blocks(1).read_unix_s(), 0);
}

TEST_F(NodeTest, EvictingALinkTakesAllOfItAndNeedsItsName) {
  StartNode();
  const proto::ReadBlockRequest a = RequestFor("data/a", 39'000);
  ASSERT_TRUE(Read(a).has_value());
  ASSERT_TRUE(Eventually([&] { return IsCached(a.block()); }));
  proto::EvictBlocksRequest evict;
  evict.set_whole_link("short");
  EXPECT_EQ(Call(admin_, Method::kEvictBlocks, evict).error().code, Code::kInvalid);
  EXPECT_TRUE(IsCached(a.block()));
  evict.set_whole_link(BytesOf(link_.id));
  EXPECT_TRUE(Call(admin_, Method::kEvictBlocks, evict).has_value());
  EXPECT_FALSE(IsCached(a.block()));
}

TEST_F(NodeTest, PrefetchFillsBehindDemand) {
  StartNode();
  const proto::ReadBlockRequest request = RequestFor("data/a", 39'000);
  const auto started = [&] {
    const Result<RpcReply> reply = Call(client_, Method::kPrefetchBlock, request);
    proto::PrefetchBlockReply message;
    EXPECT_TRUE(reply.has_value() && ParseMessage(reply->message, message).has_value());
    return message.started();
  };
  EXPECT_TRUE(started());
  ASSERT_TRUE(Eventually([&] { return IsCached(request.block()); }));
  EXPECT_FALSE(started());
  EXPECT_EQ(Read(request), Tier::kLocal);
  StopNode();
  EXPECT_EQ(Reported().reads(), 1u);
  EXPECT_EQ(Reported().misses(), 0u);
  EXPECT_EQ(Reported().s3_gets(), 1u);
}

TEST_F(NodeTest, APrefetchForAReaderElsewhereBeginsWhereItWaits) {
  constexpr std::uint32_t kBig = 4U << 20;
  constexpr std::uint32_t kFar = 3U << 20;
  link_.block_bytes = kBig;
  coordinator_->SetLinks({link_});
  StartNode();
  Caller peer(proto::ROLE_NODE);
  proto::ReadBlockRequest request = RequestFor("data/shard", 3ULL * kBig, 1);
  request.set_range_begin(kFar + 10);
  request.set_range_end(kFar + 20);
  ASSERT_TRUE(Call(peer, Method::kPrefetchBlock, request).has_value());
  ASSERT_TRUE(Eventually([&] { return IsCached(request.block()); }));
  using Ranges = std::vector<fakes::ScriptedObjectStore::Range>;
  EXPECT_EQ(s3_.ranges(), (Ranges{{kBig + kFar, kBig - kFar}, {kBig, kFar}}));
  // A range that is none of the block says nothing.
  proto::ReadBlockRequest odd = RequestFor("data/shard", 3ULL * kBig, 2);
  odd.set_range_begin(kBig - 1);
  odd.set_range_end(kBig + 1);
  ASSERT_TRUE(Call(peer, Method::kPrefetchBlock, odd).has_value());
  ASSERT_TRUE(Eventually([&] { return IsCached(odd.block()); }));
  EXPECT_EQ(s3_.gets(), 3u);
  StopNode();
  EXPECT_EQ(Reported().s3_gets(), 3u);
  EXPECT_EQ(Reported().s3_bytes(), 2 * kBig);
}

TEST_F(NodeTest, APrefetchThatFindsS3BusyIsRefusedAndTheAnswerSaysSo) {
  StartNode();
  s3_.OnGet([](const GetRequest&) { return GetScript{.hold_after = 0}; });
  constexpr std::uint64_t kFillsMost = 2000;  // more than a node has under way
  const auto answer = [&](std::uint64_t n) {
    const auto request = RequestFor("data/big", kFillsMost * kBlock, n);
    const Result<RpcReply> reply = Call(client_, Method::kPrefetchBlock, request);
    proto::PrefetchBlockReply message;
    EXPECT_TRUE(reply.has_value() && ParseMessage(reply->message, message).has_value());
    return message;
  };
  std::uint64_t begun = 0;
  proto::PrefetchBlockReply last;
  for (; begun < kFillsMost; ++begun) {
    last = answer(begun);
    if (!last.started()) break;
  }
  EXPECT_TRUE(last.refused());
  EXPECT_FALSE(answer(0).refused()) << "it is on its way";
  // Another node's, whose reader waits: it would ask S3 itself.
  auto awaited = RequestFor("data/big", kFillsMost * kBlock, begun + 1);
  awaited.set_peer_only(true);
  const auto told = [this, &awaited](auto& by) {
    const Result<RpcReply> reply = Call(by, Method::kPrefetchBlock, awaited);
    proto::PrefetchBlockReply message;
    EXPECT_TRUE(reply.has_value() && ParseMessage(reply->message, message).has_value());
    return message;
  };
  EXPECT_TRUE(told(client_).refused()) << "a mount's word for it is not taken";
  Caller peer(proto::ROLE_NODE);
  EXPECT_TRUE(told(peer).started());
  s3_.Release();
  ASSERT_TRUE(FillsEnd());
  const proto::PrefetchBlockReply again = answer(begun);
  EXPECT_TRUE(again.started());
  EXPECT_FALSE(again.refused());
  ASSERT_TRUE(FillsEnd());
}

TEST_F(NodeTest, StopEndsReadersThatWaitForS3) {
  StartNode();
  s3_.OnGet([](const GetRequest&) { return GetScript{.hold_after = 0}; });
  std::future<Result<Tier>> read =
      std::async(std::launch::async, [this] { return Read(RequestFor("data/a", 39'000)); });
  ASSERT_TRUE(s3_.WaitForHeld(1));
  node_->Stop(Deadline::After({}));
  const Result<Tier> ended = read.get();
  ASSERT_FALSE(ended.has_value());
  EXPECT_EQ(ended.error().code, Code::kUnavailable);
}

TEST_F(NodeTest, TheMetricsTellWhatItHolds) {
  StartNode();
  const proto::ReadBlockRequest request = RequestFor("data/a", 39'000);
  ASSERT_TRUE(Read(request).has_value());
  ASSERT_TRUE(FillsEnd());
  ASSERT_TRUE(IsCached(request.block()));
  ASSERT_TRUE(Read(request).has_value());
  const std::string text = metrics_.Render();
  const std::string path = dir_ / "cache";
  const std::vector<std::string> expected = {
      "forebay_index_entries 1",
      "forebay_cache_used_bytes{disk=\"" + path + "\"}",
      "forebay_cache_capacity_bytes{disk=\"" + path + "\"}",
      "forebay_evicted_bytes_total{reason=\"capacity\"} 0",
      "forebay_checksum_failures_total{where=\"disk\"} 0",
      "forebay_read_bytes_total{link=\"data\",tier=\"local\"} 39000",
      "forebay_read_bytes_total{link=\"data\",tier=\"s3\"} 39000",
      "forebay_read_duration_seconds_count 2",
      "forebay_rpc_connections 2",
  };
  for (const std::string& line : expected)
    EXPECT_NE(text.find(line), std::string::npos) << line << "\n" << text;
}

}  // namespace
}  // namespace forebay
