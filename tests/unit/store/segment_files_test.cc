#include <gtest/gtest.h>

#include "cachenode/store/segment_file.h"

namespace forebay {
namespace {

std::shared_ptr<const SegmentFile> File() { return std::make_shared<const SegmentFile>(); }

TEST(SegmentFiles, LongestUnusedOneIsClosedFirst) {
  SegmentFiles files(2);
  files.Insert(0, 1, File());
  files.Insert(0, 2, File());
  EXPECT_TRUE(files.Find(0, 1));
  files.Insert(0, 3, File());
  EXPECT_TRUE(files.Find(0, 1));
  EXPECT_FALSE(files.Find(0, 2));
  EXPECT_TRUE(files.Find(0, 3));
}

TEST(SegmentFiles, ReaderKeepsAClosedOneOpen) {
  SegmentFiles files(1);
  const auto first = File();
  const std::weak_ptr<const SegmentFile> watched = first;
  files.Insert(0, 1, first);
  files.Insert(0, 2, File());
  EXPECT_FALSE(files.Find(0, 1));
  EXPECT_FALSE(watched.expired());
}

TEST(SegmentFiles, SameNumberOnTwoDisksAreTwoSegments) {
  SegmentFiles files(8);
  const auto first = File();
  const auto second = File();
  files.Insert(0, 7, first);
  files.Insert(1, 7, second);
  EXPECT_EQ(files.Find(0, 7), first);
  EXPECT_EQ(files.Find(1, 7), second);
  files.Erase(0, 7);
  EXPECT_FALSE(files.Find(0, 7));
  EXPECT_EQ(files.Find(1, 7), second);
}

}  // namespace
}  // namespace forebay
