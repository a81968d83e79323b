// Owners in several zones: spread where shares allow, stable, and nothing of it without zones.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "common/ring/ring.h"
#include "tests/unit/ring/ring_cluster.h"

namespace forebay {
namespace {

/// `count` members, dealt to zones in turn.
std::vector<NodeInfo> Zoned(int count, int zones) {
  std::vector<NodeInfo> members = Members(count);
  for (int i = 0; i < count; ++i)
    members[static_cast<std::size_t>(i)].zone = "zone-" + std::to_string(i % zones);
  return members;
}

std::size_t ZonesOf(const RingTable& table, std::uint32_t partition, std::size_t owners) {
  std::set<std::string> zones;
  for (const std::uint16_t owner : table.OwnersOf(partition).first(owners))
    zones.insert(table.nodes()[owner].zone);
  return zones.size();
}

/// Of the partitions, those whose first `owners` owners lie in `zones` zones.
double ShareIn(const RingTable& table, std::size_t owners, std::size_t zones) {
  std::uint32_t found = 0;
  for (std::uint32_t p = 0; p < kPartitions; ++p)
    if (ZonesOf(table, p, owners) == zones) ++found;
  return static_cast<double>(found) / kPartitions;
}

std::uint32_t Differing(const RingTable& a, const RingTable& b) {
  std::uint32_t differing = 0;
  for (std::uint32_t p = 0; p < kPartitions; ++p) {
    std::vector<std::string> of_a;
    std::vector<std::string> of_b;
    for (const std::uint16_t owner : a.OwnersOf(p)) of_a.push_back(a.nodes()[owner].id);
    for (const std::uint16_t owner : b.OwnersOf(p)) of_b.push_back(b.nodes()[owner].id);
    if (of_a != of_b) ++differing;
  }
  return differing;
}

TEST(Zones, OneZoneForAllPlacesAsNoZones) {
  const RingTable without = RingTable::Next(RingTable(), Members(7), kNow);
  const RingTable with = RingTable::Next(RingTable(), Zoned(7, 1), kNow);
  EXPECT_EQ(Differing(without, with), 0u);
  EXPECT_EQ(Differing(RingTable::Next(without, Members(8), kNow),
                      RingTable::Next(with, Zoned(8, 1), kNow)),
            0u);
}

TEST(Zones, TheOwnersOfEachPartitionLieInAsManyZonesAsThereAre) {
  for (const int nodes : {4, 6, 30}) {
    const RingTable two = RingTable::Next(RingTable(), Zoned(nodes, 2), kNow);
    EXPECT_GT(ShareIn(two, 2, 2), 0.99) << nodes;
    EXPECT_LE(MaxToMean(two), 1.01) << nodes;
  }
  const RingTable three = RingTable::Next(RingTable(), Zoned(30, 3), kNow);
  EXPECT_GT(ShareIn(three, 3, 3), 0.95);
}

TEST(Zones, ASmallZoneTakesNoMoreThanItsShare) {
  std::vector<NodeInfo> members = Zoned(5, 1);
  members[4].zone = "small";
  const RingTable table = RingTable::Next(RingTable(), members, kNow);
  const auto seconds = Holdings(table, 1, 1);
  EXPECT_LE(seconds[4], kPartitions / 5 * 1.06);
  EXPECT_GT(ShareIn(table, 2, 2), 0.35) << "its own partitions, and those that it is second of";
}

TEST(Zones, TheSameMembersMoveNothing) {
  std::vector<NodeInfo> members = Zoned(9, 2);
  const RingTable first = RingTable::Next(RingTable(), members, kNow);
  EXPECT_EQ(Differing(first, RingTable::Next(first, members, kNow)), 0u);
}

TEST(Zones, FirstOwnersStayWhenZonesAreTold) {
  const RingTable before = RingTable::Next(RingTable(), Members(6), kNow);
  const RingTable after = RingTable::Next(before, Zoned(6, 2), kNow);
  for (std::uint32_t p = 0; p < kPartitions; ++p)
    ASSERT_EQ(before.OwnersOf(p)[0], after.OwnersOf(p)[0]) << p;
  EXPECT_GT(ShareIn(after, 2, 2), 0.99);
}

TEST(Zones, ALostZoneLeavesACopyOfEveryPartition) {
  std::vector<NodeInfo> members = Zoned(6, 2);
  const RingTable before = RingTable::Next(RingTable(), members, kNow);
  std::erase_if(members, [](const NodeInfo& node) { return node.zone == "zone-1"; });
  const RingTable after = RingTable::Next(before, members, kNow);
  std::uint32_t kept = 0;
  for (std::uint32_t p = 0; p < kPartitions; ++p) {
    const std::string& first = after.nodes()[after.OwnersOf(p)[0]].id;
    for (const std::uint16_t owner : before.OwnersOf(p).first(2))
      if (before.nodes()[owner].id == first) ++kept;
  }
  EXPECT_GT(kept, kPartitions * 0.97) << "who held a copy is the first owner";
}

}  // namespace
}  // namespace forebay
