#pragma once

#include <gtest/gtest.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/use_future.hpp>
#include <chrono>
#include <functional>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "common/base/executors.h"
#include "common/wire/client_pool.h"
#include "common/wire/server.h"
#include "proto/node.pb.h"

namespace forebay {

inline constexpr std::chrono::seconds kPatience{20};

inline Credentials Who(proto::Role role, std::string secret = std::string(32, 's')) {
  Credentials credentials;
  credentials.role = role;
  credentials.program = "test " + std::to_string(role);
  credentials.secret = Secret(std::move(secret));
  return credentials;
}

inline bool Eventually(const std::function<bool()>& reached) {
  const Deadline deadline = Deadline::After(kPatience);
  while (!reached()) {
    if (deadline.Expired()) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return true;
}

inline std::uint32_t NumberOf(const RpcCall& call) {
  proto::ReadBlockRequest request;
  EXPECT_TRUE(ParseMessage(call.message, request).has_value());
  return request.range_begin();
}

inline Result<RpcReply> Echo(std::uint32_t number, std::size_t payload = 0) {
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

inline Task<Result<RpcReply>> EchoCall(RpcCall call) { co_return Echo(NumberOf(call), 40'000); }

inline std::uint32_t AnswerOf(const Result<RpcReply>& reply) {
  proto::ReadBlockReply message;
  EXPECT_TRUE(reply.has_value()) << reply.error().message;
  if (reply) EXPECT_TRUE(ParseMessage(reply->message, message).has_value());
  return message.begin();
}

/// A server whose kReadBlock does what each test says, and a client. At the end nothing is in
/// flight and no connection open.
class WireFixture : public ::testing::Test {
 protected:
  ~WireFixture() override {
    if (client_) CloseClient();
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
    RpcServerOptions options = server_options_;
    options.listen = std::move(listen);
    if (options.credentials.program.empty()) options.credentials = Who(proto::ROLE_NODE);
    std::vector<MethodEntry> methods;
    methods.push_back({Method::kReadBlock, std::move(handler)});
    server_ = std::make_unique<RpcServer>(
        server_io_, options, std::move(methods), [this] { return server_epoch_.load(); },
        [](std::uint64_t) {});
    const Status started = server_->Start();
    ASSERT_TRUE(started.has_value()) << started.error().message;
    address_ = server_->addresses().front();
  }

  void Connect(Credentials credentials = Who(proto::ROLE_CLIENT), Duration silence = kSilence) {
    if (!client_) client_io_.Start();
    ClientPoolOptions options;
    options.credentials = std::move(credentials);
    options.silence = silence;
    options.connect_timeout = connect_timeout_;
    options.unused = unused_;
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

  std::future<Result<RpcReply>> Start(Task<Result<RpcReply>> task) {
    return asio::co_spawn(client_io_.At(0), std::move(task), asio::use_future);
  }

  Result<RpcReply> Run(Task<Result<RpcReply>> task) { return Await(Start(std::move(task))); }

  static Result<RpcReply> Await(std::future<Result<RpcReply>> future) {
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
    Result<RpcReply> reply =
        co_await client_->Call(address_, method, request, Deadline::After(patience));
    co_return reply;
  }

  Result<RpcReply> Call(std::uint32_t number, Method method = Method::kReadBlock,
                        Duration patience = kPatience) {
    return Run(Ask(number, method, patience));
  }

  IoPool server_io_{"server", 2};
  IoPool client_io_{"client", 1};
  RpcServerOptions server_options_;
  Duration connect_timeout_ = kSilence;
  Duration unused_ = kUnusedTimeout;
  std::unique_ptr<RpcServer> server_;
  std::string address_;  // what the client calls
  std::unique_ptr<ClientPool> client_;
  std::atomic<std::uint64_t> server_epoch_{1};
  std::atomic<std::uint64_t> seen_epoch_{0};
};

}  // namespace forebay
