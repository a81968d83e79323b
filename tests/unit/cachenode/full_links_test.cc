#include "cachenode/full_links.h"

#include <gtest/gtest.h>

namespace forebay {
namespace {

TEST(FullLinks, LetsOneBlockThroughNowAndThen) {
  FullLinks full;
  const Uuid link = Uuid::Random();
  TimePoint now = TimePoint() + std::chrono::seconds(100);
  EXPECT_TRUE(full.MayHaveRoom(link, 1000, now));
  full.NoteRefused(link, 1000, now);
  EXPECT_FALSE(full.MayHaveRoom(link, 1000, now));
  EXPECT_TRUE(full.MayHaveRoom(link, 999, now)) << "less than what was refused";
  EXPECT_TRUE(full.MayHaveRoom(Uuid::Random(), 1000, now)) << "another link";
  now += FullLinks::kProbeEvery;
  EXPECT_TRUE(full.MayHaveRoom(link, 1000, now));
  EXPECT_FALSE(full.MayHaveRoom(link, 1000, now)) << "one";
}

TEST(FullLinks, RoomForAsLargeABlockMeansThatThereIsRoom) {
  FullLinks full;
  const Uuid link = Uuid::Random();
  const TimePoint now = TimePoint() + std::chrono::seconds(100);
  full.NoteRefused(link, 1000, now);
  full.NoteRefused(link, 2000, now);
  full.NoteKept(link, 500);
  EXPECT_FALSE(full.MayHaveRoom(link, 1000, now)) << "the small one says nothing";
  full.NoteKept(link, 1000);
  EXPECT_TRUE(full.MayHaveRoom(link, 1000, now));
}

}  // namespace
}  // namespace forebay
