#include "coordinator/cache_census.h"

#include <gtest/gtest.h>

#include <optional>
#include <set>

#include "common/model/limits.h"
#include "common/wire/messages.h"
#include "proto/node.pb.h"
#include "tests/unit/coordinator/testing.h"

namespace forebay {
namespace {

BlockId BlockOf(const proto::BlockKey& key) {
  return BlockId{.version = {.high = key.version_high(), .low = key.version_low()},
                 .offset = key.offset(),
                 .length = key.length()};
}

/// Cache nodes as far as the census sees them.
class FakeNodes {
 public:
  std::map<std::string, std::set<BlockId>> held;
  std::set<std::string> dead;
  std::optional<BlockId> corrupt;
  std::size_t largest_batch = 0;

  Task<Result<RpcReply>> Call(NodeInfo node, Method method,
                              std::shared_ptr<const google::protobuf::MessageLite> request) {
    if (dead.contains(node.id)) co_return Fail(Code::kUnavailable, "nobody there");
    RpcReply reply;
    if (method == Method::kCheckBlocks) {
      proto::CheckBlocksRequest check;
      EXPECT_TRUE(check.ParseFromString(request->SerializeAsString()));
      largest_batch = std::max(largest_batch, static_cast<std::size_t>(check.blocks_size()));
      proto::CheckBlocksReply answer;
      std::string bits(static_cast<std::size_t>(check.blocks_size() + 7) / 8, '\0');
      for (std::size_t i = 0; i < static_cast<std::size_t>(check.blocks_size()); ++i) {
        const bool present = held[node.id].contains(BlockOf(check.blocks(static_cast<int>(i))));
        if (present) bits[i / 8] = static_cast<char>(bits[i / 8] | (1 << (i % 8)));
      }
      answer.set_present(bits);
      reply.message = answer.SerializeAsString();
      co_return reply;
    }
    if (method == Method::kVerifyBlocks) {
      proto::VerifyBlocksRequest verify;
      EXPECT_TRUE(verify.ParseFromString(request->SerializeAsString()));
      proto::VerifyBlocksReply answer;
      for (const proto::BlockKey& key : verify.blocks()) {
        if (!held[node.id].contains(BlockOf(key))) continue;
        const bool bad = BlockOf(key) == corrupt;
        answer.set_corrupt(answer.corrupt() + (bad ? 1 : 0));
        answer.set_verified(answer.verified() + (bad ? 0 : 1));
      }
      reply.message = answer.SerializeAsString();
      co_return reply;
    }
    proto::EvictBlocksRequest evict;
    EXPECT_TRUE(evict.ParseFromString(request->SerializeAsString()));
    proto::EvictBlocksReply answer;
    std::set<BlockId> gone;
    for (const proto::BlockKey& key : evict.blocks()) gone.insert(BlockOf(key));
    if (!evict.whole_link().empty()) gone = held[node.id];
    for (const BlockId& block : gone) {
      if (held[node.id].erase(block) == 0) continue;
      answer.set_blocks(answer.blocks() + 1);
      answer.set_bytes(answer.bytes() + block.length);
    }
    reply.message = answer.SerializeAsString();
    co_return reply;
  }
};

class CacheCensusTest : public testing::Test {
 protected:
  CacheCensusTest() {
    std::vector<std::pair<std::string, std::uint64_t>> objects = {{"p/big", kDefaultBlockBytes * 3},
                                                                  {"p/empty", 0}};
    for (int i = 0; i < 5000; ++i) objects.emplace_back("p/s/" + std::to_string(i), 100);
    snapshot = TestSnapshot(dir, link, objects);
    BlockWalk walk(snapshot, {*snapshot->Resolve("")});
    for (;;) {
      const Result<std::vector<WalkedBlock>> blocks = walk.Next(1000);
      if (blocks->empty()) break;
      all.insert(all.end(), blocks->begin(), blocks->end());
    }
    for (const char* id : {"n1", "n2", "n3"}) {
      NodeInfo node;
      node.id = id;
      node.capacity_bytes = 1 << 30;
      roster.up.push_back(node);
    }
    roster.ring = std::make_shared<RingTable>(RingTable::Next(RingTable(), roster.up, 1000));
  }

