// The end of a server: nobody gets in any more, and those inside get their answers.
#include <gtest/gtest.h>
#include <unistd.h>

#include <boost/asio/this_coro.hpp>
#include <filesystem>

#include "common/base/notifier.h"
#include "tests/component/wire/raw_peer.h"
#include "tests/component/wire/wire_fixture.h"

namespace forebay {
namespace {

constexpr std::chrono::milliseconds kShort{300};

/// Calls wait inside their handler until the test opens the gate.
struct Gate {
  Notifier opened;
  std::atomic<bool> open{false};
  std::atomic<int> waiting{0};
  std::atomic<int> dropped{0};

  void Open() {
    open.store(true);
    opened.NotifyAll();
  }
};

/// Counts a call that ends without passing the gate.
struct Passage {
  explicit Passage(std::shared_ptr<Gate> of) : gate(std::move(of)) { gate->waiting.fetch_add(1); }
  ~Passage() {
    if (!passed) gate->dropped.fetch_add(1);
  }
  Passage(const Passage&) = delete;
  Passage& operator=(const Passage&) = delete;
  std::shared_ptr<Gate> gate;
  bool passed = false;
};

Task<Result<RpcReply>> WaitAtGate(std::shared_ptr<Gate> gate, RpcCall call) {
  const asio::any_io_executor executor = co_await asio::this_coro::executor;
  Notifier::Ticket ticket = gate->opened.Enlist(executor);
  Passage passage(gate);
  if (!gate->open.load()) {
    const bool opened = co_await ticket.Wait(Deadline::After(kPatience));
    if (!opened) co_return Fail(Code::kTimeout, "nobody opened the gate");
  }
  passage.passed = true;
  co_return Echo(NumberOf(call), kMaxPayloadBytes);
}

class Stop : public WireFixture {
 protected:
  void ServeWithGate() {
    Serve([gate = gate_](RpcCall call) { return WaitAtGate(gate, std::move(call)); });
    Connect();
  }
  std::future<void> StopWithin(Duration drain) {
    return std::async(std::launch::async, [this, drain] { server_->Stop(Deadline::After(drain)); });
  }

  std::shared_ptr<Gate> gate_ = std::make_shared<Gate>();
};

TEST_F(Stop, WhenItReturnsNobodyListensAndTheAddressIsFree) {
  server_io_.Start();
  RpcServerOptions options;
  options.listen = {"127.0.0.1:0", "unix:" + ::testing::TempDir() + "/forebay-stop-" +
                                       std::to_string(getpid()) + ".sock"};
  options.credentials = Who(proto::ROLE_NODE);
  for (int i = 0; i < 100; ++i) {
    RpcServer server(
        server_io_, options, {}, [] { return std::uint64_t{1}; }, [](std::uint64_t) {});
    const Status started = server.Start();
    ASSERT_TRUE(started.has_value()) << started.error().message;
    // The same addresses each time: the next server could not have them while this one listens.
    options.listen = server.addresses();
    const RawPeer halfway = RawPeer::ConnectTo(options.listen.front());
    ASSERT_TRUE(halfway.connected());
    server.Stop(Deadline::After(std::chrono::seconds(5)));
    ASSERT_FALSE(RawPeer::ConnectTo(options.listen.front()).connected()) << i;
    ASSERT_FALSE(std::filesystem::exists(options.listen.back().substr(5))) << i;
    ASSERT_TRUE(halfway.Ends());
  }
}

TEST_F(Stop, CallsInFlightGetTheirWholeAnswersAndNewOnesAreRefused) {
  ServeWithGate();
  std::vector<std::future<Result<RpcReply>>> calls;
  for (std::uint32_t i = 1; i <= 8; ++i) calls.push_back(Start(Ask(i)));
  ASSERT_TRUE(Eventually([this] { return gate_->waiting.load() == 8; }));
  std::future<void> stopped = StopWithin(kPatience);
  ASSERT_TRUE(Eventually([this] { return !RawPeer::ConnectTo(address_).connected(); }));
  const Result<RpcReply> late = Call(9);
  ASSERT_FALSE(late.has_value());
  EXPECT_EQ(late.error().code, Code::kUnavailable);
  gate_->Open();
  for (std::uint32_t i = 1; i <= 8; ++i) {
    const Result<RpcReply> reply = Await(std::move(calls[i - 1]));
    ASSERT_EQ(AnswerOf(reply), i);
    ASSERT_EQ(reply->payload.bytes.size(), kMaxPayloadBytes);
  }
  ASSERT_EQ(stopped.wait_for(kPatience), std::future_status::ready);
  EXPECT_EQ(server_->counters().connections.load(), 0u);
}

TEST_F(Stop, ACallThatDoesNotEndIsDroppedWhenTheTimeIsOver) {
  ServeWithGate();
  auto call = Start(Ask(1));
  ASSERT_TRUE(Eventually([this] { return gate_->waiting.load() == 1; }));
  std::future<void> stopped = StopWithin(kShort);
  EXPECT_EQ(Await(std::move(call)).error().code, Code::kUnavailable);
  ASSERT_EQ(stopped.wait_for(kPatience), std::future_status::ready);
  EXPECT_EQ(gate_->dropped.load(), 1);
  EXPECT_EQ(server_->counters().calls_in_flight.load(), 0u);
}

TEST_F(Stop, AClientThatDoesNotLeaveIsClosed) {
  Serve(EchoCall);
  const RawPeer peer = RawPeer::ConnectTo(address_);
  ASSERT_TRUE(peer.OpenAsClient(Who(proto::ROLE_CLIENT)));
  ASSERT_TRUE(Eventually([this] { return server_->counters().connections.load() == 1; }));
  server_->Stop(Deadline::After(kShort));
  EXPECT_EQ(server_->counters().connections.load(), 0u);
  EXPECT_TRUE(peer.Ends());
}

}  // namespace
}  // namespace forebay
