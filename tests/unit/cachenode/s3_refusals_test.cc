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
  EXPECT_FALSE(refusals.Note(link, "no such key id", begun));
  EXPECT_FALSE(refusals.Note(link, "no such key id", begun + seconds(1)));
  EXPECT_TRUE(refusals.Often(begun + seconds(1), 9).empty()) << "it may be these objects";
  EXPECT_TRUE(refusals.Note(link, "the clock is wrong", begun + seconds(49)));
  refusals.NoteAgain(link, "no", begun + seconds(50));
  refusals.NoteAnswered(Uuid::Random());
  const std::vector<S3Refusals::Row> rows = refusals.Often(begun + seconds(100), 9);
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_EQ(rows[0].link, link);
  EXPECT_EQ(rows[0].why, "the clock is wrong");
  EXPECT_EQ(rows[0].calls, 4u);
  EXPECT_EQ(rows[0].since, begun);
  refusals.NoteAnswered(link);
  EXPECT_TRUE(refusals.Often(begun + seconds(100), 9).empty());
  EXPECT_FALSE(refusals.Note(link, "no", begun + seconds(101))) << "counted anew";
}

TEST(S3Refusals, AreForgottenWhenNothingMoreIsAsked) {
  S3Refusals refusals;
  const TimePoint begun = Clock::now();
  const auto refuse = [&](const Uuid& link, TimePoint now) {
    bool often = false;
    for (int i = 0; i < 3; ++i) often = refusals.Note(link, "no", now);
    return often;
  };
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(refuse(Uuid::Random(), begun + seconds(10 * i)));
  EXPECT_EQ(refusals.Often(begun + seconds(20), 2).size(), 2u) << "no more than a heartbeat takes";
  EXPECT_EQ(refusals.Often(begun + seconds(75), 9).size(), 1u);
  EXPECT_TRUE(refusals.Often(begun + seconds(81), 9).empty());
  // Also where nobody looked meanwhile.
  const Uuid link = Uuid::Random();
  EXPECT_TRUE(refuse(link, begun));
  EXPECT_FALSE(refusals.Note(link, "no", begun + seconds(61)));
}

TEST(S3Refusals, TheLastAnswerSaysForAWhileWhatTheNextOneWillBe) {
  S3Refusals refusals;
  const Uuid link = Uuid::Random();
  const TimePoint begun = Clock::now();
  EXPECT_FALSE(refusals.IsRefused(link, begun));
  (void)refusals.Note(link, "no", begun);
  EXPECT_TRUE(refusals.IsRefused(link, begun + seconds(5)));
  EXPECT_FALSE(refusals.IsRefused(Uuid::Random(), begun));
  EXPECT_FALSE(refusals.IsRefused(link, begun + seconds(6)));
  refusals.NoteAnswered(link);
  EXPECT_FALSE(refusals.IsRefused(link, begun));
}

}  // namespace
}  // namespace forebay
