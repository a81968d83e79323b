#include "cachenode/s3_refusals.h"

#include <gtest/gtest.h>

namespace forebay {
namespace {

using std::chrono::seconds;

TEST(S3Refusals, CountsFromTheFirstUntilOneIsAnswered) {
  S3Refusals refusals;
  const Uuid link = Uuid::Random();
  const TimePoint begun = Clock::now();
  refusals.NoteAnswered(link);
  EXPECT_TRUE(refusals.Lately(begun, 9).empty());
  refusals.Note(link, "no such key id", begun);
  refusals.Note(link, "the clock is wrong", begun + seconds(50));
  refusals.NoteAnswered(Uuid::Random());
  const std::vector<S3Refusals::Row> rows = refusals.Lately(begun + seconds(100), 9);
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_EQ(rows[0].link, link);
  EXPECT_EQ(rows[0].why, "the clock is wrong");
  EXPECT_EQ(rows[0].calls, 2u);
  EXPECT_EQ(rows[0].since, begun);
  refusals.NoteAnswered(link);
  EXPECT_TRUE(refusals.Lately(begun + seconds(100), 9).empty());
  refusals.Note(link, "no", begun + seconds(101));
  EXPECT_EQ(refusals.Lately(begun + seconds(101), 9).at(0).calls, 1u);
}

TEST(S3Refusals, AreForgottenWhenNothingMoreIsAsked) {
  S3Refusals refusals;
  const TimePoint begun = Clock::now();
  for (int i = 0; i < 3; ++i) refusals.Note(Uuid::Random(), "no", begun + seconds(10 * i));
  EXPECT_EQ(refusals.Lately(begun + seconds(20), 2).size(), 2u) << "no more than a heartbeat takes";
  EXPECT_EQ(refusals.Lately(begun + seconds(75), 9).size(), 1u);
  EXPECT_TRUE(refusals.Lately(begun + seconds(81), 9).empty());
}

}  // namespace
}  // namespace forebay
