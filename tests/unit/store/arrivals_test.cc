#include "cachenode/store/arrivals.h"

#include <gtest/gtest.h>

#include <memory>
#include <thread>
#include <vector>

namespace forebay {
namespace {

class ArrivalsTest : public ::testing::Test {
 protected:
  std::shared_ptr<Arrival> Enter(std::uint32_t length) {
    auto block = std::make_shared<const NewBlock>(nullptr, BlockId{{1, ++last_}, 0, length});
    auto arrival = std::make_shared<Arrival>(std::move(block));
    arrivals_.Enter(arrival);
    return arrival;
  }
  std::vector<std::shared_ptr<Arrival>> Enter(std::size_t count, std::uint32_t length) {
    std::vector<std::shared_ptr<Arrival>> all;
    all.reserve(count);
    for (std::size_t i = 0; i < count; ++i) all.push_back(Enter(length));
    return all;
  }
  void Land(const Arrivals::Batch& batch) {
    arrivals_.Land(batch, std::vector<Status>(batch.size()));
  }

  Arrivals arrivals_;
  std::uint64_t last_ = 0;
};

TEST_F(ArrivalsTest, WhoeverComesFirstTakesAllThatWaitsInOrder) {
  const auto all = Enter(3, 1000);
  const Arrivals::Batch batch = arrivals_.Take(*all[2]);
  EXPECT_EQ(batch, all);
  arrivals_.Land(batch, {Status(), Fail(Code::kOverloaded, "full"), Status()});
  for (const auto& one : all) EXPECT_TRUE(arrivals_.Take(*one).empty()) << "it has landed";
  EXPECT_TRUE(arrivals_.AnswerOf(*all[0]).has_value());
  EXPECT_EQ(arrivals_.AnswerOf(*all[1]).error().code, Code::kOverloaded) << "each has its own";
  EXPECT_TRUE(arrivals_.AnswerOf(*all[2]).has_value());
}

TEST_F(ArrivalsTest, ABatchIsBoundedByBlocksAndByBytes) {
  const auto small = Enter(40, 10);
  EXPECT_EQ(arrivals_.Take(*small[0]).size(), 32U);
  const Arrivals::Batch rest = arrivals_.Take(*small[39]);
  EXPECT_EQ(rest.size(), 8U);
  const auto large = Enter(3, 600'000);
  EXPECT_EQ(arrivals_.Take(*large[0]).size(), 1U) << "two are more than a MiB";
  const auto huge = Enter(4U << 20);
  EXPECT_EQ(arrivals_.Take(*large[1]).size(), 1U);
  EXPECT_EQ(arrivals_.Take(*large[2]).size(), 1U);
  EXPECT_EQ(arrivals_.Take(*huge).size(), 1U) << "alone it may be longer";
}

TEST_F(ArrivalsTest, WhoseBlockIsBeingWrittenWaitsForItsAnswer) {
  const auto all = Enter(2, 10);
  const Arrivals::Batch batch = arrivals_.Take(*all[0]);
  std::jthread other([&] {
    EXPECT_TRUE(arrivals_.Take(*all[1]).empty());
    EXPECT_TRUE(arrivals_.AnswerOf(*all[1]).has_value());
  });
  Land(batch);
}

TEST_F(ArrivalsTest, WhatWasGivenUpIsNotTaken) {
  const auto all = Enter(2, 10);
  arrivals_.GiveUp(*all[0]);
  EXPECT_TRUE(arrivals_.Take(*all[0]).empty());
  EXPECT_EQ(arrivals_.AnswerOf(*all[0]).error().code, Code::kTimeout);
  EXPECT_EQ(arrivals_.Take(*all[1]), Arrivals::Batch{all[1]});
  arrivals_.GiveUp(*all[1]);
  EXPECT_TRUE(all[1]->given_up) << "whoever writes it looks";
}

}  // namespace
}  // namespace forebay
