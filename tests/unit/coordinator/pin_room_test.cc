#include "coordinator/pin_room.h"

#include <gtest/gtest.h>

#include "common/model/limits.h"
#include "common/model/record_size.h"
#include "tests/unit/coordinator/testing.h"

namespace forebay {
namespace {

NodeInfo Node(const std::string& id) {
  NodeInfo node;
  node.id = id;
  node.address = id + ":1";
  node.capacity_bytes = 1 << 30;
  return node;
}

class PinRoomTest : public testing::Test {
 protected:
  Result<std::map<std::string, std::uint64_t>> Place(const RingTable& ring) {
    return PinnedDiskBytes({{snapshot, *snapshot->Resolve("")}}, ring);
  }

  const TempDir dir;
  const LinkSpec link = TestLink("a", "bucket", "p/");
  const std::shared_ptr<const Snapshot> snapshot = TestSnapshot(
      dir, link, {{"p/big", kDefaultBlockBytes * 2 + 5000}, {"p/empty", 0}, {"p/small", 10}});
};

TEST_F(PinRoomTest, CountsHeadersPaddingAndIndexRows) {
  const auto placed = Place(RingTable::Next(RingTable(), {Node("n1")}, 0));
  ASSERT_TRUE(placed.has_value());
  // docs/STORE_FORMAT.md: 4 MiB and 4 KiB, 8 KiB and 4 KiB.
  const std::uint64_t records = 2 * (kDefaultBlockBytes + 4096) + 8192 + 4096;
  EXPECT_EQ(placed->at("n1"), records + 4 * kIndexBytesPerBlock);
}

TEST_F(PinRoomTest, EachBlockCountsWhereTheRingPutsIt) {
  const RingTable ring = RingTable::Next(RingTable(), {Node("n1"), Node("n2"), Node("n3")}, 0);
  const auto placed = Place(ring);
  ASSERT_TRUE(placed.has_value());
  std::uint64_t sum = 0;
  for (const auto& [node, bytes] : *placed) sum += bytes;
  EXPECT_EQ(sum, Place(RingTable::Next(RingTable(), {Node("n1")}, 0))->at("n1"));
  // No node has all of it, so a node that could hold all is too much to ask of each.
  std::vector<NodeSpace> nodes;
  for (const auto& [node, bytes] : *placed) nodes.push_back({node, bytes});
  EXPECT_TRUE(CheckPinsFit(*placed, nodes).has_value());
}

TEST_F(PinRoomTest, EachCopyCountsAtTheNodeThatKeepsIt) {
  const RingTable ring = RingTable::Next(RingTable(), {Node("n1"), Node("n2"), Node("n3")}, 0);
  const auto sum = [&](std::uint32_t replicas) {
    const auto placed = PinnedDiskBytes({{snapshot, *snapshot->Resolve(""), replicas}}, ring);
    std::uint64_t bytes = 0;
    for (const auto& [node, there] : *placed) bytes += there;
    return bytes;
  };
  EXPECT_EQ(sum(2), 2 * sum(1));
  EXPECT_EQ(sum(3), 3 * sum(1));
  const auto all = PinnedDiskBytes({{snapshot, *snapshot->Resolve(""), 3}}, ring);
  EXPECT_EQ(all->at("n1"), sum(1)) << "every node has a copy of all";
}

TEST_F(PinRoomTest, OneNodeThatIsTooSmallRefusesThePinThoughAllTogetherAreLargeEnough) {
  const Status refused =
      CheckPinsFit({{"n1", 3 << 20}, {"n2", 1 << 20}}, {{"n1", 2 << 20}, {"n2", 64 << 20}});
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code, Code::kInvalid);
  EXPECT_EQ(refused.error().message,
            "with it pins would take 3.00 MiB on the disks of node n1, which has 2.00 MiB for "
            "blocks; nothing was pinned");
}

TEST_F(PinRoomTest, WithoutANodeNothingFits) {
  const auto placed = Place(RingTable());
  ASSERT_TRUE(placed.has_value());
  EXPECT_EQ(CheckPinsFit(*placed, {}).error().code, Code::kInvalid);
  EXPECT_TRUE(CheckPinsFit({}, {}).has_value());
}

}  // namespace
}  // namespace forebay
