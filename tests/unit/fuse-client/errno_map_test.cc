#include "fuse-client/errno_map.h"

#include <gtest/gtest.h>

#include <cerrno>

namespace forebay {
namespace {

TEST(ErrnoMap, EveryCodeHasTheErrnoThatReadersExpect) {
  EXPECT_EQ(ErrnoOf(Code::kNotFound), ENOENT);
  EXPECT_EQ(ErrnoOf(Code::kStale), ESTALE);
  for (const Code code : {Code::kUnavailable, Code::kOverloaded, Code::kTimeout, Code::kCorrupt,
                          Code::kDenied, Code::kInternal, Code::kInvalid}) {
    EXPECT_EQ(ErrnoOf(code), EIO) << CodeName(code);
  }
}

TEST(ErrnoMap, NamesAreThoseOfTheManualPages) {
  EXPECT_EQ(ErrnoName(0), "OK");
  EXPECT_EQ(ErrnoName(EIO), "EIO");
  EXPECT_EQ(ErrnoName(ENODATA), "ENODATA");
  EXPECT_EQ(ErrnoName(-1), "other");
}

}  // namespace
}  // namespace forebay
