#include "fuse-client/passed_segments.h"

#include <fcntl.h>
#include <gtest/gtest.h>

namespace forebay {
namespace {

using std::chrono::seconds;

PassedFile AnyFile() { return OwnFile(::open("/dev/null", O_RDONLY | O_CLOEXEC)); }

bool IsOpen(int descriptor) { return ::fcntl(descriptor, F_GETFD) >= 0; }

void Pass(PassedSegments& segments, const SegmentName& name, TimePoint now) {
  ASSERT_TRUE(segments.BeginOpen(name));
  segments.EndOpen(name, AnyFile(), now);
}

TEST(PassedSegments, AskForEachFileOnce) {
  PassedSegments segments(2, 0);
  const TimePoint now = Clock::now();
  EXPECT_FALSE(segments.Find({1, 1}, now));
  EXPECT_TRUE(segments.BeginOpen({1, 1}));
  EXPECT_FALSE(segments.BeginOpen({1, 1})) << "somebody asks already";
  EXPECT_TRUE(segments.BeginOpen({2, 1})) << "another process of the node";
  segments.EndOpen({1, 1}, AnyFile(), now);
  EXPECT_TRUE(segments.Find({1, 1}, now));
  EXPECT_FALSE(segments.BeginOpen({1, 1})) << "it is here";
}

TEST(PassedSegments, CloseTheLeastRecentlyUsedWhenTheyAreTooMany) {
  PassedSegments segments(2, 0);
  const TimePoint now = Clock::now();
  Pass(segments, {1, 1}, now);
  Pass(segments, {1, 2}, now);
  const PassedFile first = segments.Find({1, 1}, now);
  const int second = *segments.Find({1, 2}, now);
  EXPECT_TRUE(segments.Find({1, 1}, now));
  Pass(segments, {1, 3}, now);
  EXPECT_EQ(segments.size(), 2U);
  EXPECT_FALSE(segments.Find({1, 2}, now));
  EXPECT_FALSE(IsOpen(second));
  Pass(segments, {1, 4}, now);
  EXPECT_FALSE(segments.Find({1, 1}, now));
  EXPECT_TRUE(IsOpen(*first)) << "as long as somebody reads from it";
}

TEST(PassedSegments, CloseWhatNobodyUses) {
  PassedSegments segments(8, 0);
  const TimePoint now = Clock::now();
  Pass(segments, {1, 1}, now);
  Pass(segments, {1, 2}, now);
  EXPECT_TRUE(segments.Find({1, 1}, now + seconds(50)));
  segments.CloseUnused(now + seconds(40));
  EXPECT_EQ(segments.size(), 1U);
  EXPECT_TRUE(segments.Find({1, 1}, now + seconds(50)));
  segments.Drop({1, 1});
  EXPECT_EQ(segments.size(), 0U);
}

TEST(PassedSegments, AreNotAskedForAWhileAfterAFailure) {
  PassedSegments segments(8, 0);
  const TimePoint now = Clock::now();
  EXPECT_TRUE(segments.Usable(now));
  ASSERT_TRUE(segments.BeginOpen({1, 1}));
  segments.EndOpen({1, 1}, nullptr, now);
  EXPECT_FALSE(segments.Usable(now));
  EXPECT_TRUE(segments.Usable(now + PassedSegments::kPauseAfterFailure));
  EXPECT_TRUE(segments.BeginOpen({1, 1})) << "it may be asked for again";
}

}  // namespace
}  // namespace forebay
