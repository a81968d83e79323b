#include "cachenode/coordinator_news.h"

#include <gtest/gtest.h>

namespace forebay {
namespace {

using News = CoordinatorNews::News;
using std::chrono::seconds;

class CoordinatorNewsTest : public ::testing::Test {
 protected:
  News Report(const Status& status = {}) {
    now_ += seconds(1);
    return news_.Note(status, now_);
  }
  News Refused(Code code = Code::kInvalid) { return Report(Fail(code, "held")); }
  News Silent() { return Report(Fail(Code::kUnavailable, "nobody")); }

  TimePoint now_ = TimePoint() + std::chrono::hours(1);
  CoordinatorNews news_;
};

TEST_F(CoordinatorNewsTest, ARefusalIsSaidOnceAndThenEveryTenMinutes) {
  int said = 0;
  for (int second = 0; second < 3600; ++second)
    if (Refused() == News::kRefuses) ++said;
  EXPECT_EQ(said, 6);
  EXPECT_EQ(Report(), News::kAnswersAgain);
  EXPECT_EQ(Report(), News::kNone);
  EXPECT_EQ(Refused(Code::kDenied), News::kRefuses) << "that is another one";
}

TEST_F(CoordinatorNewsTest, SilenceIsSaidOnceHoweverLongItLasts) {
  EXPECT_EQ(Silent(), News::kSilent);
  for (int second = 0; second < 3600; ++second) ASSERT_EQ(Silent(), News::kNone);
  EXPECT_EQ(Report(), News::kAnswersAgain);
  EXPECT_EQ(Silent(), News::kSilent);
}

TEST_F(CoordinatorNewsTest, ARefusalAfterSilenceIsNewsAndSilenceInBetweenMakesItNoMoreOften) {
  EXPECT_EQ(Silent(), News::kSilent);
  EXPECT_EQ(Refused(), News::kRefuses);
  for (int i = 0; i < 100; ++i) {
    ASSERT_EQ(Silent(), News::kNone);
    ASSERT_EQ(Refused(), News::kNone);
  }
}

}  // namespace
}  // namespace forebay
