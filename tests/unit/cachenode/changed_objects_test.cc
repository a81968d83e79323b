#include "cachenode/changed_objects.h"

#include <gtest/gtest.h>

namespace forebay {
namespace {

TEST(ChangedObjects, EachIsReportedOnceHoweverManyReadIt) {
  ChangedObjects changed;
  const Uuid link = Uuid::Random();
  TimePoint now = TimePoint() + std::chrono::seconds(100);
  EXPECT_TRUE(changed.Note({link, "a", "e1"}, now));
  EXPECT_FALSE(changed.Note({link, "a", "e1"}, now));
  EXPECT_TRUE(changed.Note({link, "a", "e2"}, now)) << "another version";
  EXPECT_TRUE(changed.Note({link, "b", "e1"}, now));
  EXPECT_EQ(changed.ToReport(2).size(), 2U);
  const auto all = changed.ToReport(10);
  ASSERT_EQ(all.size(), 3U) << "until the coordinator has it";
  changed.MarkReported(all, now);
  EXPECT_TRUE(changed.ToReport(10).empty());
  now += ChangedObjects::kReportAgain - std::chrono::seconds(1);
  EXPECT_FALSE(changed.Note({link, "a", "e1"}, now));
  now += std::chrono::seconds(1);
  EXPECT_TRUE(changed.Note({link, "a", "e1"}, now)) << "it is still read, and still not mended";
  EXPECT_EQ(changed.ToReport(10).size(), 1U);
}

TEST(ChangedObjects, ManyOfThemTakeABoundedRoom) {
  ChangedObjects changed;
  const Uuid link = Uuid::Random();
  TimePoint now = TimePoint() + std::chrono::seconds(100);
  for (std::size_t i = 0; i < ChangedObjects::kMost; ++i)
    ASSERT_TRUE(changed.Note({link, std::to_string(i), "e"}, now));
  EXPECT_FALSE(changed.Note({link, "more", "e"}, now));
  EXPECT_EQ(changed.ToReport(2 * ChangedObjects::kMost).size(), ChangedObjects::kMost);
  changed.MarkReported(changed.ToReport(2 * ChangedObjects::kMost), now);
  now += ChangedObjects::kReportAgain;
  EXPECT_TRUE(changed.Note({link, "more", "e"}, now));
  EXPECT_EQ(changed.ToReport(10).size(), 1U);
}

}  // namespace
}  // namespace forebay
