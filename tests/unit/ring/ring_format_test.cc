#include <gtest/gtest.h>
#include <xxhash.h>

#include <algorithm>
#include <random>
#include <string>

#include "common/ring/ring.h"
#include "tests/unit/ring/ring_cluster.h"

namespace forebay {
namespace {

RingTable TableWithHistory() {
  RingTable table = RingTable::Next(RingTable(), WeightedMembers(5), kNow);
  auto members = WeightedMembers(6);
  members[1].local_socket = "/run/forebay/node.sock";
  members[1].host_id = "0123456789abcdef";
  members[1].zone = "rack-7";
  members[2].state = NodeState::kDraining;
  return RingTable::Next(table, members, kNow + 10);
}

// Puts the right checksum under changed bytes.
void Reseal(std::string& bytes) {
  const std::uint64_t checksum = XXH3_64bits(bytes.data(), bytes.size() - 8);
  for (std::size_t i = 0; i < 8; ++i) {
    bytes[bytes.size() - 8 + i] =
        static_cast<char>(static_cast<unsigned char>(checksum >> (8 * i)));
  }
}

void ExpectSame(const RingTable& a, const RingTable& b) {
  ASSERT_EQ(a.epoch(), b.epoch());
  ASSERT_EQ(a.nodes(), b.nodes());
  for (std::uint32_t p = 0; p < kPartitions; ++p) {
    ASSERT_TRUE(std::ranges::equal(a.OwnersOf(p), b.OwnersOf(p))) << p;
    ASSERT_TRUE(std::ranges::equal(a.PreviousOwnersOf(p), b.PreviousOwnersOf(p))) << p;
  }
}

TEST(RingFormat, GivesBackWhatWasWritten) {
  for (const RingTable& table :
       {RingTable(), RingTable::Next(RingTable(), {}, kNow),
        RingTable::Next(RingTable(), Members(1), kNow), TableWithHistory()}) {
    const std::string bytes = table.Serialize();
    const auto parsed = RingTable::Parse(bytes);
    ASSERT_TRUE(parsed.has_value()) << parsed.error().message;
    ExpectSame(table, *parsed);
    EXPECT_EQ(parsed->Serialize(), bytes);
  }
}

// Few nodes of unequal capacity: the one that a partition lacks may have no seat left in its rank.
TEST(RingFormat, IsReadableHoweverFewAndUnequalTheNodesThatAreLeft) {
  std::mt19937 random(7);
  for (int history = 0; history < 8; ++history) {
    RingTable table = RingTable::Next(RingTable(), WeightedMembers(4), kNow);
    for (int step = 1; step <= 6; ++step) {
      auto members = WeightedMembers(4);
      std::ranges::shuffle(members, random);
      members.resize(1 + random() % 4);
      if (members.size() > 1 && random() % 3 == 0) members[0].state = NodeState::kDraining;
      table = RingTable::Next(table, members, kNow + step);
      const auto owning = static_cast<std::size_t>(std::ranges::count_if(
          members, [](const NodeInfo& node) { return node.state != NodeState::kDraining; }));
      for (std::uint32_t p = 0; p < kPartitions; ++p)
        ASSERT_EQ(table.OwnersOf(p).size(), std::min(owning, kOwnersPerPartition)) << p;
      const auto parsed = RingTable::Parse(table.Serialize());
      ASSERT_TRUE(parsed.has_value()) << parsed.error().message;
    }
  }
}

TEST(RingFormat, FitsIntoOnePayloadEvenWithAFullMemory) {
  RingTable table = RingTable::Next(RingTable(), Members(10), kNow);
  for (int round = 1; round < 6; ++round) {
    auto members = Members(10 + 2 * round);
    members.erase(members.begin(), members.begin() + round);
    table = RingTable::Next(table, members, kNow + round);
  }
  EXPECT_LT(table.Serialize().size(), kMaxPayloadBytes / 2);
}

TEST(RingFormat, EveryTruncationIsCorrupt) {
  const std::string small = RingTable().Serialize();
  for (std::size_t size = 0; size < small.size(); ++size) {
    const auto parsed = RingTable::Parse(std::string_view(small).substr(0, size));
    ASSERT_FALSE(parsed.has_value()) << size;
    ASSERT_EQ(parsed.error().code, Code::kCorrupt) << size;
  }
  const std::string large = TableWithHistory().Serialize();
  for (std::size_t cut = 1; cut < large.size(); cut = cut * 3 + 1) {
    const auto parsed = RingTable::Parse(std::string_view(large).substr(0, large.size() - cut));
    ASSERT_FALSE(parsed.has_value()) << cut;
    ASSERT_EQ(parsed.error().code, Code::kCorrupt) << cut;
  }
  EXPECT_FALSE(RingTable::Parse(large + '\0').has_value());
}

TEST(RingFormat, EveryFlippedByteIsCorrupt) {
  std::string small = RingTable().Serialize();
  for (std::size_t at = 0; at < small.size(); ++at) {
    small[at] = static_cast<char>(small[at] ^ 0x40);
    const auto parsed = RingTable::Parse(small);
    ASSERT_FALSE(parsed.has_value()) << at;
    ASSERT_EQ(parsed.error().code, Code::kCorrupt) << at;
    small[at] = static_cast<char>(small[at] ^ 0x40);
  }
  // The large table costs half a megabyte of checksum a try: each byte of the head, then samples.
  const std::uint64_t seed = std::random_device{}();
  SCOPED_TRACE(seed);
  std::mt19937_64 random(seed);
  std::string large = TableWithHistory().Serialize();
  for (std::size_t i = 0; i < 2000; ++i) {
    const std::size_t at = i < 600 ? i : random() % large.size();
    const auto flip = static_cast<char>(1U << (random() % 8));
    large[at] = static_cast<char>(large[at] ^ flip);
    ASSERT_FALSE(RingTable::Parse(large).has_value()) << at;
    large[at] = static_cast<char>(large[at] ^ flip);
  }
  EXPECT_TRUE(RingTable::Parse(large).has_value());
}

TEST(RingFormat, ATableOfANewerReleaseIsRefusedByName) {
  std::string newer = RingTable().Serialize();
  newer[8] = 2;  // behind the magic
  Reseal(newer);
  const auto parsed = RingTable::Parse(newer);
  ASSERT_FALSE(parsed.has_value());
  EXPECT_NE(parsed.error().message.find("has a format of another release"), std::string::npos)
      << parsed.error().message;
}

// Such a table would be written as something that cannot be read.
TEST(RingFormat, DeparturesAreInOrderAndEachIsRemembered) {
  const std::string good = RingTable::Next(RingTable(), Members(2), kNow).Serialize();
  const std::string head = good.substr(0, good.size() - 8 - 4);  // no departures, a checksum
  const auto departure = [](char name) {
    return std::string("\1\0", 2) + name + std::string(16, 1);
  };
  const auto accepts = [&](const std::string& departures, const std::string& row) {
    std::string table = head + static_cast<char>(departures.size() / 19) + std::string(3, '\0');
    table += departures;
    for (std::uint32_t p = 0; p < kPartitions; ++p) table += row;
    table += std::string(8, '\0');
    Reseal(table);
    const auto parsed = RingTable::Parse(table);
    return parsed && parsed->Serialize() == table;
  };
  const std::string both("\2\0\0\0\0\1\0\0\0", 9);
  EXPECT_TRUE(accepts(departure('a') + departure('b'), both));
  EXPECT_FALSE(accepts(departure('b') + departure('a'), both));
  EXPECT_FALSE(accepts(departure('a') + departure('a'), both));
  EXPECT_FALSE(accepts(departure('a') + departure('b'), std::string("\1\0\0\0\0", 5)));
  EXPECT_FALSE(accepts(departure('a'), std::string(1, '\0')));
}

TEST(RingFormat, ARightChecksumDoesNotExcuseAWrongTable) {
  // The wire and the disk are not trusted to have been written by this program.
  const std::string good = RingTable::Next(RingTable(), Members(2), kNow).Serialize();
  std::size_t accepted = 0;
  const std::size_t owners = good.find(std::string("\0\0\1\0\xFF\xFF", 6));
  ASSERT_NE(owners, std::string::npos);
  for (const std::string& row :
       {std::string("\0\0\0\0\xFF\xFF", 6), std::string("\xFF\xFF\0\0\1\0", 6),
        std::string("\0\0\2\0\xFF\xFF", 6), std::string("\0\0\xFF\xFF\1\0", 6),
        std::string("\xFF\xFF\xFF\xFF\xFF\xFF", 6)}) {
    std::string bad = good;
    bad.replace(owners, row.size(), row);
    Reseal(bad);
    if (RingTable::Parse(bad).has_value()) ++accepted;
  }
  EXPECT_EQ(accepted, 0u);
  std::string many_nodes = good;
  many_nodes.replace(20, 4, "\xFF\xFF\xFF\x7F");
  Reseal(many_nodes);
  EXPECT_FALSE(RingTable::Parse(many_nodes).has_value());
  std::string same = good;
  Reseal(same);
  EXPECT_EQ(same, good);
}

}  // namespace
}  // namespace forebay
