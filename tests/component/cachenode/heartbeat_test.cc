#include "cachenode/heartbeat.h"

#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/base/wall_clock.h"
#include "tests/component/cachenode/node_fixture.h"
#include "tests/fakes/memory_block_store.h"

namespace forebay {
namespace {

RingTable TableOf(std::uint64_t epoch) {
  NodeInfo node;
  node.id = "n1";
  node.capacity_bytes = 1 << 30;
  RingTable table;
  while (table.epoch() < epoch) table = RingTable::Next(table, {node}, 0);
  return table;
}

LinkSpec SomeLink() {
  LinkSpec link;
  link.id = Uuid::Random();
  link.name = "data";
  link.origin.bucket = "bucket";
  link.origin.endpoint = "http://127.0.0.1:7480";
  link.domain = Uuid::Random();
  return link;
}

/// A heartbeat that beats only when it is hurried, as an hour passes between two.
class HeartbeatTest : public ::testing::Test {
 protected:
  ~HeartbeatTest() override {
    if (heartbeat_) heartbeat_->Stop(Deadline::After(std::chrono::seconds(5)));
    offload_.Stop();
  }

  void Start(std::vector<std::string> coordinators, Duration every = std::chrono::hours(1)) {
    HeartbeatOptions options;
    options.coordinators = std::move(coordinators);
    options.credentials.role = proto::ROLE_NODE;
    options.credentials.id = "n1";
    options.credentials.program = "test 0";
    options.credentials.secret = Secret(kTestSecret);
    options.every = every;
    heartbeat_ =
        std::make_unique<Heartbeat>(std::move(options), cluster_, counters_, changed_, offload_);
    const Result<Uuid> learned = heartbeat_->LearnCluster({});
    ASSERT_TRUE(learned.has_value()) << learned.error().message;
    cluster_.SetCluster(*learned);
    NodeInfo self;
    self.id = "n1";
    self.address = "127.0.0.1:1";
    self.capacity_bytes = 1 << 30;
    NodeFacts facts;
    facts.missing_dirs = {"/mnt/gone"};
    facts.last_end = RunEnd::kOutOfMemory;
    heartbeat_->Start(std::move(self), store_, brakes_, std::move(facts));
    const Status joined = heartbeat_->WaitUntilRegistered({});
    ASSERT_TRUE(joined.has_value()) << joined.error().message;
  }

