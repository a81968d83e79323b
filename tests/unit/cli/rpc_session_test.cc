// The transport over real sockets of this machine.
#include "cli/rpc_session.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include <atomic>
#include <boost/asio/ip/tcp.hpp>
#include <chrono>
#include <csignal>
#include <thread>
#include <utility>

#include "common/base/executors.h"
#include "common/wire/handshake.h"
#include "common/wire/server.h"
#include "proto/coordinator.pb.h"
#include "tests/fakes/fake_coordinator.h"
#include "tests/fakes/temp_dir.h"
#include "tests/fakes/test_cluster.h"

namespace forebay {
namespace {

using ::testing::HasSubstr;

Task<Result<RpcReply>> RingAnswer(RpcCall) { co_return ReplyWith(proto::GetRingReply()); }

Task<Result<RpcReply>> RefusedStats(RpcCall) {
  co_return Fail(Code::kUnavailable, "the coordinator's own word");
}

/// Answers after the caller has lost patience.
Task<Result<RpcReply>> SlowAnswer(RpcCall) {
  (void)co_await SleepFor(std::chrono::seconds(30));
  co_return ReplyWith(proto::UnlinkReply());
}

/// Sends this process Ctrl-C, then answers no more.
Task<Result<RpcReply>> CtrlC(RpcCall) {
  ::kill(::getpid(), SIGINT);
  (void)co_await SleepFor(std::chrono::seconds(30));
  co_return ReplyWith(proto::TaskState());
}

class RpcSessionTest : public ::testing::Test {
 protected:
  RpcSessionTest() {
    // NOLINTNEXTLINE(concurrency-mt-unsafe): no other thread runs yet
    ::setenv("FOREBAY_RUNTIME_DIR", runtime_.path().c_str(), 1);
  }
  ~RpcSessionTest() override {
    if (server_) server_->Stop(Deadline::After(std::chrono::seconds(5)));
    io_.Stop();
  }

  /// A coordinator; its address.
  std::string Serve(const std::string& secret, std::shared_ptr<const Trust> trust = nullptr) {
    io_.Start();
    RpcServerOptions options;
    options.listen = {"127.0.0.1:0"};
    options.credentials.role = proto::ROLE_COORDINATOR;
    options.credentials.program = "test";
    options.credentials.secret = Secret(secret);
    options.credentials.trust = std::move(trust);
    std::vector<MethodEntry> methods;
    methods.push_back({Method::kGetRing, RingAnswer});
    methods.push_back({Method::kStats, RefusedStats});
    methods.push_back({Method::kUnlink, SlowAnswer});
    methods.push_back({Method::kGetTask, CtrlC});
    methods.push_back({Method::kPin, [this](RpcCall call) {
                         asked_ = true;
                         return SlowAnswer(std::move(call));
                       }});
    server_ = std::make_unique<RpcServer>(
        io_, options, std::move(methods), [] { return std::uint64_t{1}; }, [](std::uint64_t) {});
    const Status started = server_->Start();
    EXPECT_TRUE(started.has_value()) << started.error().message;
    return server_->addresses().front();
  }
  static std::string OwnSecret() { return std::string(LoadOrCreateSecret().value().Reveal()); }

