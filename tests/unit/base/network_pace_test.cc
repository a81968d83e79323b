#include "common/base/network_pace.h"

#include <gtest/gtest.h>

#include <array>
#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <exception>
#include <optional>

namespace forebay {
namespace {

constexpr std::uint64_t kHourOfBytes = 3'600;  // at one byte a second

class NetworkPaceTest : public ::testing::Test {
 protected:
  struct Answer {
    std::optional<Status> passed;
    asio::cancellation_signal cancel;
  };

  /// Asks for the turn of an hour's bytes, and lets happen what happens at once.
  void Ask(Answer& answer, Duration patience) {
    Spawn(answer, pace_.Pass(kHourOfBytes, Deadline::After(patience)));
  }
  void Spawn(Answer& answer, Task<Status> asked) {
    asio::co_spawn(context_, std::move(asked),
                   asio::bind_cancellation_slot(
                       answer.cancel.slot(), [&answer](const std::exception_ptr&, Status passed) {
                         answer.passed = std::move(passed);
                       }));
    Poll();
  }
  void Poll() {
    context_.restart();
    context_.poll();
  }

  NetworkPace pace_{1, "the bound"};
  std::array<Answer, 4> answers_;
  asio::io_context context_{1};  // Last: what waits on it refers to the others.
};

TEST_F(NetworkPaceTest, AnAnswerIsPaidForByThoseBehindIt) {
  Answer& first = answers_[0];
  Answer& second = answers_[1];
  Ask(first, std::chrono::hours(1));
  ASSERT_TRUE(first.passed);
  EXPECT_TRUE(first.passed->has_value());
  Ask(second, std::chrono::hours(2));
  EXPECT_FALSE(second.passed);
}

TEST_F(NetworkPaceTest, WhoseTurnComesTooLateIsRefusedAtOnce) {
  Answer& first = answers_[0];
  Answer& second = answers_[1];
  Ask(first, std::chrono::hours(1));
  Ask(second, std::chrono::minutes(50));
  ASSERT_TRUE(second.passed);
  ASSERT_FALSE(second.passed->has_value());
  EXPECT_EQ(second.passed->error().code, Code::kOverloaded);
  EXPECT_EQ(second.passed->error().message,
            "the bound, 1 bytes a second, leaves no room for this read");
}

TEST_F(NetworkPaceTest, WhoIsCancelledLeavesItsTurnToOthers) {
  Answer& first = answers_[0];
  Answer& second = answers_[1];
  Answer& third = answers_[2];
  Answer& fourth = answers_[3];
  Ask(first, std::chrono::hours(1));
  Ask(second, std::chrono::hours(3));
  Ask(third, std::chrono::minutes(90));
  ASSERT_TRUE(third.passed) << "two hours are ahead of it";
  second.cancel.emit(asio::cancellation_type::terminal);
  Poll();
  ASSERT_TRUE(second.passed);
  Ask(fourth, std::chrono::minutes(90));
  EXPECT_FALSE(fourth.passed) << "it waits for one hour";
}

TEST_F(NetworkPaceTest, WhatWasNotKnownBeforeIsPaidForAfterwards) {
  pace_.Charge(kHourOfBytes);
  Answer& answer = answers_[0];
  Ask(answer, std::chrono::minutes(50));
  ASSERT_TRUE(answer.passed);
  EXPECT_FALSE(answer.passed->has_value());
}

TEST_F(NetworkPaceTest, WhatIsOwedIsWaitedForUntilLittleIsLeft) {
  Answer& little = answers_[0];
  Answer& much = answers_[1];
  pace_.Charge(kHourOfBytes);
  Spawn(little, pace_.Settle(std::chrono::minutes(61)));
  ASSERT_TRUE(little.passed);
  EXPECT_TRUE(little.passed->has_value());
  Spawn(much, pace_.Settle(std::chrono::minutes(59)));
  EXPECT_FALSE(much.passed);
  much.cancel.emit(asio::cancellation_type::terminal);
  Poll();
  ASSERT_TRUE(much.passed);
  EXPECT_FALSE(much.passed->has_value());
}

TEST_F(NetworkPaceTest, WhatDidNotGoIsGivenBack) {
  pace_.Charge(2 * kHourOfBytes);
  pace_.GiveBack(2 * kHourOfBytes);
  Answer& answer = answers_[0];
  Ask(answer, std::chrono::minutes(1));
  ASSERT_TRUE(answer.passed);
  EXPECT_TRUE(answer.passed->has_value());
}

}  // namespace
}  // namespace forebay
