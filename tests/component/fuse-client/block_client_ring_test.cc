// A client whose ring is older than its nodes'.
#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "tests/component/fuse-client/block_client_fixture.h"

namespace forebay {
namespace {

using fakes::FakeNode;

TEST_F(BlockClientTest, ANewerEpochIsFetchedFromTheNodeThatHasIt) {
  const BlockRequest request = RequestFor({0, 4096});
  const auto newcomer = std::make_unique<FakeNode>("n4", kTestSecret);
  std::vector<NodeInfo> members = table_.nodes();
  members.push_back(newcomer->Info());
  const RingTable next = RingTable::Next(table_, members, 1'700'000'001);
  for (const auto& [id, node] : nodes_) node->SetRing(next);
  ExpectRight(request, Read(request));
  EXPECT_TRUE(Eventually([&] { return ring_.epoch() == next.epoch(); }));
  EXPECT_NE(ring_.table()->Find("n4"), nullptr);
}

// FAULTS: "at most one extra round trip", which no read waits for.
TEST_F(BlockClientTest, AStaleRingCostsOneQuestionAndNoFurtherRead) {
  nodes_["n4"] = std::make_unique<FakeNode>("n4", kTestSecret);
  std::vector<NodeInfo> members = table_.nodes();
  members.push_back(nodes_["n4"]->Info());
  const RingTable next = RingTable::Next(table_, members, 1'700'000'001);
  const auto is_new_owner = [&](const BlockRequest& request) {
    return next.nodes()[next.OwnersOf(PartitionOf(request.block))[0]].id == "n4";
  };
  std::uint32_t number = 0;
  while (!is_new_owner(RequestFor({0, 4096}, number))) ++number;
  const BlockRequest request = RequestFor({0, 4096}, number);
  const auto asked = [&] {
    std::pair<std::uint64_t, std::uint64_t> sum;
    for (const auto& [id, node] : nodes_) {
      sum.first += node->reads();
      sum.second += node->ring_questions();
    }
    return sum;
  };
  const auto before = asked();
  for (const auto& [id, node] : nodes_) node->SetRing(next);
  ExpectRight(request, Read(request));
  EXPECT_EQ(OwnersOf(request)[0]->reads(), 1U) << "the owner of the stale table has the bytes";
  EXPECT_TRUE(Eventually([&] { return ring_.epoch() == next.epoch(); }));
  EXPECT_EQ(asked(), std::pair(before.first + 1, before.second + 1));
  // The table is known: its owner is asked, and nobody else anything.
  ExpectRight(request, Read(request));
  EXPECT_EQ(nodes_["n4"]->reads(), 1U);
  EXPECT_EQ(asked(), std::pair(before.first + 2, before.second + 1));
}

}  // namespace
}  // namespace forebay
