#include "common/snapshot/etag.h"

#include <gtest/gtest.h>

namespace forebay {
namespace {

constexpr const char* kMd5 = "0123456789abcdef0f1e2d3c4b5a6978";

TEST(Md5Etag, ComesBackExactly) {
  for (const std::string tail : {"", "-1", "-10", "-10000", "-65535"}) {
    const auto packed = PackEtag(kMd5 + tail);
    ASSERT_TRUE(packed) << tail;
    EXPECT_EQ(ToString(*packed), kMd5 + tail);
  }
}

TEST(Md5Etag, LeavesEveryOtherFormAlone) {
  for (const std::string tail :
       {"-", "-0", "-01", "-65536", "--1", "-1x", "x", "0", "-+1", "- 1"}) {
    EXPECT_FALSE(PackEtag(kMd5 + tail)) << tail;
  }
  EXPECT_FALSE(PackEtag(""));
  EXPECT_FALSE(PackEtag("0123456789ABCDEF0F1E2D3C4B5A6978"));
  EXPECT_FALSE(PackEtag("0123456789abcdeg0f1e2d3c4b5a6978"));
  EXPECT_FALSE(PackEtag(std::string(kMd5).substr(1)));
}

}  // namespace
}  // namespace forebay
