#include <algorithm>
#include <cstdint>
#include <vector>

#include "tests/component/store/store_fixture.h"

// Whose blocks a full store gives away: priorities of links.
namespace forebay {
namespace {

constexpr std::uint32_t kLength = 100'000;

class StorePriorityTest : public ::testing::Test {
 protected:
  void Open(std::size_t disks = 1, std::uint64_t capacity = 16ULL << 20) {
    BlockStoreOptions options;
    for (std::size_t i = 0; i < disks; ++i)
      options.dirs.push_back({dir_ / ("disk" + std::to_string(i)), capacity});
    options.segment_bytes = 1ULL << 20;
    options.rules = rules_;
    options.now = [this] { return now_; };
    store_.reset();
    store_ = std::make_unique<TestStore>(options);
    ASSERT_TRUE(store_->open());
  }

  void Decide(std::vector<LinkRule> rules) {
    rules_ = std::move(rules);
    (*store_)->SetRules(rules_);
  }
  void Rank(LinkPriority a, LinkPriority b) {
    Decide({{.link = a_, .priority = a}, {.link = b_, .priority = b}});
  }

  /// Admits new blocks of the link until one is refused, or `most`; answers how many were not.
  std::uint32_t Admit(const Uuid& link, std::uint32_t most) {
    std::uint32_t admitted = 0;
    while (admitted < most && store_->Admit(link, BlockNumber(next_++, kLength))) ++admitted;
    return admitted;
  }
  std::uint64_t Blocks(const Uuid& link) { return (*store_)->UsageByLink()[link].blocks; }

