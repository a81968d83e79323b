#include <filesystem>
#include <fstream>

#include "common/wire/rpc.h"
#include "tests/component/cachenode/node_fixture.h"

// What a node does for its disks when nobody reads.
namespace forebay {
namespace {

class NodeDisksTest : public NodeTest {
 protected:
  /// Reads a small object and waits until it is kept.
  proto::ReadBlockRequest Cache(const std::string& key) {
    const proto::ReadBlockRequest request = RequestFor(key, 39'000);
    EXPECT_TRUE(Read(request).has_value());
    EXPECT_TRUE(Eventually([&] { return IsCached(request.block()); }));
    return request;
  }

  /// Writes over the data of the first record of every segment.
  void Damage() {
    for (const auto& entry :
         std::filesystem::recursive_directory_iterator(dir_ / "cache/segments")) {
      if (entry.path().extension() != ".seg") continue;
      std::fstream file(entry.path(), std::ios::in | std::ios::out | std::ios::binary);
      file.seekp(1000);
      file.put('x').put('y');
    }
  }

  proto::VerifyBlocksReply Verify(const std::vector<proto::ReadBlockRequest>& blocks) {
    proto::VerifyBlocksRequest request;
    for (const proto::ReadBlockRequest& block : blocks) *request.add_blocks() = block.block();
    proto::VerifyBlocksReply reply;
    const Result<RpcReply> answer = Call(admin_, Method::kVerifyBlocks, request);
    EXPECT_TRUE(answer && ParseMessage(answer->message, reply));
    return reply;
  }
};

TEST_F(NodeDisksTest, AScrubDropsWhatIsDamagedBeforeAReaderComes) {
  disks_.first_pass_after = std::chrono::milliseconds(1);
  disks_.pass_every = std::chrono::milliseconds(50);
  StartNode();
  const proto::ReadBlockRequest request = Cache("data/a");
  Damage();
  EXPECT_TRUE(Eventually([&] { return !IsCached(request.block()); }));
  EXPECT_NE(metrics_.Render().find("forebay_scrubbed_bytes_total{disk="), std::string::npos);
  EXPECT_EQ(Read(request), Tier::kS3) << "repaired";
}

TEST_F(NodeDisksTest, VerifyReadsEachBlockThatIsHereAndCountsDamage) {
  StartNode();
  const std::vector<proto::ReadBlockRequest> blocks = {Cache("data/a"), Cache("data/b"),
                                                       RequestFor("data/not-here", 39'000)};
  EXPECT_EQ(Verify(blocks).verified(), 2u);
  Damage();
  const proto::VerifyBlocksReply reply = Verify(blocks);
  EXPECT_EQ(reply.verified(), 1u);
  EXPECT_EQ(reply.corrupt(), 1u);
}

TEST_F(NodeDisksTest, AnotherSizeIsReachedAndAnnouncedWithoutARestart) {
  constexpr std::uint64_t kLarge = 64ULL << 20;
  capacity_bytes_ = kLarge;
  StartNode();
  constexpr std::uint64_t kSize = 40 * std::uint64_t{kBlock};
  for (std::uint64_t n = 0; n < 40; ++n)
    ASSERT_TRUE(Read(RequestFor("data/big", kSize, n)).has_value());
  ASSERT_TRUE(FillsEnd());
  const auto reported = [&] {
    const proto::HeartbeatRequest beat = coordinator_->last_heartbeat();
    return beat.disks_size() == 1 ? beat.disks(0) : proto::DiskReport();
  };
  constexpr std::uint64_t kSmall = 8ULL << 20;  // less than the 10 MiB that it holds
  node_->Resize({{dir_ / "cache", kSmall}});
  EXPECT_TRUE(Eventually([&] { return reported().capacity_bytes() == kSmall; }));
  EXPECT_LE(reported().used_bytes(), kSmall);
  // What has gone is fetched again, what has not is there.
  int local = 0;
  for (std::uint64_t n = 0; n < 40; ++n) {
    const Result<Tier> tier = Read(RequestFor("data/big", kSize, n));
    ASSERT_TRUE(tier.has_value()) << tier.error().message;
    if (*tier == Tier::kLocal) ++local;
  }
  EXPECT_GT(local, 0);
  EXPECT_LT(local, 40);
  node_->Resize({{dir_ / "cache", kLarge}, {dir_ / "another", kLarge}});
  EXPECT_TRUE(Eventually([&] { return reported().capacity_bytes() == kLarge; }));
  EXPECT_EQ(coordinator_->registrations(), 1u) << "it is the same run";
}

TEST_F(NodeDisksTest, ANodeStartsWithoutADiskThatIsNotTheOneItKnowsAndKeepsItsName) {
  caches_ = {"cache", "other"};
  StartNode();
  const std::string id = node_->id();
  StopNode();
  std::filesystem::remove_all(dir_ / "cache");
  StartNode();
  EXPECT_EQ(node_->id(), id) << "it is kept on every disk";
  EXPECT_FALSE(std::filesystem::exists(dir_ / "cache"));
  EXPECT_TRUE(Eventually([&] {
    const proto::HeartbeatRequest beat = coordinator_->last_heartbeat();
    return beat.disks_size() == 2 && beat.disks(1).path() == dir_ / "cache" &&
           beat.disks(1).state() == static_cast<std::uint32_t>(DiskState::kMissing);
  }));
  const std::string metrics = metrics_.Render();
  EXPECT_NE(metrics.find("forebay_disk_in_service{disk=\"" + (dir_ / "cache") + "\"} 0"),
            std::string::npos)
      << metrics;
  Cache("data/a");
}

TEST_F(NodeDisksTest, ANodeWithoutAnyOfItsDisksDoesNotStartUntilAnotherIsAccepted) {
  StartNode();
  StopNode();
  std::filesystem::remove_all(dir_ / "cache");
  const Result<std::unique_ptr<Node>> refused = TryStart();
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code, Code::kInvalid);
  EXPECT_NE(refused.error().message.find("--accept-new-disk " + (dir_ / "cache")),
            std::string::npos)
      << refused.error().message;
  EXPECT_FALSE(std::filesystem::exists(dir_ / "cache"));
  accept_new_disk_ = {dir_ / "cache"};
  StartNode();
  StopNode();
  accept_new_disk_.clear();
  StartNode();
  Cache("data/a");
}

TEST_F(NodeDisksTest, WhatIsNotHereCostsNothingOfTheRateOfVerify) {
  // The first block leaves a debt of half a day behind it.
  verify_bytes_per_s_ = 1;
  StartNode();
  const proto::ReadBlockRequest here = Cache("data/a");
  const proto::ReadBlockRequest absent = RequestFor("data/not-here", 39'000);
  EXPECT_EQ(Verify({absent, here, absent}).verified(), 1u);
}

}  // namespace
}  // namespace forebay
