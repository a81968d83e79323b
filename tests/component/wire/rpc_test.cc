// Client and server over real sockets on this machine.
#include <gtest/gtest.h>
#include <unistd.h>

#include <boost/asio/this_coro.hpp>
#include <filesystem>
#include <future>

#include "common/base/notifier.h"
#include "tests/component/wire/wire_fixture.h"

namespace forebay {
namespace {

class Rpc : public WireFixture {};

TEST_F(Rpc, ManyCallsInFlightGetTheirOwnAnswers) {
  Serve(EchoCall);
  Connect();
  std::vector<std::future<Result<RpcReply>>> calls;
  for (std::uint32_t i = 1; i <= 500; ++i) {
    calls.push_back(Start(Ask(i)));
  }
  for (std::uint32_t i = 1; i <= 500; ++i) {
    const Result<RpcReply> reply = calls[i - 1].get();
    ASSERT_EQ(AnswerOf(reply), i);
    ASSERT_EQ(reply->payload.bytes.size(), 40'000u);
    EXPECT_EQ(reply->payload.bytes[39'999], static_cast<std::byte>(39'999 * 31 + i));
  }
  EXPECT_EQ(server_->counters().accepted.load(), 1u);
}

TEST_F(Rpc, TheLargestPayloadArrivesWhole) {
  Serve([](RpcCall call) -> Task<Result<RpcReply>> {
    co_return Echo(NumberOf(call), kMaxPayloadBytes);
  });
  Connect();
  const Result<RpcReply> reply = Call(9);
  ASSERT_TRUE(reply.has_value()) << reply.error().message;
  ASSERT_EQ(reply->payload.bytes.size(), kMaxPayloadBytes);
  for (std::size_t i = 0; i < kMaxPayloadBytes; ++i) {
    ASSERT_EQ(reply->payload.bytes[i], static_cast<std::byte>(i * 31 + 9));
  }
}

// Some lie in the memory that they came in, some in their own: none may change under its reader
// while the next ones come.
TEST_F(Rpc, PayloadsOfAllSizesArriveWholeAndStayAsTheyCame) {
  Serve([](RpcCall call) -> Task<Result<RpcReply>> {
    const std::uint32_t number = NumberOf(call);
    co_return Echo(number, number * 611);
  });
  Connect();
  constexpr std::uint32_t kCalls = 400;  // up to 244 KB
  std::vector<std::future<Result<RpcReply>>> calls;
  for (std::uint32_t i = 1; i <= kCalls; ++i) calls.push_back(Start(Ask(i)));
  std::vector<Result<RpcReply>> replies;
  replies.reserve(kCalls);
  for (auto& call : calls) replies.push_back(Await(std::move(call)));
  for (std::uint32_t i = 1; i <= kCalls; ++i) {
    const Result<RpcReply>& reply = replies[i - 1];
    ASSERT_EQ(AnswerOf(reply), i);
    const ByteView bytes = reply->payload.bytes;
    ASSERT_EQ(bytes.size(), i * 611);
    for (std::size_t at = 0; at < bytes.size(); ++at)
      ASSERT_EQ(bytes[at], static_cast<std::byte>(at * 31 + i)) << i << " at " << at;
  }
}

TEST_F(Rpc, AUnixSocketIsPrivateAndReplacesAStaleOne) {
  const std::string path =
      ::testing::TempDir() + "/forebay-rpc-" + std::to_string(getpid()) + ".sock";
  Serve(EchoCall, {"unix:" + path});
  Connect();
  EXPECT_EQ(AnswerOf(Call(5)), 5u);
  const auto permissions = std::filesystem::status(path).permissions();
  EXPECT_EQ(permissions, std::filesystem::perms::owner_read | std::filesystem::perms::owner_write);
}

using Entered = std::shared_ptr<std::promise<void>>;

Task<Result<RpcReply>> Wait(std::shared_ptr<Notifier> release, Entered entered, RpcCall call) {
  const asio::any_io_executor executor = co_await asio::this_coro::executor;
  Notifier::Ticket ticket = release->Enlist(executor);
  entered->set_value();
  const bool released = co_await ticket.Wait(Deadline::After(kPatience));
  if (!released) co_return Fail(Code::kTimeout, "nobody released the call");
  co_return Echo(NumberOf(call));
}

TEST_F(Rpc, PendingKeepsASlowCallAliveBeyondTheSilence) {
  auto release = std::make_shared<Notifier>();
  auto entered = std::make_shared<std::promise<void>>();
  Serve([release, entered](RpcCall call) { return Wait(release, entered, std::move(call)); });
  Connect(Who(proto::ROLE_CLIENT), std::chrono::milliseconds(1200));
  auto reply = Start(Ask(3));
  entered->get_future().wait();
  // Twice the silence: without pendings the call would be given up by now.
  EXPECT_EQ(reply.wait_for(std::chrono::milliseconds(2400)), std::future_status::timeout);
  release->NotifyAll();
  EXPECT_EQ(AnswerOf(reply.get()), 3u);
}

// They leave in one write, and are taken off the socket together.
TEST_F(Rpc, ASlowAnswerHoldsUpNoneOfThoseThatWereAskedForWithIt) {
  auto release = std::make_shared<Notifier>();
  auto entered = std::make_shared<std::promise<void>>();
  Serve([release, entered](RpcCall call) {
    return NumberOf(call) == 1 ? Wait(release, entered, std::move(call))
                               : EchoCall(std::move(call));
  });
  Connect();
  std::vector<std::future<Result<RpcReply>>> calls;
  for (std::uint32_t i = 1; i <= 16; ++i) calls.push_back(Start(Ask(i)));
  for (std::uint32_t i = 2; i <= 16; ++i) EXPECT_EQ(AnswerOf(Await(std::move(calls[i - 1]))), i);
  entered->get_future().wait();
  EXPECT_EQ(calls[0].wait_for(std::chrono::seconds(0)), std::future_status::timeout);
  release->NotifyAll();
  EXPECT_EQ(AnswerOf(Await(std::move(calls[0]))), 1u);
}

Task<Result<RpcReply>> WaitAnHour(std::shared_ptr<std::promise<void>> ended) {
  struct OnExit {
    std::shared_ptr<std::promise<void>> done;
    ~OnExit() { done->set_value(); }
  } on_exit{std::move(ended)};
  Notifier never;
  const asio::any_io_executor executor = co_await asio::this_coro::executor;
  Notifier::Ticket ticket = never.Enlist(executor);
  const bool woken = co_await ticket.Wait(Deadline::After(std::chrono::hours(1)));
  co_return Fail(Code::kInternal, woken ? "woken" : "waited an hour");
}

TEST_F(Rpc, AConnectionThatNobodyUsesIsClosedAndTheNextCallOpensAnother) {
  unused_ = std::chrono::milliseconds(50);
  Serve(EchoCall);
  Connect();
  const auto nobody_is_connected = [this] { return server_->counters().connections.load() == 0; };
  for (std::uint32_t i = 1; i <= 3; ++i) {
    EXPECT_EQ(AnswerOf(Call(i)), i);
    EXPECT_EQ(server_->counters().accepted.load(), i);
    ASSERT_TRUE(Eventually(nobody_is_connected));
  }
}

TEST_F(Rpc, ACallThatIsUnderWayKeepsItsConnectionHoweverLongItTakes) {
  unused_ = std::chrono::milliseconds(50);
  auto release = std::make_shared<Notifier>();
  auto entered = std::make_shared<std::promise<void>>();
  Serve([release, entered](RpcCall call) { return Wait(release, entered, std::move(call)); });
  Connect();
  auto waits = Start(Ask(1));
  entered->get_future().wait();
  // Ticks of its connection, which comes every 100 ms.
  EXPECT_EQ(waits.wait_for(std::chrono::milliseconds(1200)), std::future_status::timeout);
  release->NotifyAll();
  EXPECT_EQ(AnswerOf(Await(std::move(waits))), 1u);
  EXPECT_EQ(server_->counters().accepted.load(), 1u);
}

// Each tick at which nobody waits ends the connection: between two calls, or as one begins.
TEST_F(Rpc, NoCallIsLostToAConnectionThatIsClosedForWantOfUse) {
  unused_ = Duration::zero();
  Serve(EchoCall);
  Connect();
  std::uint32_t calls = 0;
  EXPECT_TRUE(Eventually([&] {
    for (int i = 0; i < 100; ++i) EXPECT_EQ(AnswerOf(Call(++calls)), calls);
    return server_->counters().accepted.load() > 5 || HasFailure();
  }));
}

TEST_F(Rpc, ADeadlineEndsTheCallAndCancelsItsHandler) {
  auto cancelled = std::make_shared<std::promise<void>>();
  Serve([cancelled](RpcCall) { return WaitAnHour(cancelled); });
  Connect();
  const Result<RpcReply> reply = Call(1, Method::kReadBlock, std::chrono::milliseconds(300));
  ASSERT_FALSE(reply.has_value());
  EXPECT_EQ(reply.error().code, Code::kTimeout);
  EXPECT_EQ(cancelled->get_future().wait_for(kPatience), std::future_status::ready);
}

TEST_F(Rpc, AnErrorKeepsItsCodeAndSentence) {
  Serve([](RpcCall) -> Task<Result<RpcReply>> {
    co_return Fail(Code::kStale, "the object changed");
  });
  Connect();
  const Result<RpcReply> reply = Call(1);
  ASSERT_FALSE(reply.has_value());
  EXPECT_EQ(reply.error(), (Error{Code::kStale, "the object changed"}));
}

Task<Result<RpcReply>> Refuse(std::string reason) {
  co_return Fail(Code::kNotFound, std::move(reason));
}

TEST_F(Rpc, AReasonMayQuoteBytesThatAreNoText) {
  const std::string reason = "object 'pre\xFF\x80\n/x' is gone";
  Serve([reason](RpcCall) { return Refuse(reason); });
  Connect();
  EXPECT_EQ(Call(1).error(), (Error{Code::kNotFound, reason}));
}

TEST_F(Rpc, OnlyTheRolesOfAMethodMayCallIt) {
  Serve(EchoCall);
  Connect(Who(proto::ROLE_COORDINATOR));
  EXPECT_EQ(Call(1).error().code, Code::kDenied);
  EXPECT_EQ(Call(1, Method::kStats).error().code, Code::kInvalid);
  EXPECT_EQ(server_->counters().calls_denied.load(), 2u);
}

TEST_F(Rpc, AWrongSecretIsRefused) {
  Serve(EchoCall);
  Connect(Who(proto::ROLE_CLIENT, std::string(32, 'x')));
  const Result<RpcReply> reply = Call(1);
  ASSERT_FALSE(reply.has_value());
  EXPECT_EQ(reply.error().code, Code::kDenied) << reply.error().message;
}

TEST_F(Rpc, NobodyThereIsUnavailableAtOnce) {
  Serve(EchoCall);
  const std::string address = server_->addresses().front();
  Connect();
  EXPECT_EQ(AnswerOf(Call(1)), 1u);
  server_->Stop(Deadline::After(std::chrono::seconds(5)));
  const Result<RpcReply> first = Call(2);
  ASSERT_FALSE(first.has_value());
  EXPECT_EQ(first.error().code, Code::kUnavailable) << first.error().message;
  EXPECT_NE(first.error().message.find(address), std::string::npos);
}

TEST_F(Rpc, ANewerEpochIsSeen) {
  Serve(EchoCall);
  Connect();
  server_epoch_.store(7);
  EXPECT_EQ(AnswerOf(Call(1)), 1u);
  EXPECT_EQ(seen_epoch_.load(), 7u);
}

TEST_F(Rpc, NothingListensBeyondLoopback) {
  for (const char* address :
       {"0.0.0.0:0", "192.0.2.1:7441", "[::]:0", "example.org:7441", "7441", "unix:"}) {
    RpcServerOptions options;
    options.listen = {address};
    options.credentials = Who(proto::ROLE_NODE);
    RpcServer server(
        server_io_, options, {}, [] { return std::uint64_t{1}; }, [](std::uint64_t) {});
    const Status started = server.Start();
    ASSERT_FALSE(started.has_value()) << address;
    EXPECT_EQ(started.error().code, Code::kInvalid) << address << ": " << started.error().message;
  }
}

TEST_F(Rpc, ListensBeyondLoopbackWhereThatWasAccepted) {
  server_options_.reach = Reach::kEveryone;
  Serve(EchoCall, {"0.0.0.0:0"});
  Connect();
  address_ = "127.0.0.1" + address_.substr(address_.rfind(':'));
  EXPECT_EQ(AnswerOf(Call(3)), 3u);
}

}  // namespace
}  // namespace forebay
