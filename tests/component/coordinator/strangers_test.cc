#include <gtest/gtest.h>
#include <spdlog/sinks/ostream_sink.h>
#include <spdlog/spdlog.h>

#include <sstream>

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

// 10 ms for each would be slow: of so many in a row most come too soon after one another.
TEST_F(Strangers, WhoAskToJoinAgainAndAgainAreHeldUpAndDoNotFillTheLog) {
  StartCoordinator();
  Caller stranger(proto::ROLE_STRANGER, "", secret);
  proto::JoinRequest request;
  request.set_token_id("0123456789ab");
  constexpr std::size_t kAsked = 2000;
  std::size_t overloaded = 0;
  for (std::size_t i = 0; i < kAsked; ++i) {
    const Result<RpcReply> reply = stranger.Call(address(), Method::kJoin, request);
    ASSERT_FALSE(reply.has_value());
    if (reply.error().code == Code::kOverloaded) ++overloaded;
  }
  EXPECT_GT(overloaded, kAsked / 2);
  EXPECT_LT(overloaded, kAsked) << "the first is heard";
  const std::size_t lines = Lines("Join");
  EXPECT_GE(lines, 1u);
  EXPECT_LT(lines, kAsked / 20);
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
