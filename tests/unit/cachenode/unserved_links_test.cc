#include "cachenode/unserved_links.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace forebay {
namespace {

class UnservedLinksTest : public ::testing::Test {
 protected:
  UnservedLinksTest() { link_->id = Uuid::Random(); }
  UnservedLinks::Wanted Wish(std::string key) const {
    return {.link = link_, .object = {.key = std::move(key), .etag = "e", .size = 1}};
  }

  const std::shared_ptr<LinkSpec> link_ = std::make_shared<LinkSpec>();
  const Uuid& id_ = link_->id;
  const TimePoint now_ = Clock::now();
  UnservedLinks links_;
};

TEST_F(UnservedLinksTest, TwoRequestsWithoutAnAnswerBetweenSayItOrOneThatTookLong) {
  EXPECT_FALSE(links_.NoteUnanswered(id_, false));
  EXPECT_FALSE(links_.Holds(id_));
  links_.NoteServed(id_);
  EXPECT_FALSE(links_.NoteUnanswered(id_, false)) << "there was an answer between";
  links_.NoteAnswered(id_);
  EXPECT_FALSE(links_.NoteUnanswered(id_, false)) << "and here";
  EXPECT_TRUE(links_.NoteUnanswered(id_, false));
  EXPECT_TRUE(links_.Holds(id_));
  const Uuid other = Uuid::Random();
  EXPECT_FALSE(links_.Holds(other));
  EXPECT_TRUE(links_.NoteUnanswered(other, true));
  links_.NoteServed(id_);
  EXPECT_FALSE(links_.Holds(id_));
  EXPECT_TRUE(links_.Holds(other));
  links_.NoteRefused(id_);
  EXPECT_TRUE(links_.Holds(id_));
}

TEST_F(UnservedLinksTest, OneLooksWhetherItIsServedAgainAndAsksForWhatWasWantedLast) {
  links_.NoteRefused(id_);
  EXPECT_TRUE(links_.Want(Wish("a"), now_));
  EXPECT_FALSE(links_.Want(Wish("b"), now_)) << "somebody looks";
  const auto look = links_.NextLook(id_, now_);
  ASSERT_TRUE(look);
  EXPECT_EQ(look->object.key, "b");
  EXPECT_EQ(look->link, link_);
  links_.NoteServed(id_);
  links_.NoteRefused(id_);
  EXPECT_FALSE(links_.Want(Wish("c"), now_)) << "whoever looked has not come back yet";
  EXPECT_TRUE(links_.NextLook(id_, now_));
  links_.NoteServed(id_);
  EXPECT_FALSE(links_.NextLook(id_, now_));
  EXPECT_TRUE(links_.Want(Wish("d"), now_)) << "that look is over";
}

// What it saw was no fill.
TEST_F(UnservedLinksTest, AfterALookTheNextFillDecidesAndTheNextLooksComeLater) {
  using std::chrono::seconds;
  links_.NoteRefused(id_);
  EXPECT_TRUE(links_.Want(Wish("a"), now_));
  EXPECT_EQ(links_.PauseBefore(id_, seconds(5)), seconds(5));
  for (int wrong = 1; wrong <= 6; ++wrong) {
    links_.NoteSeen(id_);
    EXPECT_FALSE(links_.Holds(id_));
    EXPECT_FALSE(links_.NextLook(id_, now_));
    EXPECT_TRUE(links_.NoteUnanswered(id_, false)) << "one is enough now";
    EXPECT_TRUE(links_.Want(Wish("a"), now_)) << "that look is over";
    EXPECT_EQ(links_.PauseBefore(id_, seconds(5)),
              seconds(5) * (1 << std::min(wrong, UnservedLinks::kMostDoublings)));
  }
  links_.NoteSeen(id_);
  EXPECT_FALSE(links_.NextLook(id_, now_));
  links_.NoteServed(id_);
  EXPECT_FALSE(links_.NoteUnanswered(id_, false));
  EXPECT_EQ(links_.PauseBefore(id_, seconds(5)), seconds(5));
}

TEST_F(UnservedLinksTest, WhatNobodyWantsIsForgottenAndTheNextFillFindsOut) {
  links_.NoteRefused(id_);
  EXPECT_TRUE(links_.Want(Wish("a"), now_));
  EXPECT_TRUE(links_.NextLook(id_, now_ + UnservedLinks::kKept));
  EXPECT_FALSE(links_.NextLook(id_, now_ + UnservedLinks::kKept + std::chrono::seconds(1)));
  EXPECT_FALSE(links_.Holds(id_));
}

}  // namespace
}  // namespace forebay
