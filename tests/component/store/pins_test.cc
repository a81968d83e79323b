#include <gmock/gmock.h>

#include <fstream>
#include <tuple>

#include "cachenode/store/segment_format.h"
#include "tests/component/store/store_fixture.h"

namespace forebay {
namespace {

using namespace std::chrono_literals;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

constexpr std::uint32_t kLength = 1 << 20;

LinkRule Pinned(std::uint8_t link, std::vector<std::string> pins) {
  return {.link = LinkNumber(link), .pins = std::move(pins)};
}
LinkRule Quota(std::uint8_t link, std::uint64_t bytes) {
  return {.link = LinkNumber(link), .max_bytes = bytes};
}

/// A cache of some 14 blocks of 1 MiB, in which every link is idle at once.
class StorePinsTest : public ::testing::Test {
 protected:
  BlockStoreOptions Options(std::vector<LinkRule> rules = {}) {
    BlockStoreOptions options = OneDirectory(dir_ / "cache", 16ULL << 20, 4ULL << 20);
    options.link_in_use_for = 0s;
    options.rules = std::move(rules);
    options.hour = [this] { return hour_; };
    return options;
  }
  static BlockId Block(std::uint64_t number) { return BlockNumber(number, kLength); }
  /// Admits so many blocks of a link that nothing idle stays.
  static void Press(TestStore& store, std::uint8_t link, std::uint64_t first) {
    for (std::uint64_t i = 0; i < 40; ++i) {
      const Status status = store.Admit(LinkNumber(link), Block(first + i));
      if (!status) {
        EXPECT_EQ(status.error().code, Code::kOverloaded) << status.error().message;
      }
    }
  }

