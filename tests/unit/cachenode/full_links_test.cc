#include "cachenode/full_links.h"

#include <gtest/gtest.h>

namespace forebay {
namespace {

TEST(FullLinks, LetsOneBlockThroughNowAndThen) {
  FullLinks full;
  const Uuid link = Uuid::Random();
  TimePoint now = TimePoint() + std::chrono::seconds(100);
  EXPECT_TRUE(full.MayHaveRoom(link, 1000, 7, now));
  full.NoteRefused(link, 1000, 7, now);
  EXPECT_FALSE(full.MayHaveRoom(link, 1000, 7, now));
  EXPECT_TRUE(full.MayHaveRoom(link, 999, 7, now)) << "less than what was refused";
  EXPECT_TRUE(full.MayHaveRoom(Uuid::Random(), 1000, 7, now)) << "another link";
  now += FullLinks::kProbeEvery;
  EXPECT_TRUE(full.MayHaveRoom(link, 1000, 7, now));
  EXPECT_FALSE(full.MayHaveRoom(link, 1000, 7, now)) << "one";
}

TEST(FullLinks, RoomForAsLargeABlockMeansThatThereIsRoom) {
  FullLinks full;
  const Uuid link = Uuid::Random();
  const TimePoint now = TimePoint() + std::chrono::seconds(100);
  full.NoteRefused(link, 1000, 0, now);
  full.NoteRefused(link, 2000, 0, now);
  full.NoteKept(link, 500);
  EXPECT_FALSE(full.MayHaveRoom(link, 1000, 0, now)) << "the small one says nothing";
  full.NoteKept(link, 1000);
  EXPECT_TRUE(full.MayHaveRoom(link, 1000, 0, now));
}

TEST(FullLinks, RoomThatWasMadeEndsARefusal) {
  FullLinks full;
  const Uuid link = Uuid::Random();
  const TimePoint now = TimePoint() + std::chrono::seconds(100);
  full.NoteRefused(link, 1000, 3, now);
  EXPECT_TRUE(full.MayHaveRoom(link, 1000, 4, now));
  EXPECT_TRUE(full.MayHaveRoom(link, 1000, 4, now)) << "not for one block alone";
  full.NoteRefused(link, 2000, 4, now);
  EXPECT_FALSE(full.MayHaveRoom(link, 2000, 4, now)) << "it was not enough";
  full.NoteRefused(link, 1000, 3, now);
  EXPECT_TRUE(full.MayHaveRoom(link, 1000, 4, now)) << "an answer from before";
}

TEST(FullLinks, WhoAsksAnewIsNotRefusedForWhatWasBefore) {
  FullLinks full;
  const Uuid link = Uuid::Random();
  const TimePoint now = TimePoint() + std::chrono::seconds(100);
  full.NoteRefused(link, 1000, 0, now);
  full.Forget(link);
  EXPECT_TRUE(full.MayHaveRoom(link, 1000, 0, now));
  EXPECT_TRUE(full.MayHaveRoom(link, 1000, 0, now));
}

}  // namespace
}  // namespace forebay
