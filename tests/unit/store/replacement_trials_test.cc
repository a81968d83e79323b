#include "cachenode/store/replacement_trials.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <random>

namespace forebay {
namespace {

const Uuid kLink = Uuid::Parse("aaaaaaaa-0000-4000-8000-000000000001");
const Uuid kOther = Uuid::Parse("bbbbbbbb-0000-4000-8000-000000000001");
constexpr std::uint64_t kPatience = 1000;

BlockId Block(std::uint64_t number) {
  return {{number, number * 0x9E3779B97F4A7C15ULL + 1}, 0, 40'000};
}

class ReplacementTrialsTest : public ::testing::Test {
 protected:
  /// A trial that ends at once.
  void Try(bool newcomer_first, const Uuid& link = kLink) {
    next_ += 2;
    trials_.Watch(link, Block(next_), Block(next_ + 1), kPatience);
    trials_.NoteRead(Block(newcomer_first ? next_ : next_ + 1), true);
    trials_.NoteRead(Block(newcomer_first ? next_ + 1 : next_), true);  // too late to count
  }

  ReplacementTrials trials_;
  std::uint64_t next_ = 0;
};

TEST_F(ReplacementTrialsTest, NothingPaysBeforeItHasOften) {
  EXPECT_FALSE(trials_.Pays(kLink));
  for (int i = 0; i < 3; ++i) Try(true);
  EXPECT_FALSE(trials_.Pays(kLink));
  for (int i = 0; i < 20; ++i) Try(true);
  EXPECT_TRUE(trials_.Pays(kLink));
  EXPECT_FALSE(trials_.Pays(kOther));
}

TEST_F(ReplacementTrialsTest, WhatPaidStopsWhenItPaysNoMore) {
  for (int i = 0; i < 1000; ++i) Try(true);
  EXPECT_TRUE(trials_.Pays(kLink));
  for (int i = 0; i < 1000; ++i) Try(false);
  EXPECT_FALSE(trials_.Pays(kLink));
  for (int i = 0; i < 2000; ++i) Try(true);
  EXPECT_TRUE(trials_.Pays(kLink));
}

TEST_F(ReplacementTrialsTest, AFairCoinDoesNotPay) {
  std::mt19937_64 random(3);
  int paid = 0;
  for (int i = 0; i < 10'000; ++i) {
    Try(random() % 2 == 0);
    paid += trials_.Pays(kLink) ? 1 : 0;
  }
  EXPECT_LT(paid, 100);
}

TEST_F(ReplacementTrialsTest, OneReadDecidesOneTrial) {
  for (std::uint64_t victim = 1; victim <= 30; ++victim)
    trials_.Watch(kLink, Block(1000), Block(2000 + victim), kPatience);
  trials_.NoteRead(Block(1000), true);
  EXPECT_FALSE(trials_.Pays(kLink));
}

TEST_F(ReplacementTrialsTest, ReadsThatDoNotCountSpeakAgainstReplacingAlone) {
  for (std::uint64_t i = 1; i <= 100; ++i) {
    trials_.Watch(kLink, Block(2 * i), Block(2 * i + 1), kPatience);
    trials_.NoteRead(Block(2 * i), false);  // the newcomer's next READ: no end
    trials_.NoteRead(Block(2 * i + 1), i > 50);
    trials_.NoteRead(Block(2 * i), true);
  }
  EXPECT_FALSE(trials_.Pays(kLink));
  for (int i = 0; i < 100; ++i) Try(true);
  EXPECT_FALSE(trials_.Pays(kLink)) << "100 were lost";
}

TEST_F(ReplacementTrialsTest, OneReplacementMayBeSpentForTwoMisses) {
  EXPECT_FALSE(trials_.Spend(kLink));
  int spent = 0;
  for (int miss = 0; miss < 1000; ++miss) {
    trials_.NoteMiss(kLink);
    spent += trials_.Spend(kLink) ? 1 : 0;
  }
  EXPECT_GT(spent, 450);
  EXPECT_LE(spent, 500);
  EXPECT_FALSE(trials_.Spend(kOther));
}

TEST_F(ReplacementTrialsTest, TrialsThatDoNotEndGiveWayToOthers) {
  for (std::uint64_t i = 0; i < 1000; ++i)
    trials_.Watch(kLink, Block(1'000'000 + 2 * i), Block(1'000'001 + 2 * i), kPatience);
  for (int i = 0; i < 400; ++i) Try(true);
  EXPECT_FALSE(trials_.Pays(kLink)) << "no place for them yet";
  for (int i = 0; i < 400; ++i) Try(true);
  EXPECT_TRUE(trials_.Pays(kLink));
}

}  // namespace
}  // namespace forebay
