#include "coordinator/cache_census.h"

#include <gtest/gtest.h>

#include <set>

#include "common/model/limits.h"
#include "common/wire/messages.h"
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
      nodes.push_back(node);
    }
  }

  Result<std::vector<CacheTally>> Count(const std::string& path) {
    return RunTask(context, census.Count(snapshot, {*snapshot->Resolve(path)}, nodes,
                                         Deadline::After(std::chrono::seconds(30))));
  }
  Result<std::vector<proto::NodeEvicted>> Evict(const std::string& path) {
    return RunTask(context, census.Evict(snapshot, *snapshot->Resolve(path), nodes,
                                         Deadline::After(std::chrono::seconds(30))));
  }

  const TempDir dir;
  const LinkSpec link = TestLink("a", "bucket", "p/");
  std::shared_ptr<const Snapshot> snapshot;
  std::vector<WalkedBlock> all;
  std::vector<NodeInfo> nodes;
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
  const auto tallies = Count("");
  ASSERT_TRUE(tallies.has_value());
  EXPECT_EQ(tallies->front().objects, 5002u);
  EXPECT_EQ(tallies->front().cached_objects, 5002u);
  EXPECT_EQ(tallies->front().cached_blocks, all.size());
  EXPECT_EQ(tallies->front().cached_bytes, tallies->front().bytes);
  EXPECT_LE(fakes.largest_batch, static_cast<std::size_t>(kMaxRepeatedFields));
}

TEST_F(CacheCensusTest, AnObjectIsCachedWhenAllItsBlocksAre) {
  for (const WalkedBlock& block : all) fakes.held["n1"].insert(block.id);
  fakes.held["n1"].erase(all[1].id);  // in the middle of "big"
  const auto big = Count("big");
  EXPECT_EQ(big->front().cached_objects, 0u);
  EXPECT_EQ(big->front().cached_blocks, 2u);
  EXPECT_EQ(Count("")->front().cached_objects, 5001u);
}

TEST_F(CacheCensusTest, ASilentNodeIsAnErrorNotAnEmptyCache) {
  fakes.dead.insert("n2");
  const auto tallies = Count("");
  ASSERT_FALSE(tallies.has_value());
  EXPECT_EQ(tallies.error().code, Code::kUnavailable);
  EXPECT_NE(tallies.error().message.find("n2"), std::string::npos);
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
  EXPECT_EQ(Count("big")->front().cached_blocks, 3u);
  EXPECT_EQ(Count("s")->front().cached_blocks, 0u);
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
  const auto evicted =
      RunTask(context, census.EvictLink(link.id, nodes, Deadline::After(std::chrono::seconds(30))));
  EXPECT_EQ(evicted[0].blocks(), all.size());
  EXPECT_TRUE(fakes.held["n1"].empty());
}

}  // namespace
}  // namespace forebay
