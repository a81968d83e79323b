#include "coordinator/own_requests.h"

#include <gtest/gtest.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/use_future.hpp>
#include <future>
#include <thread>

#include "common/base/executors.h"

namespace forebay {
namespace {

using namespace std::chrono_literals;

class OwnRequestsTest : public testing::Test {
 protected:
  OwnRequestsTest() { pool_.Start(); }

  std::future<Status> Pass(Duration patience = 20s) {
    return asio::co_spawn(pool_.At(0), requests_.Pass(origin_, Deadline::After(patience)),
                          asio::use_future);
  }
  OwnUse Use() const {
    const std::vector<OwnUse> uses = requests_.Uses();
    return uses.empty() ? OwnUse() : uses.front();
  }
  void WaitUntilSomebodyWaits() const {
    for (const TimePoint end = Clock::now() + 20s; Use().waiting == 0 && Clock::now() < end;)
      std::this_thread::yield();
    ASSERT_EQ(Use().waiting, 1U);
  }

  static LinkOrigin Origin() {
    LinkOrigin origin;
    origin.bucket = "bucket";
    origin.prefix = "train/";
    origin.endpoint = "http://s3";
    return origin;
  }

  const LinkOrigin origin_ = Origin();
  OwnRequests requests_;
  IoPool pool_{"own", 1};
};

TEST_F(OwnRequestsTest, WithoutALimitAllPassAndAreCounted) {
  for (int i = 0; i < 50; ++i) ASSERT_TRUE(Pass().get());
  requests_.NoteThrottled(origin_);
  EXPECT_EQ(Use().place, S3Place::Of(origin_));
  EXPECT_EQ(Use().requests, 50U);
  EXPECT_EQ(Use().throttled, 1U);
  EXPECT_EQ(Use().waiting, 0U);
}

TEST_F(OwnRequestsTest, ALeaseHoldsBackAndAGreaterOneIsFelt) {
  ASSERT_TRUE(Pass().get());
  requests_.SetLeases({{S3Place::Of(origin_), 0.01}});
  ASSERT_TRUE(Pass().get()) << "nothing is owed yet";
  std::future<Status> waits = Pass();
  WaitUntilSomebodyWaits();
  requests_.SetLeases({});
  EXPECT_TRUE(waits.get());
  EXPECT_EQ(Use().requests, 3U);
  EXPECT_EQ(Use().waiting, 0U);
}

TEST_F(OwnRequestsTest, WhoWaitsInVainHearsThatS3Throttles) {
  ASSERT_TRUE(Pass().get());
  requests_.SetLeases({{S3Place::Of(origin_), 0.01}});
  ASSERT_TRUE(Pass().get());
  const Status status = Pass(50ms).get();
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code, Code::kOverloaded);
  EXPECT_NE(status.error().message.find("S3 throttles s3://bucket/train/"), std::string::npos);
  EXPECT_EQ(Use().requests, 2U);
}

}  // namespace
}  // namespace forebay
