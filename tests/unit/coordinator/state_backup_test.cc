#include "coordinator/state_backup.h"

#include <gtest/gtest.h>

#include "common/ring/ring.h"
#include "coordinator/fence_claim.h"
#include "proto/coordinator_state.pb.h"
#include "tests/unit/coordinator/testing.h"

namespace forebay {
namespace {

constexpr std::int64_t kNow = 1'800'000'000;
const Uuid kCluster = Uuid::Parse("30313233-3435-3637-3839-616263646566");

RingTable TableOfOneNode() {
  NodeInfo node;
  node.id = "n1";
  node.address = "10.0.0.1:7441";
  node.capacity_bytes = 1 << 30;
  return RingTable::Next(RingTable(), {node}, kNow);
}

/// A cluster's state; answers the fence that its coordinator has claimed.
std::uint64_t Fill(StateStore& store) {
  const std::uint64_t fence = *store.Claim();
  StateBatch batch;
  proto::LinkRecord link;
  link.mutable_spec()->set_name("imagenet");
  link.set_next_generation(4);
  batch.Put("cluster/uuid", kCluster.ToString());
  batch.Put("link/1", link.SerializeAsString());
  batch.Put("pin/1/", "p");
  batch.Put("ring/table", TableOfOneNode().Serialize());
  proto::TokenRecord token;
  token.mutable_token()->set_uses_left(3);
  token.set_secret(std::string("\0secret", 7));
  batch.Put("token/x", token.SerializeAsString());
  EXPECT_TRUE(store.Write(batch, fence).has_value());
  return fence;
}

TEST(StateBackup, ARestoredStateIsTheOldOneAndAboveAllItsNumbers) {
  MemoryStateStore old;
  const std::uint64_t fence = Fill(old);
  const std::string bytes = *MakeBackup(old, fence, kNow - 60);

  MemoryStateStore fresh;
  const std::uint64_t before = *fresh.Claim();
  StateBatch born;
  born.Put("cluster/uuid", Uuid::Random().ToString());
  born.Put("member/n9", "came by");
  ASSERT_TRUE(fresh.Write(born, before).has_value());
  const Result<RestoredBackup> restored = RestoreBackup(fresh, bytes, {}, kNow);
  ASSERT_TRUE(restored.has_value()) << restored.error().message;
  EXPECT_EQ(restored->cluster, kCluster);
  EXPECT_EQ(restored->taken_unix_s, kNow - 60);
  EXPECT_EQ(restored->links, 1u);
  EXPECT_GT(restored->fence, static_cast<std::uint64_t>(kNow));

  EXPECT_EQ(**fresh.Get("cluster/uuid"), kCluster.ToString());
  proto::TokenRecord token;
  ASSERT_TRUE(token.ParseFromString(**fresh.Get("token/x")));
  EXPECT_EQ(token.secret(), std::string("\0secret", 7))
      << "who holds it is told what has become of it";
  EXPECT_TRUE(token.token().revoked()) << "nobody knows who has used it since";
  EXPECT_FALSE(fresh.Get("member/n9")->has_value());
  const RingTable table = *RingTable::Parse(**fresh.Get("ring/table"));
  EXPECT_GE(table.epoch(), static_cast<std::uint64_t>(kNow) * 1000);
  EXPECT_EQ(table.nodes().size(), 1u);
  proto::LinkRecord link;
  ASSERT_TRUE(link.ParseFromString(**fresh.Get("link/1")));
  EXPECT_GE(link.next_generation(), static_cast<std::uint64_t>(kNow));
  EXPECT_EQ(link.spec().name(), "imagenet");
  // Whoever served before can write no more.
  EXPECT_EQ(fresh.Write(born, before).error().code, Code::kDenied);
  EXPECT_GE(std::stoull(fresh.Get("links/version")->value_or("0")),
            static_cast<std::uint64_t>(kNow))
      << "nodes may know a later one of the lost cluster's";
  // The same backup again, later, is above what the first restore has counted up.
  MemoryStateStore again;
  EXPECT_GT(RestoreBackup(again, bytes, {}, kNow + 1000)->fence, restored->fence + 900);
}

// What nodes said of a copy is no part of it, and a restore is what ends it.
TEST(StateBackup, ARestoredStateIsNotOutdated) {
  MemoryStateStore old;
  const std::uint64_t fence = Fill(old);
  const Fence said{.epoch = fence, .claim = Uuid::Random()};
  ASSERT_TRUE(MarkOutdated(old, said, fence));
  EXPECT_EQ(**OutdatedFence(old), said);
  const std::string bytes = *MakeBackup(old, fence, kNow);
  MemoryStateStore fresh;
  ASSERT_TRUE(MarkOutdated(fresh, said, *fresh.Claim()));
  ASSERT_TRUE(RestoreBackup(fresh, bytes, {}, kNow));
  EXPECT_FALSE(OutdatedFence(fresh)->has_value());
  // Somebody who was replaced while it slept says nothing of the state.
  EXPECT_EQ(MarkOutdated(fresh, said, fence).error().code, Code::kDenied);
}

// It says that there are no links: nodes and mounts follow.
TEST(StateBackup, ABackupOfAnEmptyStateHasVersionsOfLinksAndRingWhenItIsRestored) {
  MemoryStateStore old;
  const std::uint64_t fence = *old.Claim();
  StateBatch born;
  born.Put("cluster/uuid", kCluster.ToString());
  ASSERT_TRUE(old.Write(born, fence));
  MemoryStateStore fresh;
  ASSERT_TRUE(RestoreBackup(fresh, *MakeBackup(old, fence, kNow), {}, kNow));
  EXPECT_GE(std::stoull(fresh.Get("links/version")->value_or("0")),
            static_cast<std::uint64_t>(kNow));
  const auto ring = RingTable::Parse(fresh.Get("ring/table")->value_or(""));
  ASSERT_TRUE(ring);
  EXPECT_GE(ring->epoch(), static_cast<std::uint64_t>(kNow) * 1000);
  EXPECT_TRUE(ring->nodes().empty());
}

TEST(StateBackup, AClusterWithAStateOfItsOwnIsNotOverwritten) {
  MemoryStateStore old;
  const std::string bytes = *MakeBackup(old, Fill(old), kNow);
  const auto before = *old.Scan("");
  const Result<RestoredBackup> refused = RestoreBackup(old, bytes, {}, kNow);
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code, Code::kInvalid);
  EXPECT_NE(refused.error().message.find("links: 1, pins: 1, tasks: 0"), std::string::npos)
      << refused.error().message;
  EXPECT_EQ(*old.Scan(""), before);
}

TEST(StateBackup, AnotherClustersBackupIsRefused) {
  MemoryStateStore old;
  const std::string bytes = *MakeBackup(old, Fill(old), kNow);
  MemoryStateStore fresh;
  const Result<RestoredBackup> refused = RestoreBackup(fresh, bytes, Uuid::Random(), kNow);
  ASSERT_FALSE(refused.has_value());
  EXPECT_NE(refused.error().message.find("forebay init --cluster " + kCluster.ToString()),
            std::string::npos);
  EXPECT_TRUE(RestoreBackup(fresh, bytes, kCluster, kNow).has_value());
}

TEST(StateBackup, AStateOfANewerVersionIsRefusedAndNothingChanges) {
  MemoryStateStore newer;
  const std::uint64_t fence = Fill(newer);
  StateBatch raised;
  raised.Put("state/format", "2");
  ASSERT_TRUE(newer.Write(raised, fence).has_value());
  MemoryStateStore fresh;
  const Result<RestoredBackup> refused =
      RestoreBackup(fresh, *MakeBackup(newer, fence, kNow), {}, kNow);
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().message,
            "the state in the backup has format 2, and this version reads 1: use the version that "
            "wrote it, or a newer one");
  EXPECT_TRUE(fresh.Scan("")->empty());
}

TEST(StateBackup, WhatIsNotWholeChangesNothing) {
  MemoryStateStore old;
  const std::string bytes = *MakeBackup(old, Fill(old), kNow);
  std::string flipped = bytes;
  flipped[bytes.size() / 2] = static_cast<char>(flipped[bytes.size() / 2] ^ 1);
  for (const std::string& bad :
       {std::string(), std::string("FBBACKUP"), bytes.substr(0, bytes.size() - 1), bytes + "x",
        flipped, "x" + bytes}) {
    MemoryStateStore fresh;
    const Result<RestoredBackup> refused = RestoreBackup(fresh, bad, {}, kNow);
    ASSERT_FALSE(refused.has_value());
    EXPECT_EQ(refused.error().code, Code::kInvalid);
    EXPECT_TRUE(fresh.Scan("")->empty());
    EXPECT_EQ(*fresh.Claim(), 1u);
  }
}

}  // namespace
}  // namespace forebay
