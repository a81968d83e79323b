#include "coordinator/block_walk.h"

#include <gtest/gtest.h>

#include <set>

#include "common/model/limits.h"
#include "tests/unit/coordinator/testing.h"

namespace forebay {
namespace {

class BlockWalkTest : public testing::Test {
 protected:
  std::vector<WalkedBlock> Walk(std::vector<std::string> paths, std::size_t step) {
    std::vector<SnapshotRow> roots;
    roots.reserve(paths.size());
    for (const std::string& path : paths) roots.push_back(*snapshot->Resolve(path));
    BlockWalk walk(snapshot, roots);
    std::vector<WalkedBlock> all;
    for (;;) {
      Result<std::vector<WalkedBlock>> blocks = walk.Next(step);
      EXPECT_TRUE(blocks.has_value());
      EXPECT_LE(blocks->size(), step);
      if (blocks->empty()) break;
      all.insert(all.end(), blocks->begin(), blocks->end());
    }
    tallies = walk.tallies();
    return all;
  }

  const TempDir dir;
  const LinkSpec link = TestLink("a", "bucket", "p/");
  // Two and a half blocks, exactly one, empty, small.
  const std::shared_ptr<const Snapshot> snapshot =
      TestSnapshot(dir, link,
                   {{"p/big", kDefaultBlockBytes * 5 / 2},
                    {"p/d/e/one", kDefaultBlockBytes},
                    {"p/d/empty", 0},
                    {"p/d/small", 10},
                    {"p/z", 1}});
  std::vector<CacheTally> tallies;
};

TEST_F(BlockWalkTest, CutsEveryObjectOnceWhateverTheStep) {
  for (const std::size_t step : {1u, 2u, 3u, 100u}) {
    const std::vector<WalkedBlock> blocks = Walk({""}, step);
    std::set<BlockId> distinct;
    std::uint64_t bytes = 0;
    std::size_t ends = 0;
    for (const WalkedBlock& block : blocks) {
      distinct.insert(block.id);
      bytes += block.id.length;
      if (block.ends_object) ++ends;
    }
    EXPECT_EQ(blocks.size(), 6u);
    EXPECT_EQ(distinct.size(), 6u);
    EXPECT_EQ(ends, 4u);
    EXPECT_EQ(bytes, kDefaultBlockBytes * 7 / 2 + 11);
    EXPECT_EQ(tallies[0].objects, 5u);
    EXPECT_EQ(tallies[0].bytes, bytes);
    EXPECT_EQ(tallies[0].blocks, 6u);
    EXPECT_EQ(tallies[0].cached_objects, 1u) << "the empty one";
  }
}

TEST_F(BlockWalkTest, TakesOnlyWhatLiesBelowARoot) {
  const std::vector<WalkedBlock> blocks = Walk({"d", "z", "d/e/one"}, 2);
  EXPECT_EQ(blocks.size(), 4u);
  EXPECT_EQ(tallies[0].objects, 3u);
  EXPECT_EQ(tallies[0].bytes, kDefaultBlockBytes + 10);
  EXPECT_EQ(tallies[1].bytes, 1u);
  EXPECT_EQ(tallies[2].blocks, 1u);
}

TEST_F(BlockWalkTest, NamesTheBlocksThatReadersAskFor) {
  const std::vector<WalkedBlock> blocks = Walk({"z"}, 10);
  ASSERT_EQ(blocks.size(), 1u);
  const ObjectVersion version = VersionOf(link, "p/z", "d41d8cd98f00b204e9800998ecf8427e", 1);
  EXPECT_EQ(blocks[0].id, BlockAt(version, 1, kDefaultBlockBytes, 0));
}

}  // namespace
}  // namespace forebay