  /// The node with this index is silent.
  void Silence(std::size_t n) {
    roster.absent.push_back(roster.up[n]);
    roster.up.erase(roster.up.begin() + static_cast<std::ptrdiff_t>(n));
  }

  CacheCount CountAll(const std::string& path) {
    Result<CacheCount> count =
        RunTask(context, census.Count(snapshot, {*snapshot->Resolve(path)}, roster,
                                      Deadline::After(std::chrono::seconds(30))));
    EXPECT_TRUE(count.has_value());
    return count.value_or(CacheCount());
  }
  CacheTally Count(const std::string& path) { return CountAll(path).tallies.at(0); }
  Result<std::vector<proto::NodeEvicted>> Evict(const std::string& path) {
    return RunTask(context, census.Evict(snapshot, *snapshot->Resolve(path), roster, {},
                                         Deadline::After(std::chrono::seconds(30))));
  }

  const TempDir dir;
  const LinkSpec link = TestLink("a", "bucket", "p/");
  std::shared_ptr<const Snapshot> snapshot;
  std::vector<WalkedBlock> all;
  Roster roster;
  FakeNodes fakes;
  Offload offload{1, 100};
  asio::io_context context;
  CacheCensus census{[this](NodeInfo node, Method method, auto request, Deadline) {
                       return fakes.Call(std::move(node), method, std::move(request));
                     },
                     offload};
};

TEST_F(CacheCensusTest, CountsABlockOnceWhereverItIs) {
  for (std::size_t i = 0; i < all.size(); ++i) {
    fakes.held[i % 2 == 0 ? "n1" : "n2"].insert(all[i].id);
    fakes.held["n3"].insert(all[i].id);
  }
  const CacheTally tally = Count("");
  EXPECT_EQ(tally.objects, 5002u);
  EXPECT_EQ(tally.cached_objects, 5002u);
  EXPECT_EQ(tally.cached_blocks, all.size());
  EXPECT_EQ(tally.cached_bytes, tally.bytes);
  EXPECT_EQ(tally.unknown_blocks, 0u);
  EXPECT_LE(fakes.largest_batch, static_cast<std::size_t>(kMaxRepeatedFields));
}

TEST_F(CacheCensusTest, AnObjectIsCachedWhenAllItsBlocksAre) {
  for (const WalkedBlock& block : all) fakes.held["n1"].insert(block.id);
  fakes.held["n1"].erase(all[1].id);  // in the middle of "big"
  const CacheTally big = Count("big");
  EXPECT_EQ(big.cached_objects, 0u);
  EXPECT_EQ(big.cached_blocks, 2u);
  EXPECT_EQ(Count("").cached_objects, 5001u);
}

TEST_F(CacheCensusTest, WhatOnlyASilentNodeMayHoldIsUnknownNotAbsent) {
  std::set<BlockId> of_silent;
  for (const WalkedBlock& block : all) {
    const auto owners = roster.ring->OwnersOf(PartitionOf(block.id));
    if (roster.ring->nodes()[owners[0]].id == "n2") of_silent.insert(block.id);
  }
  ASSERT_FALSE(of_silent.empty());
  // Everything is cached where it belongs; n2 does not answer.
  for (const WalkedBlock& block : all) {
    if (!of_silent.contains(block.id)) fakes.held["n1"].insert(block.id);
  }
  Silence(1);
  const CacheCount count = CountAll("");
  EXPECT_EQ(count.tallies[0].unknown_blocks, of_silent.size());
  EXPECT_EQ(count.tallies[0].cached_blocks, all.size() - of_silent.size());
  ASSERT_EQ(count.unknown.size(), 1u);
  EXPECT_EQ(count.unknown[0].node_id(), "n2");
  EXPECT_EQ(count.unknown[0].blocks(), of_silent.size());
}

TEST_F(CacheCensusTest, ANodeThatDoesNotAnswerIsNamedWithItsReason) {
  for (const WalkedBlock& block : all) fakes.held["n1"].insert(block.id);
  fakes.dead.insert("n2");
  const CacheCount count = CountAll("");
  EXPECT_EQ(count.tallies[0].cached_blocks, all.size());
  EXPECT_EQ(count.tallies[0].unknown_blocks, 0u) << "another node has them all";
  ASSERT_EQ(count.unknown.size(), 1u);
  EXPECT_EQ(count.unknown[0].node_id(), "n2");
  EXPECT_EQ(count.unknown[0].reason(), "nobody there");
}

TEST_F(CacheCensusTest, WithOneNodeLeftNothingIsSaidToBeAbsentThatOthersMayHold) {
  Silence(0);
  Silence(0);
  const CacheTally tally = Count("");
  EXPECT_EQ(tally.cached_blocks, 0u);
  EXPECT_EQ(tally.unknown_blocks, all.size());
  EXPECT_EQ(tally.unknown_bytes, tally.bytes);
}

TEST_F(CacheCensusTest, VerifySumsWhatTheNodesFound) {
  fakes.corrupt = all[7].id;
  for (const WalkedBlock& block : all) fakes.held["n1"].insert(block.id);
  fakes.held["n3"].insert(all[7].id);
  const auto count = RunTask(context, census.Verify(snapshot, *snapshot->Resolve(""), roster,
                                                    Deadline::After(std::chrono::seconds(30))));
  ASSERT_TRUE(count.has_value());
  EXPECT_EQ(count->verified, all.size() - 1);
  EXPECT_EQ(count->corrupt, 2u);
}

TEST_F(CacheCensusTest, VerifyFailsWhereANodeDoesNotAnswer) {
  fakes.dead.insert("n3");
  const auto count = RunTask(context, census.Verify(snapshot, *snapshot->Resolve(""), roster,
                                                    Deadline::After(std::chrono::seconds(30))));
  ASSERT_FALSE(count.has_value());
  EXPECT_NE(count.error().message.find("n3"), std::string::npos);
}

TEST_F(CacheCensusTest, EvictNamesTheNodeThatWasNotAsked) {
  Silence(2);
  const auto evicted = Evict("");
  ASSERT_TRUE(evicted.has_value());
  ASSERT_EQ(evicted->size(), 3u);
  EXPECT_EQ((*evicted)[2].node_id(), "n3");
  EXPECT_NE((*evicted)[2].error().find("stay"), std::string::npos);
}

TEST_F(CacheCensusTest, EvictFreesTheTargetAndNothingElse) {
  for (const WalkedBlock& block : all) fakes.held["n1"].insert(block.id);
  fakes.held["n2"].insert(all[5].id);
  const auto evicted = Evict("s");
  ASSERT_TRUE(evicted.has_value());
  EXPECT_EQ((*evicted)[0].blocks(), 5000u);
  EXPECT_EQ((*evicted)[0].bytes(), 500'000u);
  EXPECT_EQ((*evicted)[1].blocks(), 1u);
  EXPECT_EQ((*evicted)[2].blocks(), 0u);
  EXPECT_EQ(Count("big").cached_blocks, 3u);
  EXPECT_EQ(Count("s").cached_blocks, 0u);
}

TEST_F(CacheCensusTest, EvictReportsTheNodeThatDidNotAnswer) {
  for (const WalkedBlock& block : all) fakes.held["n1"].insert(block.id);
  fakes.dead.insert("n3");
  const auto evicted = Evict("");
  ASSERT_TRUE(evicted.has_value());
  EXPECT_EQ((*evicted)[0].blocks(), all.size());
  EXPECT_EQ((*evicted)[0].error(), "");
  EXPECT_EQ((*evicted)[2].error(), "nobody there");
}

TEST_F(CacheCensusTest, AWholeLinkIsEvictedInOneCall) {
  for (const WalkedBlock& block : all) fakes.held["n1"].insert(block.id);
  const auto evicted = RunTask(
      context, census.EvictLink(link.id, roster, {}, Deadline::After(std::chrono::seconds(30))));
  EXPECT_EQ(evicted[0].blocks(), all.size());
  EXPECT_TRUE(fakes.held["n1"].empty());
}

}  // namespace
}  // namespace forebay
