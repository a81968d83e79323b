#include "fuse-client/top_file.h"

#include <gtest/gtest.h>

namespace forebay {
namespace {

TEST(TopFile, IsNotShownBeforeItHasAText) {
  TopFile file;
  EXPECT_FALSE(file.shown());
  EXPECT_EQ(file.size(), 0u);
  file.Set("abc");
  EXPECT_TRUE(file.shown());
  EXPECT_EQ(file.size(), 3u);
}

TEST(TopFile, WhoHasOpenedItReadsItAsItWas) {
  TopFile file;
  file.Set("first text");
  const std::uint64_t first = file.Open();
  file.Set("second");
  const std::uint64_t second = file.Open();
  EXPECT_EQ(file.Read(first, 0, 100), "first text");
  EXPECT_EQ(file.Read(first, 6, 2), "te");
  EXPECT_EQ(file.Read(first, 10, 100), "");
  EXPECT_EQ(file.Read(first, 11, 100), "");
  EXPECT_EQ(file.Read(second, 0, 100), "second");
  file.Close(first);
  EXPECT_EQ(file.Read(first, 0, 100), "second") << "as a handle of an earlier process";
}

}  // namespace
}  // namespace forebay
