#include "cachenode/byte_pace.h"

#include <gtest/gtest.h>

#include <boost/asio/io_context.hpp>

namespace forebay {
namespace {

class BytePaceTest : public ::testing::Test {
 protected:
  /// How many of three pieces of an hour each pass at once.
  int PassedAtOnce(BytePace& pace) {
    asio::io_context context(1);
    int passed = 0;
    for (int i = 0; i < 3; ++i) Spawn(context, PassOne(pace, passed));
    context.poll();
    return passed;
  }

  static Task<void> PassOne(BytePace& pace, int& passed) {
    co_await pace.Pass(3'600);
    ++passed;
  }
};

TEST_F(BytePaceTest, APieceIsPaidForByThoseBehindIt) {
  BytePace pace(1);
  EXPECT_EQ(PassedAtOnce(pace), 1);
  EXPECT_EQ(PassedAtOnce(pace), 0) << "the debt is everybody's";
}

TEST_F(BytePaceTest, WithoutARateEverythingPasses) {
  BytePace pace(0);
  EXPECT_EQ(PassedAtOnce(pace), 3);
}

}  // namespace
}  // namespace forebay
