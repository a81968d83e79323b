// Client and server over real sockets on this machine.
#include <gtest/gtest.h>
#include <unistd.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_future.hpp>
#include <filesystem>
#include <future>

#include "common/base/executors.h"
#include "common/base/notifier.h"
#include "common/wire/client_pool.h"
#include "common/wire/server.h"
#include "proto/node.pb.h"

namespace forebay {
namespace {

constexpr std::chrono::seconds kPatience{20};

Credentials Who(proto::Role role, std::string secret = std::string(32, 's')) {
  Credentials credentials;
  credentials.role = role;
  credentials.program = "test " + std::to_string(role);
  credentials.secret = std::move(secret);
  return credentials;
}

/// A server whose kReadBlock does what each test says, and a client.
class Rpc : public ::testing::Test {
 protected:
  ~Rpc() override {
    if (client_) {
      CloseClient();
    }
    if (server_) {
      server_->Stop(Deadline::After(std::chrono::seconds(5)));
      EXPECT_EQ(server_->counters().calls_in_flight.load(), 0u);
      EXPECT_EQ(server_->counters().connections.load(), 0u);
    }
    client_io_.Stop();
    server_io_.Stop();
  }

  void Serve(RpcHandler handler, std::vector<std::string> listen = {"127.0.0.1:0"}) {
    server_io_.Start();
    client_io_.Start();
    RpcServerOptions options;
    options.listen = std::move(listen);
    options.credentials = Who(proto::ROLE_NODE);
    std::vector<MethodEntry> methods;
    methods.push_back({Method::kReadBlock, {proto::ROLE_CLIENT}, std::move(handler)});
    server_ = std::make_unique<RpcServer>(
        server_io_, options, std::move(methods), [this] { return server_epoch_.load(); },
        [](std::uint64_t) {});
    const Status started = server_->Start();
    ASSERT_TRUE(started.has_value()) << started.error().message;
  }

  void Connect(Credentials credentials = Who(proto::ROLE_CLIENT), Duration silence = kSilence) {
    ClientPoolOptions options;
    options.credentials = std::move(credentials);
    options.silence = silence;
    client_ = std::make_unique<ClientPool>(
        client_io_.At(0), options, [] { return std::uint64_t{1}; },
        [this](std::uint64_t epoch) { seen_epoch_.store(epoch); });
  }

  void CloseClient() {
    Run([](ClientPool* pool) -> Task<Result<RpcReply>> {
      pool->Close();
      co_return RpcReply();
    }(client_.get()));
  }

  Result<RpcReply> Run(Task<Result<RpcReply>> task) {
    auto future = asio::co_spawn(client_io_.At(0), std::move(task), asio::use_future);
    if (future.wait_for(kPatience) != std::future_status::ready) {
      ADD_FAILURE() << "the call did not end";
      std::abort();
    }
    return future.get();
  }

  Task<Result<RpcReply>> Ask(std::uint32_t number, Method method = Method::kReadBlock,
                             Duration patience = kPatience) {
    proto::ReadBlockRequest request;
    request.set_range_begin(number);
    Result<RpcReply> reply = co_await client_->Call(server_->addresses().front(), method, request,
                                                    Deadline::After(patience));
    co_return reply;
  }

  Result<RpcReply> Call(std::uint32_t number, Method method = Method::kReadBlock,
                        Duration patience = kPatience) {
    return Run(Ask(number, method, patience));
  }

