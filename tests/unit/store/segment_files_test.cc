#include <gtest/gtest.h>

#include <atomic>
#include <random>
#include <thread>

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

// Finding takes no lock: what is taken out meanwhile is given up by its finders first.
TEST(SegmentFiles, AreFoundRightOrNotAtAllWhileTheyComeAndGo) {
  constexpr std::uint32_t kNumbers = 64;
  constexpr std::uint64_t kFinds = 5000;
  const auto file_of = [](std::uint32_t number) {
    Uuid link;
    link.bytes[0] = static_cast<std::uint8_t>(number);
    return std::make_shared<const SegmentFile>(FileDescriptor(),
                                               std::make_shared<LinkState>(link, TimePoint()));
  };
  SegmentFiles files(kNumbers / 2);
  std::atomic<std::uint64_t> found{0};
  std::atomic<bool> done{false};
  const auto find = [&](unsigned seed) {
    std::mt19937 random(seed);
    while (!done) {
      const auto number = static_cast<std::uint32_t>(random() % kNumbers);
      const auto file = files.Find(0, number);
      if (!file) continue;
      EXPECT_EQ(file->link->id.bytes[0], number);
      ++found;
    }
  };
  {
    std::jthread finder(find, 1U);
    std::jthread second_finder(find, 2U);
    std::mt19937 random(3);
    while (found < kFinds) {
      const auto number = static_cast<std::uint32_t>(random() % kNumbers);
      if (random() % 2 == 0) {
        files.Insert(0, number, file_of(number));
      } else {
        files.Erase(0, number);
      }
    }
    done = true;
  }
  const auto last = file_of(1);
  files.Erase(0, 1);
  files.Insert(0, 1, last);
  EXPECT_EQ(last.use_count(), 2);
  files.Erase(0, 1);
  EXPECT_EQ(last.use_count(), 1) << "it is given up at once";
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
