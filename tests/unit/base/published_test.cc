#include "common/base/published.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <thread>
#include <vector>

namespace forebay {
namespace {

TEST(Published, TheLastValueIsSeenAndTheOneBeforeIsGone) {
  const auto first = std::make_shared<int>(1);
  Published<std::shared_ptr<int>> value(first);
  EXPECT_EQ(value.Copy(), first);
  EXPECT_EQ(first.use_count(), 2);
  value.Publish(std::make_shared<int>(2));
  EXPECT_EQ(value.Read([](const std::shared_ptr<int>& seen) { return *seen; }), 2);
  EXPECT_EQ(first.use_count(), 1);
}

// Each value is full of one number; one that is gone would be freed memory.
TEST(Published, NobodySeesAHalfOrALateValueWhileItIsReplaced) {
  constexpr std::uint64_t kValues = 200;
  using Value = std::vector<std::uint64_t>;
  Published<Value> value(Value(100, 0));
  std::atomic<bool> done{false};
  const auto look = [&] {
    std::uint64_t last = 0;
    while (!done) {
      const auto seen = value.Read([](const Value& now) {
        for (const std::uint64_t one : now) EXPECT_EQ(one, now.front());
        return now.front();
      });
      EXPECT_GE(seen, last) << "values go forward";
      last = seen;
    }
  };
  std::jthread reader(look);
  std::jthread second_reader(look);
  for (std::uint64_t i = 1; i <= kValues; ++i) value.Publish(Value(100, i));
  done = true;
}

}  // namespace
}  // namespace forebay
