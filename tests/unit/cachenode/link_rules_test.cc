#include "cachenode/link_rules.h"

#include <gtest/gtest.h>

namespace forebay {
namespace {

NodeInfo Node(const std::string& id, std::uint64_t capacity) {
  NodeInfo node;
  node.id = id;
  node.capacity_bytes = capacity;
  return node;
}

std::shared_ptr<const LinkSpec> LinkWith(std::uint64_t quota, std::vector<std::string> pins = {}) {
  auto link = std::make_shared<LinkSpec>();
  link->id = Uuid::Random();
  link->quota_bytes = quota;
  link->pins = std::move(pins);
  return link;
}

TEST(LinkRules, TheNodesPartsOfAQuotaAreNeverMoreThanTheQuota) {
  const std::vector<NodeInfo> nodes = {Node("a", 100), Node("b", 300), Node("c", 333)};
  const RingTable ring = RingTable::Next(RingTable(), nodes, 1000);
  const auto link = LinkWith(1'000'003);
  std::uint64_t sum = 0;
  for (const NodeInfo& node : nodes) sum += RulesOf({link}, ring, node.id, 1)[0].max_bytes;
  EXPECT_LE(sum, 1'000'003U);
  EXPECT_GE(sum, 1'000'003U - 3);
  EXPECT_EQ(RulesOf({link}, ring, "b", 1)[0].max_bytes, 1'000'003ULL * 300 / 733);
}

TEST(LinkRules, OneThatIsNotInTheRingCountsItselfIn) {
  const RingTable ring = RingTable::Next(RingTable(), {Node("a", 300)}, 1000);
  EXPECT_EQ(RulesOf({LinkWith(1000)}, ring, "new", 100)[0].max_bytes, 250U);
  EXPECT_EQ(RulesOf({LinkWith(1000)}, RingTable(), "first", 100)[0].max_bytes, 1000U);
}

TEST(LinkRules, WithoutAQuotaThereIsNoBoundAndPinsComeAsTheyAre) {
  const std::vector<LinkRule> rules = RulesOf({LinkWith(0, {"a/", "b"})}, RingTable(), "n", 1);
  EXPECT_EQ(rules[0].max_bytes, LinkRule::kNoQuota);
  EXPECT_EQ(rules[0].pins, (std::vector<std::string>{"a/", "b"}));
}

TEST(LinkRules, PrioritiesComeAsTheyAre) {
  auto link = std::make_shared<LinkSpec>();
  link->id = Uuid::Random();
  EXPECT_EQ(RulesOf({link}, RingTable(), "n", 1)[0].priority, LinkPriority::kNormal);
  link->priority = LinkPriority::kHigh;
  EXPECT_EQ(RulesOf({link}, RingTable(), "n", 1)[0].priority, LinkPriority::kHigh);
}

TEST(PinsCover, FoldersFilesAndWholeLinks) {
  EXPECT_TRUE(PinsCover({""}, "any/thing"));
  EXPECT_TRUE(PinsCover({"a/"}, "a/b/c"));
  EXPECT_FALSE(PinsCover({"a/"}, "ab"));
  EXPECT_TRUE(PinsCover({"a/b"}, "a/b"));
  EXPECT_FALSE(PinsCover({"a/b"}, "a/bc"));
  EXPECT_FALSE(PinsCover({}, "a"));
}

}  // namespace
}  // namespace forebay
