#include "fuse-client/link_sizes.h"

#include <gtest/gtest.h>

#include <map>
#include <string>

#include "common/snapshot/snapshot.h"
#include "tests/fakes/sample_link.h"
#include "tests/fakes/temp_dir.h"

namespace forebay {
namespace {

constexpr std::uint64_t kBlock = 256ULL * 1024;
constexpr std::uint64_t kLarge = LinkSizes::kLargeObject;

LinkSizes Of(const std::map<std::string, std::uint64_t>& objects) {
  const fakes::TempDir dir;
  fakes::SampleLink link("sample", objects, kBlock);
  link.BuildSnapshot(dir / "s.fbs");
  return SizesOf(*link.OpenSnapshot(dir / "s.fbs"));
}

TEST(LinkSizes, CountsBlocksAndBytes) {
  const LinkSizes sizes =
      Of({{"d/big", 10 * kBlock + 77}, {"d/small", 40'000}, {"empty", 0}, {"huge", kLarge}});
  EXPECT_EQ(sizes.blocks, 12U + kLarge / kBlock);
  EXPECT_EQ(sizes.bytes, 10 * kBlock + 77 + 40'000 + kLarge);
  EXPECT_EQ(sizes.large_bytes, kLarge);
}

TEST(LinkSizes, HalfOfTheBytesInLargeObjectsMakesALinkLarge) {
  EXPECT_TRUE(Of({{"shard", kLarge}, {"a", kLarge / 2}, {"b", kLarge / 2}}).MostlyLarge());
  EXPECT_FALSE(Of({{"shard", kLarge}, {"a", kLarge / 2}, {"b", kLarge / 2 + 1}}).MostlyLarge());
  EXPECT_FALSE(Of({{"nearly", kLarge - 1}}).MostlyLarge());
  EXPECT_FALSE(Of({{"empty", 0}}).MostlyLarge());
  EXPECT_FALSE(Of({}).MostlyLarge());
}

}  // namespace
}  // namespace forebay
