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

  bool Unanswered(const Uuid& link, bool late) {
    return links_.NoteUnanswered(link, RetryReason::kTimeout, late, now_);
  }

  const std::shared_ptr<LinkSpec> link_ = std::make_shared<LinkSpec>();
  const Uuid& id_ = link_->id;
  TimePoint now_ = Clock::now();
  UnservedLinks links_;
};

TEST_F(UnservedLinksTest, TwoRequestsWithoutAnAnswerBetweenSayItOrOneThatTookLong) {
  EXPECT_FALSE(Unanswered(id_, false));
  EXPECT_FALSE(links_.Holds(id_));
  links_.NoteServed(id_);
  EXPECT_FALSE(Unanswered(id_, false)) << "there was an answer between";
  links_.NoteAnswered(id_);
  EXPECT_FALSE(Unanswered(id_, false)) << "and here";
  EXPECT_TRUE(Unanswered(id_, false));
  EXPECT_TRUE(links_.Holds(id_));
  const Uuid other = Uuid::Random();
  EXPECT_FALSE(links_.Holds(other));
  EXPECT_TRUE(Unanswered(other, true));
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
    EXPECT_TRUE(Unanswered(id_, false)) << "one is enough now";
    EXPECT_TRUE(links_.Want(Wish("a"), now_)) << "that look is over";
    EXPECT_EQ(links_.PauseBefore(id_, seconds(5)),
              seconds(5) * (1 << std::min(wrong, UnservedLinks::kMostDoublings)));
  }
  links_.NoteSeen(id_);
  EXPECT_FALSE(links_.NextLook(id_, now_));
  links_.NoteServed(id_);
  EXPECT_FALSE(Unanswered(id_, false));
  EXPECT_EQ(links_.PauseBefore(id_, seconds(5)), seconds(5));
}

TEST_F(UnservedLinksTest, WhatNobodyWantsIsForgottenAndTheNextFillFindsOut) {
  links_.NoteRefused(id_);
  EXPECT_TRUE(links_.Want(Wish("a"), now_));
  EXPECT_TRUE(links_.NextLook(id_, now_ + UnservedLinks::kKept));
  EXPECT_FALSE(links_.NextLook(id_, now_ + UnservedLinks::kKept + std::chrono::seconds(1)));
  EXPECT_FALSE(links_.Holds(id_));
}

// As behind a route that loses large packets.
TEST_F(UnservedLinksTest, WhereLooksAreWrongItIsSaidThroughThemSinceWhenFillsHaveNoAnswer) {
  using std::chrono::seconds;
  link_->origin.bucket = "b";
  EXPECT_TRUE(Unanswered(id_, true));
  EXPECT_TRUE(links_.Waits(now_).empty()) << "nobody wants anything of it";
  links_.Want(Wish("a"), now_);
  now_ += seconds(3);
  ASSERT_EQ(links_.Waits(now_).size(), 1u);
  EXPECT_EQ(links_.Waits(now_)[0].bucket, "b");
  EXPECT_EQ(links_.Waits(now_)[0].longest, seconds(3));
  EXPECT_NE(links_.Waits(now_)[0].why.find("large packets"), std::string::npos);
  links_.NoteSeen(id_);
  EXPECT_TRUE(links_.Waits(now_).empty()) << "an outage ends with the first look that is answered";
  EXPECT_FALSE(links_.NextLook(id_, now_));
  now_ += seconds(5);
  EXPECT_TRUE(Unanswered(id_, true));
  links_.Want(Wish("a"), now_);
  EXPECT_EQ(links_.Waits(now_)[0].longest, seconds(8));
  links_.NoteSeen(id_);
  EXPECT_EQ(links_.Waits(now_)[0].longest, seconds(8)) << "a look says nothing any more";
  now_ += UnservedLinks::kKept + seconds(1);
  EXPECT_TRUE(links_.Waits(now_).empty()) << "nobody wants anything of it";
  EXPECT_TRUE(Unanswered(id_, true));
  links_.Want(Wish("a"), now_);
  EXPECT_EQ(links_.Waits(now_)[0].longest, seconds(0)) << "what was between is not known";
  links_.NoteRefused(id_);
  EXPECT_TRUE(links_.Waits(now_).empty()) << "it answers again, if not as one wants it";
  EXPECT_TRUE(links_.Holds(id_));
  links_.NoteServed(id_);
  EXPECT_TRUE(links_.Waits(now_).empty());
  links_.NoteRefused(id_);
  links_.Want(Wish("a"), now_);
  EXPECT_TRUE(links_.Waits(now_).empty()) << "that is an answer";
}

}  // namespace
}  // namespace forebay
