#include <gtest/gtest.h>
#include <spdlog/sinks/ostream_sink.h>
#include <spdlog/spdlog.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "common/base/token_bucket.h"
#include "coordinator/join_brake.h"
#include "tests/component/coordinator/cluster_fixture.h"

// What others can make a coordinator write into its log: machines without a certificate, which may
// ask for one thing alone, to join, and whoever comes again and again.
namespace forebay {
namespace {

class Strangers : public ClusterTest {
 protected:
  Strangers() : before_(spdlog::default_logger()) {
    spdlog::set_default_logger(std::make_shared<spdlog::logger>(
        "", std::make_shared<spdlog::sinks::ostream_sink_mt>(log_)));
  }
  ~Strangers() override {
    StopCoordinator();
    spdlog::set_default_logger(before_);
  }

  /// Lines of the log that hold `text`; nobody serves any more.
  std::size_t Lines(const std::string& text) {
    StopCoordinator();
    std::size_t count = 0;
    std::istringstream log(log_.str());
    for (std::string line; std::getline(log, line);) {
      if (line.find(text) != std::string::npos) ++count;
    }
    return count;
  }

 private:
  std::ostringstream log_;
  const std::shared_ptr<spdlog::logger> before_;
};

// So many at once that the brake holds up most, however slow this machine is; what it lets through
// is bounded by the time that it took.
TEST_F(Strangers, WhoAskToJoinAgainAndAgainAreHeldUpAndDoNotFillTheLog) {
  StartCoordinator();
  Caller stranger(proto::ROLE_STRANGER, "", secret);
  proto::JoinRequest request;
  request.set_token_id("0123456789ab");
  constexpr std::size_t kOverloaded = 500;
  constexpr std::size_t kMostHeard = 20'000;
  std::atomic<std::size_t> heard{0};
  std::atomic<std::size_t> overloaded{0};
  const TimePoint began = Clock::now();
  {
    std::vector<std::jthread> machines(16);
    for (std::jthread& machine : machines) {
      machine = std::jthread([&] {
        while (overloaded < kOverloaded && heard < kMostHeard) {
          const Result<RpcReply> reply = stranger.Call(address(), Method::kJoin, request);
          EXPECT_FALSE(reply.has_value());
          ++(!reply && reply.error().code == Code::kOverloaded ? overloaded : heard);
        }
      });
    }
  }
  const std::chrono::duration<double> took = Clock::now() - began;
  const std::chrono::duration<double> burst = TokenBucket::kBurst;
  EXPECT_GE(overloaded, kOverloaded);
  EXPECT_GE(heard, 1u);
  EXPECT_LE(static_cast<double>(heard), 2 + JoinBrake::kJoinsPerSecond * (took + burst).count());
  const std::size_t lines = Lines("Join");
  EXPECT_GE(lines, 1u);
  EXPECT_LE(static_cast<double>(lines), 2 + JoinBrake::kLinesPerSecond * (took + burst).count());
}

TEST_F(Strangers, WhoseOpeningsAreRefusedDoNotFillTheLog) {
  StartCoordinator();
  constexpr std::size_t kTried = 100;
  for (std::size_t i = 0; i < kTried; ++i) {
    Caller stranger(proto::ROLE_CLIENT, "c", secret, Uuid::Random());
    ASSERT_FALSE(stranger.Call(address(), Method::kGetRing, proto::GetRingRequest()).has_value());
  }
  const std::size_t lines = Lines("refused a connection");
  EXPECT_GE(lines, 1u);
  EXPECT_LT(lines, kTried / 2);
}

// Peers with tables of two restored clusters, say.
TEST_F(Strangers, PeersAtSeveralHigherEpochsAreALineForEachHighest) {
  StartCoordinator();
  Caller one(proto::ROLE_ADMIN, "a", secret, {}, 50);
  Caller two(proto::ROLE_ADMIN, "a", secret, {}, 60);
  for (int i = 0; i < 20; ++i) {
    for (Caller* each : {&one, &two}) {
      ASSERT_TRUE(each->Call(address(), Method::kGetRing, proto::GetRingRequest()).has_value());
    }
  }
  EXPECT_EQ(Lines("a peer is at ring epoch"), 2u);
}

}  // namespace
}  // namespace forebay