  fakes::TempDir dir_;
  std::uint32_t hour_ = 490'000;
};

// What the coordinator promises when it takes a pin.
TEST_F(StorePinsTest, PinsOfAllTheUsableBytesFit) {
  for (const std::uint32_t length : {100U, 5000U, 1U << 20, 4U << 20}) {
    fakes::TempDir dir;
    BlockStoreOptions options = OneDirectory(dir / "cache", 64ULL << 20, 8ULL << 20);
    options.link_in_use_for = 0s;
    options.rules = {Pinned(1, {"a/"})};
    TestStore store(options);
    const std::uint64_t usable = store->Disks().front().usable_bytes;
    EXPECT_GT(usable, 60ULL << 20);
    // Others' blocks are in the way, and give way.
    for (std::uint64_t i = 0; i < 70; ++i) std::ignore = store.Admit(LinkNumber(2), Block(i));
    const std::uint64_t count = usable / BlockDiskBytes(length);
    for (std::uint64_t i = 0; i < count; ++i) {
      const Status admitted = store.Admit(LinkNumber(1), BlockNumber(1000 + i, length), "a/f");
      ASSERT_TRUE(admitted.has_value())
          << i << " of " << count << " blocks of " << length << ": " << admitted.error().message;
    }
    EXPECT_EQ(store->UsageByLink()[LinkNumber(1)].blocks, count);
    EXPECT_FALSE(store->UsageByLink()[LinkNumber(2)].in_use);
    // It does not promise less than there is by much either.
    EXPECT_LE(usable, store->Disks().front().capacity_bytes);
    EXPECT_GE(count * BlockDiskBytes(length) + BlockDiskBytes(length), usable);
  }
}

TEST_F(StorePinsTest, PinnedBlocksSurvivePressureAndARestartWithoutACoordinator) {
  const std::vector<LinkRule> rules = {Pinned(1, {"a/"})};
  {
    TestStore store(Options(rules));
    for (std::uint64_t i = 0; i < 3; ++i)
      ASSERT_TRUE(store.Admit(LinkNumber(1), Block(i), "a/f").has_value());
    for (std::uint64_t i = 3; i < 6; ++i)
      ASSERT_TRUE(store.Admit(LinkNumber(1), Block(i), "b/f").has_value());
    Press(store, 2, 1000);
    for (std::uint64_t i = 0; i < 6; ++i) EXPECT_EQ(store->Contains(Block(i)), i < 3) << i;
    EXPECT_EQ(store->UsageByLink()[LinkNumber(1)].pinned_bytes, 3ULL * kLength);
    ASSERT_TRUE(store->Close(Patience()).has_value());
  }
  // Even without the rules: what is pinned is the store's own knowledge.
  TestStore store(Options());
  EXPECT_EQ(store->UsageByLink()[LinkNumber(1)].pinned_bytes, 3ULL * kLength);
  Press(store, 3, 2000);
  for (std::uint64_t i = 0; i < 3; ++i) EXPECT_TRUE(store.Serves(Block(i)));
}

TEST_F(StorePinsTest, ATakeOverPinsWhatIsHereAndUnpinsWhatIsNotNamed) {
  TestStore store(Options());
  for (std::uint64_t i = 0; i < 4; ++i) ASSERT_TRUE(store.Admit(LinkNumber(1), Block(i)));
  ASSERT_TRUE(store.TakePins(LinkNumber(1), 7, {Block(0), Block(1), Block(99)}).has_value());
  EXPECT_EQ(store->PinsVersions()[LinkNumber(1)], 7U);
  ASSERT_TRUE(store.TakePins(LinkNumber(1), 8, {Block(1), Block(2)}).has_value());
  EXPECT_EQ(store->UsageByLink()[LinkNumber(1)].pinned_bytes, 2ULL * kLength);
  Press(store, 2, 1000);
  for (std::uint64_t i = 0; i < 4; ++i) EXPECT_EQ(store->Contains(Block(i)), i == 1 || i == 2) << i;
  ASSERT_TRUE(store.TakePins(LinkNumber(1), 9, {}).has_value());
  EXPECT_EQ(store->UsageByLink()[LinkNumber(1)].pinned_bytes, 0U);
  Press(store, 3, 2000);
  EXPECT_FALSE(store->UsageByLink().contains(LinkNumber(1)))
      << "what was unpinned goes like others";
}

TEST_F(StorePinsTest, AnInterruptedTakeOverChangesTheVersionOfNothing) {
  TestStore store(Options());
  ASSERT_TRUE(store.Admit(LinkNumber(1), Block(0)).has_value());
  ASSERT_TRUE(store.TakePins(LinkNumber(1), 7, {Block(0)}).has_value());
  PinStep first{.link = LinkNumber(1), .sync = 100, .begin = true};
  ASSERT_TRUE(store.TakePins(first).has_value());
  // Another one begins: the first cannot go on.
  PinStep other{.link = LinkNumber(1), .sync = 200, .begin = true, .blocks = {Block(0)}};
  ASSERT_TRUE(store.TakePins(other).has_value());
  first.begin = false;
  first.end = true;
  first.version = 8;
  EXPECT_EQ(store.TakePins(first).error().code, Code::kStale);
  EXPECT_EQ(store->PinsVersions()[LinkNumber(1)], 7U);
  other.begin = false;
  other.end = true;
  other.version = 9;
  ASSERT_TRUE(store.TakePins(other).has_value());
  EXPECT_EQ(store->UsageByLink()[LinkNumber(1)].pinned_bytes, kLength);
}

TEST_F(StorePinsTest, AnIndexMadeAnewHasNoPinsAndSaysSo) {
  {
    TestStore store(Options());
    ASSERT_TRUE(store.Admit(LinkNumber(1), Block(0)).has_value());
    ASSERT_TRUE(store.TakePins(LinkNumber(1), 7, {Block(0)}).has_value());
    ASSERT_TRUE(store->Close(Patience()).has_value());
  }
  std::filesystem::remove_all(dir_ / "cache" + "/index");
  TestStore store(Options());
  EXPECT_TRUE(store.Serves(Block(0)));
  EXPECT_FALSE(store->PinsVersions().contains(LinkNumber(1)));
}

TEST_F(StorePinsTest, EvictSparesWhatIsPinnedAndCountsIt) {
  TestStore store(Options({Pinned(1, {"a/"}), Pinned(2, {""})}));
  ASSERT_TRUE(store.Admit(LinkNumber(1), Block(0), "a/f").has_value());
  ASSERT_TRUE(store.Admit(LinkNumber(1), Block(1), "b/f").has_value());
  ASSERT_TRUE(store.Admit(LinkNumber(2), Block(2), "x").has_value());
  const Result<Evicted> dry = store.EvictLink(LinkNumber(1), {.dry_run = true});
  EXPECT_EQ(dry->blocks, 1U);
  EXPECT_EQ(dry->bytes, RecordDiskBytes(kLength));
  EXPECT_EQ(store->BlockCount(), 3U);
  const Result<Evicted> evicted = store.Evict({Block(0), Block(1), Block(2)});
  EXPECT_EQ(evicted->blocks, 1U);
  EXPECT_EQ(evicted->pinned_blocks, 2U);
  EXPECT_EQ(store.EvictLink(LinkNumber(2))->pinned_blocks, 1U);
  EXPECT_TRUE(store.Serves(Block(0)));
  EXPECT_TRUE(store.Serves(Block(2)));
}

TEST_F(StorePinsTest, APinnedNewcomerIsKeptInAFullCacheOfLinksInUse) {
  BlockStoreOptions options = Options({Pinned(1, {"a/"})});
  options.link_in_use_for = 3600s;
  TestStore store(options);
  Press(store, 2, 1000);
  EXPECT_FALSE(store.Admit(LinkNumber(1), Block(0), "b/f").has_value());
  EXPECT_TRUE(store.Admit(LinkNumber(1), Block(1), "a/f").has_value());
  EXPECT_TRUE(store.Serves(Block(1)));
}

TEST_F(StorePinsTest, AQuotaHoldsToTheBlockAndReplacesNothingForABlockThatNoJobReads) {
  TestStore store(Options({Quota(1, 3ULL * kLength)}));
  for (std::uint64_t i = 0; i < 3; ++i) ASSERT_TRUE(store.Admit(LinkNumber(1), Block(i)));
  const Status refused = store.Admit(LinkNumber(1), Block(3));
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code, Code::kOverloaded);
  for (std::uint64_t i = 0; i < 3; ++i) EXPECT_TRUE(store.Serves(Block(i)));
  EXPECT_TRUE(store.Admit(LinkNumber(2), Block(4)).has_value()) << "others have their own room";
}

TEST_F(StorePinsTest, AQuotaBelowWhatIsCachedEvictsTheSurplusButNotWhatIsPinned) {
  TestStore store(Options({Pinned(1, {"a/"})}));
  for (std::uint64_t i = 0; i < 6; ++i)
    ASSERT_TRUE(store.Admit(LinkNumber(1), Block(i), i < 2 ? "a/f" : "b/f"));
  LinkRule rule = Quota(1, 3ULL * kLength);
  rule.pins = {"a/"};
  EXPECT_TRUE(store->SetRules({rule}));
  const Result<Evicted> trimmed = fakes::RunTask(store->TrimToQuotas());
  ASSERT_TRUE(trimmed.has_value());
  EXPECT_EQ(trimmed->blocks, 3U);
  EXPECT_EQ(store->UsageByLink()[LinkNumber(1)].bytes, 3ULL * kLength);
  EXPECT_TRUE(store->Contains(Block(0)));
  EXPECT_TRUE(store->Contains(Block(1)));
  EXPECT_FALSE(store->SetRules({rule}));
  // At its quota a pinned block takes the place of one of its link's others.
  ASSERT_TRUE(store.Admit(LinkNumber(1), Block(50), "a/g").has_value());
  EXPECT_EQ(store->UsageByLink()[LinkNumber(1)].bytes, 3ULL * kLength);
  EXPECT_EQ(store->UsageByLink()[LinkNumber(1)].pinned_bytes, 3ULL * kLength);
  EXPECT_FALSE(store.Admit(LinkNumber(1), Block(51), "a/h").has_value());
}

TEST_F(StorePinsTest, ASmallerCapacityTakesPinnedBlocksLast) {
  {
    TestStore store(Options({Pinned(1, {"a/"})}));
    for (std::uint64_t i = 0; i < 10; ++i)
      ASSERT_TRUE(store.Admit(LinkNumber(1), Block(i), i < 3 ? "a/f" : "b/f"));
    ASSERT_TRUE(store->Close(Patience()).has_value());
  }
  BlockStoreOptions smaller = Options({Pinned(1, {"a/"})});
  smaller.dirs[0].capacity_bytes = 8ULL << 20;
  TestStore store(smaller);
  EXPECT_LE(store->Disks()[0].used_bytes, 8ULL << 20);
  for (std::uint64_t i = 0; i < 3; ++i) EXPECT_TRUE(store.Serves(Block(i))) << i;
}

TEST_F(StorePinsTest, UnusedForTakesOnlyWhatNobodyHasUsedSinceThen) {
  TestStore store(Options());
  ASSERT_TRUE(store.Admit(LinkNumber(1), Block(0)).has_value());
  ASSERT_TRUE(store.Admit(LinkNumber(1), Block(1)).has_value());
  hour_ += 100;
  EXPECT_TRUE(store.Serves(Block(1)));
  hour_ += 24;
  EXPECT_EQ(store.EvictLink(LinkNumber(1), {.unused_for = 125h})->blocks, 0U);
  EXPECT_EQ(store.EvictLink(LinkNumber(1), {.unused_for = 24h})->blocks, 1U);
  EXPECT_FALSE(store->Contains(Block(0)));
  EXPECT_TRUE(store->Contains(Block(1)));
}

TEST_F(StorePinsTest, VerifyFindsDamageBehindThePageCacheAndDropsIt) {
  TestStore store(Options());
  ASSERT_TRUE(store.Admit(LinkNumber(1), Block(0)).has_value());
  EXPECT_TRUE(fakes::RunTask(store->Verify(Block(0))).has_value());
  EXPECT_EQ(fakes::RunTask(store->Verify(Block(1))).error().code, Code::kNotFound);
  {
    std::fstream file(SegmentsBelow(dir_ / "cache").at(0),
                      std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(500'000);
    file.put('x').put('y');
  }
  EXPECT_EQ(fakes::RunTask(store->Verify(Block(0))).error().code, Code::kCorrupt);
  EXPECT_FALSE(store->Contains(Block(0)));
  EXPECT_EQ(store->counters().checksum_failures.load(), 1U);
}

TEST_F(StorePinsTest, WhatIsReleasedIsGoneThoughItWasPinned) {
  {
    TestStore store(Options({Pinned(1, {"a/"})}));
    for (std::uint64_t i = 0; i < 5; ++i)
      ASSERT_TRUE(store.Admit(LinkNumber(1), Block(i), i < 4 ? "a/f" : "b/f"));
    EXPECT_THAT(store.PinnedOf(LinkNumber(1)), IsEmpty()) << "they were used within the hour";
    hour_ += 2;
    EXPECT_THAT(store.PinnedOf(LinkNumber(1)),
                UnorderedElementsAre(Block(0), Block(1), Block(2), Block(3)));
    ASSERT_TRUE(store.Serves(Block(3)));
    EXPECT_THAT(store.PinnedOf(LinkNumber(1)), UnorderedElementsAre(Block(0), Block(1), Block(2)));
    EXPECT_TRUE(store->IsPinned(Block(3)));
    EXPECT_FALSE(store->IsPinned(Block(4)));
    EXPECT_FALSE(store->IsPinned(Block(99)));
    // One is still owned here after all, and one was read since.
    const auto keep = [&](const BlockId& block) {
      EXPECT_FALSE(store->Contains(block)) << "nobody finds what may be gone in a moment";
      return block == Block(1);
    };
    const Result<Evicted> gone =
        store.Release({Block(0), Block(1), Block(2), Block(3), Block(99)}, keep);
    ASSERT_TRUE(gone.has_value());
    EXPECT_EQ(gone->blocks, 2U);
    EXPECT_EQ(store->counters().released_bytes, gone->bytes);
    for (std::uint64_t i = 0; i < 5; ++i) EXPECT_EQ(store.Serves(Block(i)), i != 0 && i != 2) << i;
    EXPECT_TRUE(store->IsPinned(Block(1)));
    EXPECT_EQ(store->UsageByLink()[LinkNumber(1)].pinned_bytes, 2ULL * kLength);
    ASSERT_TRUE(store->Close(Patience()).has_value());
  }
  TestStore store(Options());
  for (std::uint64_t i = 0; i < 5; ++i) EXPECT_EQ(store.Serves(Block(i)), i != 0 && i != 2) << i;
  EXPECT_EQ(store->UsageByLink()[LinkNumber(1)].pinned_bytes, 2ULL * kLength);
}

TEST_F(StorePinsTest, OfALinkThatIsPinnedAsAWholeBlocksAreReleasedToo) {
  TestStore store(Options({Pinned(1, {""})}));
  for (std::uint64_t i = 0; i < 9; ++i) ASSERT_TRUE(store.Admit(LinkNumber(1), Block(i)));
  ASSERT_TRUE(store.Admit(LinkNumber(2), Block(20)));
  hour_ += 2;
  EXPECT_EQ(store.PinnedOf(LinkNumber(1)).size(), 9U) << "over several segments";
  EXPECT_THAT(store.PinnedOf(LinkNumber(2)), IsEmpty());
  const Result<Evicted> gone =
      store.Release(store.PinnedOf(LinkNumber(1)), [](const BlockId&) { return false; });
  ASSERT_TRUE(gone.has_value());
  EXPECT_EQ(gone->blocks, 9U);
  EXPECT_FALSE(store->UsageByLink().contains(LinkNumber(1)));
  EXPECT_TRUE(store.Serves(Block(20)));
}

}  // namespace
}  // namespace forebay
