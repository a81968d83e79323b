#include "cachenode/s3_brakes.h"

#include <gtest/gtest.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/use_future.hpp>
#include <future>

#include "common/base/executors.h"

namespace forebay {
namespace {

using namespace std::chrono_literals;

class S3BrakesTest : public testing::Test {
 protected:
  S3BrakesTest() { pool_.Start(); }
  ~S3BrakesTest() override { brakes_.Close(); }

  std::future<Status> Pass(const Uuid& link, Duration patience = 20s) {
    BlockId block;
    block.version.low = ++blocks_;
    block.length = 1000;
    UrgencyNow urgency = [] { return Urgency::kReader; };
    return asio::co_spawn(pool_.Next(),
                          brakes_.Pass(link, block, std::move(urgency), Deadline::After(patience)),
                          asio::use_future);
  }
  S3Brakes::Use UseOf(const Uuid& link) {
    for (const S3Brakes::Use& use : brakes_.Uses())
      if (use.link == link) return use;
    return {};
  }

  const Uuid slow_ = Uuid::Random();
  const Uuid fast_ = Uuid::Random();
  std::uint64_t blocks_ = 0;
  S3Brakes brakes_;
  IoPool pool_{"brakes", 1};
};

TEST_F(S3BrakesTest, AThrottledLinkWaitsAndHoldsUpNoOther) {
  ASSERT_TRUE(Pass(slow_).get());
  int news = 0;
  brakes_.OnNews([&] { ++news; });
  brakes_.NoteThrottled(slow_);
  brakes_.NoteThrottled(slow_);
  EXPECT_EQ(news, 1);
  brakes_.SetLeases({{slow_, 0.1}});
  ASSERT_TRUE(Pass(slow_).get()) << "nothing is owed yet";
  EXPECT_FALSE(brakes_.Open(slow_));
  EXPECT_TRUE(brakes_.Open(fast_));
  std::future<Status> waits = Pass(slow_);
  for (int i = 0; i < 100; ++i) ASSERT_TRUE(Pass(fast_).get());
  EXPECT_EQ(waits.wait_for(0s), std::future_status::timeout);
  const S3Brakes::Use use = UseOf(slow_);
  EXPECT_EQ(use.requests, 2U);
  EXPECT_EQ(use.throttled, 2U);
  EXPECT_EQ(use.waiting, 1U);
  EXPECT_DOUBLE_EQ(use.limit, 0.1);
  EXPECT_EQ(UseOf(fast_).requests, 100U);
  brakes_.SetLeases({{slow_, 1000}});
  EXPECT_TRUE(waits.get()) << "a new lease is felt at once";
}

TEST_F(S3BrakesTest, WhoWaitsInVainHearsThatS3Throttles) {
  ASSERT_TRUE(Pass(slow_).get());
  brakes_.NoteThrottled(slow_);
  brakes_.SetLeases({{slow_, 0.01}});
  ASSERT_TRUE(Pass(slow_).get());
  const Status status = Pass(slow_, 50ms).get();
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code, Code::kTimeout);
  EXPECT_NE(status.error().message.find("S3 throttles"), std::string::npos);
  EXPECT_EQ(UseOf(slow_).waiting, 0U);
}

TEST_F(S3BrakesTest, WhatWasLeasedToTheRunBeforeHoldsUntilTheCoordinatorSpeaks) {
  brakes_.Restore({{slow_, 0.1}});
  ASSERT_TRUE(Pass(slow_).get()) << "nothing is owed yet";
  std::future<Status> waits = Pass(slow_);
  for (int i = 0; i < 100; ++i) ASSERT_TRUE(Pass(fast_).get());
  EXPECT_EQ(waits.wait_for(0s), std::future_status::timeout);
  EXPECT_DOUBLE_EQ(UseOf(slow_).limit, 0.1);
  brakes_.SetLeases({});
  EXPECT_TRUE(waits.get()) << "it knows of no throttling";
  EXPECT_EQ(UseOf(slow_).limit, 0);
}

TEST_F(S3BrakesTest, APauseHoldsEveryLink) {
  brakes_.budget().Set(FillLimits{.paused_since_unix_s = 1});
  EXPECT_FALSE(Pass(fast_, 50ms).get());
  EXPECT_EQ(UseOf(fast_).requests, 0U);
  brakes_.Close();
  EXPECT_EQ(Pass(slow_).get().error().code, Code::kUnavailable);
}

}  // namespace
}  // namespace forebay