  fakes::NodeCoordinator coordinator_{kTestSecret};
  fakes::MemoryBlockStore store_;
  ClusterView cluster_;
  NodeCounters counters_;
  ChangedObjects changed_;
  S3Brakes brakes_;
  Offload offload_{1, 16};
  std::unique_ptr<Heartbeat> heartbeat_;
};

TEST_F(HeartbeatTest, LearnsTheClusterItsLinksAndItsRing) {
  const LinkSpec link = SomeLink();
  coordinator_.SetLinks({link});
  coordinator_.SetRing(TableOf(2));
  Start({coordinator_.address()});
  EXPECT_EQ(cluster_.cluster(), coordinator_.cluster());
  ASSERT_NE(cluster_.FindLink(link.id), nullptr);
  EXPECT_EQ(*cluster_.FindLink(link.id), link);
  EXPECT_EQ(cluster_.ring_epoch(), 2u);
}

TEST_F(HeartbeatTest, AHurryBringsALinkThatWasMadeAMomentAgo) {
  Start({coordinator_.address()});
  const LinkSpec link = SomeLink();
  coordinator_.SetLinks({link});
  heartbeat_->Hurry();
  EXPECT_TRUE(Eventually([&] { return cluster_.FindLink(link.id) != nullptr; }));
}

TEST_F(HeartbeatTest, ALinkThatIsGoneIsForgotten) {
  const LinkSpec link = SomeLink();
  coordinator_.SetLinks({link});
  Start({coordinator_.address()});
  coordinator_.SetLinks({});
  heartbeat_->Hurry();
  EXPECT_TRUE(Eventually([&] { return cluster_.FindLink(link.id) == nullptr; }));
}

TEST_F(HeartbeatTest, ANewerEpochOfAPeerBringsTheTable) {
  Start({coordinator_.address()});
  ASSERT_TRUE(Eventually([&] { return coordinator_.heartbeats() == 1; }));
  coordinator_.SetRing(TableOf(3));
  heartbeat_->NoticeEpoch(3);
  EXPECT_TRUE(Eventually([&] { return cluster_.ring_epoch() == 3; }));
}

TEST_F(HeartbeatTest, ACoordinatorThatForgotTheNodeGetsItAgain) {
  Start({coordinator_.address()});
  ASSERT_TRUE(Eventually([&] { return coordinator_.heartbeats() == 1; }));
  const std::uint64_t incarnation = coordinator_.last_registration().incarnation();
  coordinator_.ForgetNodes();
  heartbeat_->Hurry();
  EXPECT_TRUE(Eventually([&] { return coordinator_.registrations() == 2; }));
  EXPECT_EQ(coordinator_.last_registration().incarnation(), incarnation);
  EXPECT_TRUE(Eventually([&] { return coordinator_.heartbeats() >= 3; })) << "and is reported to";
}

TEST_F(HeartbeatTest, ReportsTheDisksThatTheNodeLacksAndHowItEndedLast) {
  Start({coordinator_.address()});
  ASSERT_TRUE(Eventually([&] { return coordinator_.heartbeats() == 1; }));
  const proto::HeartbeatRequest beat = coordinator_.last_heartbeat();
  ASSERT_GT(beat.disks_size(), 0);
  const proto::DiskReport missing = beat.disks(beat.disks_size() - 1);
  EXPECT_EQ(missing.path(), "/mnt/gone");
  EXPECT_EQ(beat.last_end(), static_cast<std::uint32_t>(RunEnd::kOutOfMemory));
  EXPECT_EQ(missing.state(), static_cast<std::uint32_t>(DiskState::kMissing));
}

TEST_F(HeartbeatTest, SaysWhatItsWallClockIs) {
  const std::int64_t before = UnixMilliseconds();
  Start({coordinator_.address()});
  ASSERT_TRUE(Eventually([&] { return coordinator_.heartbeats() >= 1; }));
  EXPECT_GE(coordinator_.last_heartbeat().clock_unix_ms(), before);
  EXPECT_LE(coordinator_.last_heartbeat().clock_unix_ms(), UnixMilliseconds());
}

TEST_F(HeartbeatTest, TheCoordinatorsAreTriedInTurn) {
  fakes::NodeCoordinator gone(kTestSecret);
  const std::string dead = gone.address();
  gone.Stop();
  Start({dead, coordinator_.address()});
  EXPECT_EQ(coordinator_.registrations(), 1u);
}

TEST_F(HeartbeatTest, ACoordinatorWithALowerFenceIsNotBelieved) {
  coordinator_.SetFence(5);
  Start({coordinator_.address()});
  ASSERT_TRUE(Eventually([&] { return coordinator_.heartbeats() == 1; }));
  coordinator_.SetFence(4);
  const LinkSpec link = SomeLink();
  coordinator_.SetLinks({link});
  heartbeat_->Hurry();
  ASSERT_TRUE(Eventually([&] { return coordinator_.heartbeats() == 2; }));
  heartbeat_->Hurry();
  ASSERT_TRUE(Eventually([&] { return coordinator_.heartbeats() == 3; }));
  EXPECT_EQ(cluster_.FindLink(link.id), nullptr);
  coordinator_.SetFence(6);
  heartbeat_->Hurry();
  EXPECT_TRUE(Eventually([&] { return cluster_.FindLink(link.id) != nullptr; }));
}

TEST_F(HeartbeatTest, WhatIsLeasedOfS3IsKeptForARestart) {
  const fakes::TempDir dir;
  const std::string file = dir / "cluster_state";
  ASSERT_TRUE(cluster_.KeepIn({file}).has_value());
  const auto kept = [&file] {
    ClusterView view;
    const Status read = view.KeepIn({file});
    return read ? view.leases() : std::vector<RequestLease>();
  };
  const Uuid link = Uuid::Random();
  coordinator_.SetLease(link, 80);
  Start({coordinator_.address()});
  const std::vector<RequestLease> first{{link, 80}};
  EXPECT_TRUE(Eventually([&] { return kept() == first; }));
  // A little more each second is not for the disk; what holds in memory is exact.
  coordinator_.SetLease(link, 90);
  heartbeat_->Hurry();
  const std::vector<RequestLease> second{{link, 90}};
  EXPECT_TRUE(Eventually([&] { return cluster_.leases() == second; }));
  EXPECT_EQ(kept(), first);
}

TEST_F(HeartbeatTest, StopReportsALastTime) {
  Start({coordinator_.address()});
  ASSERT_TRUE(Eventually([&] { return coordinator_.heartbeats() == 1; }));
  const Uuid link = Uuid::Random();
  counters_.OfLink(link)->reads = 7;
  counters_.OfLink(link)->hits = 7;
  heartbeat_->Stop(Deadline::After(std::chrono::seconds(20)));
  EXPECT_GE(coordinator_.heartbeats(), 2u);
  ASSERT_EQ(coordinator_.last_heartbeat().links_size(), 1);
  EXPECT_EQ(coordinator_.last_heartbeat().links(0).reads(), 7u);
}

TEST_F(HeartbeatTest, StopDoesNotWaitLongForACoordinatorThatIsAway) {
  Start({coordinator_.address()});
  coordinator_.Stop();
  const TimePoint begin = Clock::now();
  heartbeat_->Stop(Deadline::After(std::chrono::seconds(5)));
  EXPECT_LT(Clock::now() - begin, std::chrono::seconds(10));
}

}  // namespace
}  // namespace forebay