  fakes::TempDir dir_;
  const Uuid a_ = LinkNumber(1);
  const Uuid b_ = LinkNumber(2);
  std::vector<LinkRule> rules_;
  TimePoint now_{std::chrono::hours(1000)};
  std::uint64_t next_ = 0;
  std::unique_ptr<TestStore> store_;
};

TEST_F(StorePriorityTest, LinkOfLowerPriorityMakesWayThoughItIsInUse) {
  Open();
  const std::uint32_t places = Admit(a_, UINT32_MAX);
  ASSERT_GT(places, 50u);
  EXPECT_EQ(Admit(b_, 1), 0u) << "equals that are in use replace nothing";
  Rank(LinkPriority::kNormal, LinkPriority::kHigh);
  EXPECT_EQ(Admit(b_, places / 2), places / 2);
  EXPECT_EQ(Blocks(b_), places / 2);
  EXPECT_LE(Blocks(a_), places - places / 2);
  EXPECT_GT(Blocks(a_), 0u) << "no more goes than room is needed";
  EXPECT_EQ((*store_)->counters().evicted_blocks, places - Blocks(a_));
}

TEST_F(StorePriorityTest, LinkOfLowerPriorityMakesWayForAllWhoComeTogether) {
  constexpr std::uint32_t kTogether = 80;
  Open();
  Rank(LinkPriority::kLow, LinkPriority::kNormal);
  const std::uint32_t places = Admit(a_, UINT32_MAX);
  ASSERT_GT(places, kTogether);
  std::vector<BlockId> blocks;
  blocks.reserve(kTogether);
  for (std::uint32_t i = 0; i < kTogether; ++i) blocks.push_back(BlockNumber(next_++, kLength));
  EXPECT_EQ(store_->AdmitTogether(b_, blocks), kTogether);
  EXPECT_EQ(Blocks(b_), kTogether);
  EXPECT_GE(Blocks(a_) + 2, places - kTogether) << "no more goes than room is needed";
}

TEST_F(StorePriorityTest, WhatNoDiskCanHoldTakesNothingAway) {
  Open(1, 12ULL << 20);
  Rank(LinkPriority::kLow, LinkPriority::kHigh);
  const std::uint32_t places = Admit(a_, UINT32_MAX);
  ASSERT_GT(places, 10u);
  EXPECT_FALSE(store_->Admit(b_, BlockNumber(next_++, 13U << 20)));
  EXPECT_EQ(Blocks(a_), places);
  EXPECT_EQ((*store_)->counters().evicted_blocks, 0u);
}

TEST_F(StorePriorityTest, ManyWhoComeToALoweredQuotaTakeNoMoreThanIsBeyondIt) {
  constexpr std::uint32_t kTogether = 40;
  constexpr std::uint32_t kLeft = 60;  // blocks of the new quota
  Open();
  Decide({{.link = a_}});
  const std::uint32_t before = Admit(a_, 120);
  ASSERT_EQ(before, 120u);
  for (std::uint64_t i = 0; i < before; ++i)
    (*store_)->NoteRead(a_, BlockNumber(i, kLength), "past");
  now_ += std::chrono::hours(24);
  Decide({{.link = a_, .max_bytes = std::uint64_t{kLeft} * kLength}});
  std::vector<BlockId> blocks;
  blocks.reserve(kTogether);
  for (std::uint32_t i = 0; i < kTogether; ++i) blocks.push_back(BlockNumber(next_++, kLength));
  for (int epoch = 0; epoch < 5; ++epoch)
    for (const BlockId& block : blocks) (*store_)->NoteRead(a_, block, "now");
  EXPECT_GT(store_->AdmitTogether(a_, blocks), 0u);
  EXPECT_EQ(Blocks(a_), kLeft) << "what is beyond the quota goes, and no more";
}

TEST_F(StorePriorityTest, LinkOfHigherPriorityMakesWayForNoneHoweverIdle) {
  Open();
  Rank(LinkPriority::kNormal, LinkPriority::kLow);
  const std::uint32_t places = Admit(a_, UINT32_MAX);
  now_ += std::chrono::hours(24);
  EXPECT_EQ(Admit(b_, 1), 0u);
  EXPECT_EQ(Blocks(a_), places);
  Rank(LinkPriority::kNormal, LinkPriority::kNormal);
  EXPECT_EQ(Admit(b_, 1), 1u) << "among equals the idle one makes way, from now on";
  EXPECT_LT(Blocks(a_), places);
}

TEST_F(StorePriorityTest, AJobsReadsOfALowerLinkReplaceNothingOfAHigherOne) {
  Open();
  Rank(LinkPriority::kHigh, LinkPriority::kNormal);
  const std::uint32_t places = Admit(a_, UINT32_MAX);
  // What nobody wants any more would go at once for a block that a job has just read.
  for (std::uint64_t i = 0; i < places; ++i)
    (*store_)->NoteRead(a_, BlockNumber(i, kLength), "past");
  for (std::uint64_t epoch = 0; epoch < 5; ++epoch) {
    for (std::uint64_t i = 0; i < places; ++i) {
      const BlockId block = BlockNumber(1'000'000 + i, kLength);
      (*store_)->NoteRead(b_, block, "now");
      EXPECT_FALSE(store_->Admit(b_, block));
    }
  }
  EXPECT_EQ(Blocks(a_), places);
  Rank(LinkPriority::kNormal, LinkPriority::kNormal);
  std::uint64_t kept = 0;
  for (std::uint64_t i = 0; i < places; ++i) {
    const BlockId block = BlockNumber(1'000'000 + i, kLength);
    (*store_)->NoteRead(b_, block, "now");
    if (store_->Admit(b_, block)) ++kept;
  }
  EXPECT_GT(kept, 0u);
  EXPECT_GT(Blocks(b_), 0u) << "without priorities they do";
}

TEST_F(StorePriorityTest, TheLowestGoesFirstOnWhicheverDiskItLies) {
  Open(2);
  const Uuid c = LinkNumber(3);
  Decide(
      {{.link = a_, .priority = LinkPriority::kLow}, {.link = c, .priority = LinkPriority::kLow}});
  // Everything is `b_` but a few blocks, which lie somewhere.
  EXPECT_EQ(Admit(a_, 6), 6u);
  const std::uint32_t others = Admit(b_, UINT32_MAX);
  EXPECT_EQ(Blocks(a_), 0u) << "they have made way already";
  Rank(LinkPriority::kLow, LinkPriority::kNormal);
  now_ += std::chrono::hours(24);
  const std::uint64_t evicted = (*store_)->counters().evicted_blocks;
  EXPECT_EQ(Admit(c, 10), 10u) << "an idle equal";
  EXPECT_EQ(Blocks(b_), others - ((*store_)->counters().evicted_blocks - evicted));
}

TEST_F(StorePriorityTest, PinsStandAbovePriorities) {
  Open();
  Decide({{.link = a_, .priority = LinkPriority::kHigh},
          {.link = b_, .pins = {""}, .priority = LinkPriority::kLow}});
  const std::uint32_t places = Admit(a_, UINT32_MAX);
  EXPECT_EQ(Admit(b_, 10), 10u) << "a pinned block of the lowest priority is kept";
  EXPECT_LT(Blocks(a_), places);
  // And does not make way for the highest.
  EXPECT_EQ(Admit(a_, 1), 0u);
  EXPECT_EQ(Blocks(b_), 10u);
}

TEST_F(StorePriorityTest, PrioritiesHoldFromTheFirstMomentAfterARestart) {
  Open();
  Rank(LinkPriority::kHigh, LinkPriority::kLow);
  const std::uint32_t half = Admit(a_, 60);
  Admit(b_, UINT32_MAX);
  ASSERT_TRUE((*store_)->Close(Patience()));
  // The smaller disk keeps what is of the highest priority, though it is the oldest.
  Open(1, 12ULL << 20);
  EXPECT_EQ(Blocks(a_), half);
  EXPECT_EQ(Admit(b_, UINT32_MAX), 0u);
  EXPECT_EQ(Admit(a_, 5), 5u);
}

}  // namespace
}  // namespace forebay