  std::atomic<bool> asked_{false};  // to pin
  fakes::TempDir runtime_;
  IoPool io_{"server", 1};
  std::unique_ptr<RpcServer> server_;
};

/// A port that nobody listens at.
std::string NobodysAddress() {
  asio::io_context context;
  asio::ip::tcp::acceptor acceptor(context,
                                   asio::ip::tcp::endpoint(asio::ip::address_v4::loopback(), 0));
  return "127.0.0.1:" + std::to_string(acceptor.local_endpoint().port());
}

TEST_F(RpcSessionTest, NobodyThereIsExitOneWithAllAddressesAndWhatToDo) {
  const std::string first = NobodysAddress();
  const std::string second = NobodysAddress();
  RpcSession session({.coordinators = {first, second}, .timeout = std::nullopt});
  const auto answer = session.Call(Method::kStats, proto::StatsRequest());
  ASSERT_FALSE(answer.has_value());
  EXPECT_EQ(answer.error().ExitCode(), Exit::kFailed);
  EXPECT_EQ(answer.error().error.code, Code::kUnavailable);
  EXPECT_THAT(answer.error().error.message, HasSubstr(first));
  EXPECT_THAT(answer.error().error.message, HasSubstr(second));
  EXPECT_THAT(answer.error().hint, HasSubstr("--coordinator"));
}

TEST_F(RpcSessionTest, ACoordinatorThatHangsIsGivenUpWithinFiveSeconds) {
  asio::io_context context;
  asio::ip::tcp::acceptor silent(context,
                                 asio::ip::tcp::endpoint(asio::ip::address_v4::loopback(), 0));
  const std::string address = "127.0.0.1:" + std::to_string(silent.local_endpoint().port());
  RpcSession session({.coordinators = {address}, .timeout = std::nullopt});
  const TimePoint begin = Clock::now();
  const auto answer = session.Call(Method::kStats, proto::StatsRequest());
  ASSERT_FALSE(answer.has_value());
  EXPECT_EQ(answer.error().ExitCode(), Exit::kFailed);
  EXPECT_LT(Clock::now() - begin, std::chrono::seconds(7));
}

TEST_F(RpcSessionTest, TheNextCoordinatorIsAsked) {
  const std::string live = Serve(OwnSecret());
  RpcSession session({.coordinators = {NobodysAddress(), live}, .timeout = std::nullopt});
  ASSERT_TRUE(session.Call(Method::kGetRing, proto::GetRingRequest()).has_value());
  EXPECT_EQ(session.Address(), live);
}

TEST_F(RpcSessionTest, OneThatRefusesIsPassedOver) {
  const fakes::FakeCoordinator stranger("of another cluster, 32 bytes long");
  const std::string live = Serve(OwnSecret());
  RpcSession session({.coordinators = {stranger.address(), live}, .timeout = std::nullopt});
  ASSERT_TRUE(session.Call(Method::kGetRing, proto::GetRingRequest()).has_value());
  EXPECT_EQ(session.Address(), live);
  // Nobody else answers: it is a refusal only where all refuse.
  RpcSession lost({.coordinators = {stranger.address(), NobodysAddress()}, .timeout = {}});
  const auto unreached = lost.Call(Method::kGetRing, proto::GetRingRequest());
  ASSERT_FALSE(unreached.has_value());
  EXPECT_EQ(unreached.error().error.code, Code::kUnavailable);
  EXPECT_THAT(unreached.error().error.message, HasSubstr(stranger.address()));
  RpcSession refused({.coordinators = {stranger.address(), stranger.address()}, .timeout = {}});
  EXPECT_EQ(refused.Call(Method::kGetRing, proto::GetRingRequest()).error().error.code,
            Code::kDenied);
}

TEST_F(RpcSessionTest, WhatTheCoordinatorAnswersIsPassedOn) {
  RpcSession session({.coordinators = {Serve(OwnSecret())}, .timeout = std::nullopt});
  const auto answer = session.Call(Method::kStats, proto::StatsRequest());
  ASSERT_FALSE(answer.has_value());
  EXPECT_EQ(answer.error().error, (Error{Code::kUnavailable, "the coordinator's own word"}));
  EXPECT_EQ(answer.error().hint, "");
}

TEST_F(RpcSessionTest, OfAVerbThatIsLostOnItsWayItIsSaidThatItMayHaveBeenDone) {
  RpcSession session({.coordinators = {Serve(OwnSecret())}, .timeout = std::nullopt});
  std::thread end([this] {
    while (!asked_) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    server_->Stop(Deadline::After(Duration::zero()));
  });
  const auto answer = session.Call(Method::kPin, proto::PinRequest());
  end.join();
  ASSERT_FALSE(answer.has_value());
  EXPECT_EQ(answer.error().ExitCode(), Exit::kFailed);
  EXPECT_THAT(answer.error().error.message, HasSubstr("the connection was lost"));
  EXPECT_THAT(answer.error().hint, HasSubstr("whether it was done is not known"));
}

TEST_F(RpcSessionTest, AViewersCertificateIsShownWhereThereIsNoAdministrators) {
  // NOLINTNEXTLINE(concurrency-mt-unsafe): no other thread runs yet
  ::setenv("FOREBAY_RUNTIME_DIR", "/dev/null/none", 1);  // with certificates nobody needs it
  const TestCluster cluster;
  const fakes::TempDir temp;
  const TrustFolder folder(temp / "trust");
  ASSERT_TRUE(folder.Save(cluster.Member(proto::ROLE_VIEWER, "ann")).has_value());
  const std::string address =
      Serve(std::string(32, 'x'), cluster.TrustOf(proto::ROLE_COORDINATOR, "coordinator"));
  RpcSession session(
      {.coordinators = {address}, .timeout = std::nullopt, .trust_dir = folder.path()});
  const auto looks = session.Call(Method::kStats, proto::StatsRequest());
  EXPECT_EQ(looks.error().error.message, "the coordinator's own word");
  const auto refused = session.Call(Method::kUnlink, proto::UnlinkRequest());
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().ExitCode(), Exit::kFailed);
  EXPECT_THAT(refused.error().error.message, HasSubstr("viewer ann may look and change nothing"));
}

TEST_F(RpcSessionTest, AnotherUsersCoordinatorIsRefused) {
  RpcSession session({.coordinators = {Serve(std::string(32, 'x'))}, .timeout = std::nullopt});
  const auto answer = session.Call(Method::kStats, proto::StatsRequest());
  ASSERT_FALSE(answer.has_value());
  EXPECT_EQ(answer.error().error.code, Code::kDenied);
  EXPECT_EQ(answer.error().ExitCode(), Exit::kFailed);
}

TEST_F(RpcSessionTest, TimeoutIsExitFour) {
  RpcSession session(
      {.coordinators = {Serve(OwnSecret())}, .timeout = std::chrono::milliseconds(300)});
  const auto answer = session.Call(Method::kUnlink, proto::UnlinkRequest());
  ASSERT_FALSE(answer.has_value());
  EXPECT_EQ(answer.error().ExitCode(), Exit::kTimeout);
  EXPECT_TRUE(session.TimedOut());
}

TEST_F(RpcSessionTest, APauseEndsWithTheTimeout) {
  RpcSession session({.coordinators = {"127.0.0.1:1"}, .timeout = std::chrono::milliseconds(50)});
  EXPECT_TRUE(session.Pause(std::chrono::hours(1)));
  EXPECT_TRUE(session.TimedOut());
}

TEST_F(RpcSessionTest, CtrlCEndsAPauseOnceItIsCaught) {
  RpcSession session({.coordinators = {"127.0.0.1:1"}, .timeout = std::nullopt});
  session.CatchInterrupts();
  EXPECT_TRUE(session.Pause(std::chrono::milliseconds(1)));
  ::kill(::getpid(), SIGINT);
  EXPECT_FALSE(session.Pause(std::chrono::hours(1)));
  EXPECT_TRUE(session.interrupted());
}

TEST_F(RpcSessionTest, CtrlCEndsACallOnceItIsCaught) {
  RpcSession session({.coordinators = {Serve(OwnSecret())}, .timeout = std::nullopt});
  session.CatchInterrupts();
  EXPECT_FALSE(session.Call(Method::kGetTask, proto::GetTaskRequest()).has_value());
  EXPECT_TRUE(session.interrupted());
}

}  // namespace
}  // namespace forebay