  IoPool server_io_{"server", 2};
  IoPool client_io_{"client", 1};
  std::unique_ptr<RpcServer> server_;
  std::unique_ptr<ClientPool> client_;
  std::atomic<std::uint64_t> server_epoch_{1};
  std::atomic<std::uint64_t> seen_epoch_{0};
};

std::uint32_t NumberOf(const RpcCall& call) {
  proto::ReadBlockRequest request;
  EXPECT_TRUE(ParseMessage(call.message, request).has_value());
  return request.range_begin();
}

Result<RpcReply> Echo(std::uint32_t number, std::size_t payload = 0) {
  proto::ReadBlockReply reply;
  reply.set_begin(number);
  Slice slice;
  if (payload > 0) {
    auto buffer = std::make_shared<Buffer>(payload);
    for (std::size_t i = 0; i < payload; ++i)
      buffer->data()[i] = static_cast<std::byte>(i * 31 + number);
    slice = Slice::Of(std::shared_ptr<const Buffer>(std::move(buffer)));
  }
  return ReplyWith(reply, std::move(slice));
}

std::uint32_t AnswerOf(const Result<RpcReply>& reply) {
  proto::ReadBlockReply message;
  EXPECT_TRUE(reply.has_value()) << reply.error().message;
  if (reply) EXPECT_TRUE(ParseMessage(reply->message, message).has_value());
  return message.begin();
}

Task<Result<RpcReply>> EchoCall(RpcCall call) { co_return Echo(NumberOf(call), 40'000); }

TEST_F(Rpc, ManyCallsInFlightGetTheirOwnAnswers) {
  Serve(EchoCall);
  Connect();
  std::vector<std::future<Result<RpcReply>>> calls;
  for (std::uint32_t i = 1; i <= 500; ++i) {
    calls.push_back(asio::co_spawn(client_io_.At(0), Ask(i), asio::use_future));
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

TEST_F(Rpc, AUnixSocketIsPrivateAndReplacesAStaleOne) {
  const std::string path =
      ::testing::TempDir() + "/forebay-rpc-" + std::to_string(getpid()) + ".sock";
  Serve(EchoCall, {"unix:" + path});
  Connect();
  EXPECT_EQ(AnswerOf(Call(5)), 5u);
  const auto permissions = std::filesystem::status(path).permissions();
  EXPECT_EQ(permissions, std::filesystem::perms::owner_read | std::filesystem::perms::owner_write);
}

TEST_F(Rpc, PendingKeepsASlowCallAliveBeyondTheSilence) {
  auto release = std::make_shared<Notifier>();
  auto entered = std::make_shared<std::promise<void>>();
  Serve([release, entered](RpcCall call) -> Task<Result<RpcReply>> {
    const asio::any_io_executor executor = co_await asio::this_coro::executor;
    Notifier::Ticket ticket = release->Enlist(executor);
    entered->set_value();
    const bool released = co_await ticket.Wait(Deadline::After(kPatience));
    if (!released) co_return Fail(Code::kTimeout, "nobody released the call");
    co_return Echo(NumberOf(call));
  });
  Connect(Who(proto::ROLE_CLIENT), std::chrono::milliseconds(1200));
  auto reply = asio::co_spawn(client_io_.At(0), Ask(3), asio::use_future);
  entered->get_future().wait();
  // Twice the silence: without pendings the call would be given up by now.
  EXPECT_EQ(reply.wait_for(std::chrono::milliseconds(2400)), std::future_status::timeout);
  release->NotifyAll();
  EXPECT_EQ(AnswerOf(reply.get()), 3u);
}

TEST_F(Rpc, ADeadlineEndsTheCallAndCancelsItsHandler) {
  auto cancelled = std::make_shared<std::promise<void>>();
  Serve([cancelled](RpcCall) -> Task<Result<RpcReply>> {
    struct OnExit {
      std::shared_ptr<std::promise<void>> done;
      ~OnExit() { done->set_value(); }
    } on_exit{cancelled};
    Notifier never;
    const asio::any_io_executor executor = co_await asio::this_coro::executor;
    Notifier::Ticket ticket = never.Enlist(executor);
    const bool woken = co_await ticket.Wait(Deadline::After(std::chrono::hours(1)));
    co_return Fail(Code::kInternal, woken ? "woken" : "waited an hour");
  });
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

TEST_F(Rpc, OnlyTheRolesOfAMethodMayCallIt) {
  Serve(EchoCall);
  Connect(Who(proto::ROLE_ADMIN));
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

}  // namespace
}  // namespace forebay
