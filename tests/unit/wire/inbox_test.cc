#include "common/wire/inbox.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace forebay {
namespace {

void Receive(Inbox& inbox, std::size_t count, std::byte value) {
  const ByteSpan room = inbox.Room(inbox.size() + count);
  ASSERT_GE(room.size(), count);
  std::memset(room.data(), static_cast<int>(value), count);
  inbox.Came(count);
}

bool IsAll(const Slice& slice, std::byte value) {
  return std::ranges::all_of(slice.bytes, [value](std::byte b) { return b == value; });
}

TEST(Inbox, APayloadIsHandedOnWhereItLies) {
  Inbox inbox;
  Receive(inbox, 100 + 40'000, std::byte{7});
  inbox.Take(100);
  const std::byte* const where = inbox.data();
  const Slice lent = inbox.Lend(40'000);
  EXPECT_EQ(lent.bytes.data(), where);
  EXPECT_EQ(inbox.size(), 0u);
}

TEST(Inbox, WhatIsLentStaysAsItIsWhileMoreComes) {
  Inbox inbox;
  std::vector<Slice> lent;
  for (int i = 0; i < 50; ++i) {
    Receive(inbox, 40'000, static_cast<std::byte>(i));
    lent.push_back(inbox.Lend(40'000));
  }
  for (int i = 0; i < 50; ++i)
    EXPECT_TRUE(IsAll(lent[static_cast<std::size_t>(i)], static_cast<std::byte>(i))) << i;
}

TEST(Inbox, TheSameMemoryServesAllPayloadsThatAreLetGoOf) {
  Inbox inbox;
  std::set<const std::byte*> seen;
  for (int i = 0; i < 1000; ++i) {
    Receive(inbox, 40'000, std::byte{1});
    seen.insert(inbox.Lend(40'000).bytes.data());
  }
  EXPECT_EQ(seen.size(), 1u);
}

TEST(Inbox, MemoryComesBackToIt) {
  Inbox inbox;
  std::set<const std::byte*> seen;
  for (int round = 0; round < 100; ++round) {
    std::vector<Slice> lent;
    for (int i = 0; i < 6; ++i) {
      Receive(inbox, 40'000, std::byte{1});
      lent.push_back(inbox.Lend(40'000));
      seen.insert(lent.back().bytes.data());
    }
  }
  EXPECT_LE(seen.size(), 12u);
}

TEST(Inbox, ALongMessageCostsItsMemoryOnlyWhileItIsThere) {
  Inbox inbox;
  Receive(inbox, 1 << 20, std::byte{1});
  inbox.Take(1 << 20);
  EXPECT_LE(inbox.Room(10).size(), Inbox::kPieceBytes);
}

// Against a plain string, with sizes and lives at random; slices end on another thread, too.
TEST(Inbox, BytesComeOutAsTheyWentIn) {
  const auto seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  const auto below = [&random](std::size_t n) { return random() % n; };
  Inbox inbox;
  std::string model;
  std::vector<std::pair<Slice, std::string>> lent;
  std::uint8_t next = 0;
  for (int step = 0; step < 4000; ++step) {
    const std::size_t wanted = 1 + (below(20) == 0 ? below(300'000) : below(50'000));
    while (model.size() < wanted) {
      const ByteSpan room = inbox.Room(wanted);
      ASSERT_GE(inbox.size() + room.size(), wanted);
      const std::size_t came = 1 + below(room.size());
      for (std::size_t i = 0; i < came; ++i) {
        room[i] = static_cast<std::byte>(next);
        model.push_back(static_cast<char>(next++));
      }
      inbox.Came(came);
    }
    ASSERT_EQ(inbox.size(), model.size());
    ASSERT_EQ(std::memcmp(inbox.data(), model.data(), wanted), 0);
    if (Inbox::Lends(wanted)) {
      lent.emplace_back(inbox.Lend(wanted), model.substr(0, wanted));
    } else {
      inbox.Take(wanted);
    }
    model.erase(0, wanted);
    if (lent.size() > below(8)) {
      std::swap(lent.back(), lent[below(lent.size())]);
      auto [slice, bytes] = std::move(lent.back());
      lent.pop_back();
      ASSERT_EQ(std::memcmp(slice.bytes.data(), bytes.data(), bytes.size()), 0);
      if (below(10) == 0) std::jthread([gone = std::move(slice)] {}).join();
    }
  }
}

}  // namespace
}  // namespace forebay
