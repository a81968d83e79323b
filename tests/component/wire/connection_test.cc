// Two ends of a connection, without the handshake, on one event loop: what goes into one write.
#include "common/wire/connection.h"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <chrono>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "common/wire/wire_stream.h"

namespace forebay {
namespace {

constexpr std::chrono::seconds kPatience{20};

OutFrame FrameOf(FrameKind kind, std::uint64_t id, std::size_t payload = 0) {
  OutFrame frame;
  frame.header.kind = kind;
  frame.header.request_id = id;
  frame.message = "number " + std::to_string(id);
  if (payload > 0) {
    auto buffer = std::make_shared<Buffer>(payload);
    std::ranges::fill(buffer->span(), static_cast<std::byte>(id));
    frame.payload = Slice::Of(std::shared_ptr<const Buffer>(std::move(buffer)));
  }
  return frame;
}

class ConnectionPair : public ::testing::Test {
 protected:
  using OnFrame = std::function<void(InFrame)>;

  explicit ConnectionPair(ConnectionTimes client = {}, ConnectionTimes server = {}) {
    std::array<int, 2> ends{};
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()), 0);
    client_ = Make(ends[0], Side::kClient, client);
    server_ = Make(ends[1], Side::kServer, server);
  }
  ~ConnectionPair() override {
    client_->Close(Error{Code::kUnavailable, "the test is over"});
    server_->Close(Error{Code::kUnavailable, "the test is over"});
    context_.restart();
    context_.run();
    EXPECT_EQ(ended_, 2);
  }

  std::shared_ptr<Connection> Make(int fd, Side side, ConnectionTimes times = {}) {
    auto socket =
        std::make_shared<StreamSocket>(context_, asio::generic::stream_protocol(AF_UNIX, 0), fd);
    return std::make_shared<Connection>(std::make_unique<WireStream>(std::move(socket)), side,
                                        times);
  }

  void Start(Connection& connection, OnFrame on_frame) {
    Connection::Events events;
    events.on_frame = std::move(on_frame);
    events.on_closed = [this](const Error& why) {
      ++ended_;
      ends_.push_back(why.message);
    };
    events.on_tick = [](TimePoint) {};
    events.busy = [] { return true; };
    events.epoch = [] { return std::uint64_t{1}; };
    connection.Start(std::move(events));
  }

  /// Asks `count` questions at the same moment, and runs until so many answers have come.
  void Ask(std::uint64_t count) {
    Start(*client_, [this](InFrame frame) { answers_.push_back(std::move(frame)); });
    for (std::uint64_t id = 1; id <= count; ++id) client_->Send(FrameOf(FrameKind::kRequest, id));
    const auto until = std::chrono::steady_clock::now() + kPatience;
    while (answers_.size() < count && std::chrono::steady_clock::now() < until)
      context_.run_one_until(until);
    ASSERT_EQ(answers_.size(), count);
  }

  asio::io_context context_{1};
  std::shared_ptr<Connection> client_;
  std::shared_ptr<Connection> server_;
  std::vector<InFrame> answers_;
  std::vector<std::string> ends_;
  int ended_ = 0;
};

// Fewer than are taken in one turn of the event loop.
constexpr std::uint64_t kTogether = 6;

TEST_F(ConnectionPair, WhatIsAskedAtOnceAndAnsweredAtOnceIsOneWriteEachWay) {
  Start(*server_, [this](InFrame frame) {
    server_->Send(FrameOf(FrameKind::kReply, frame.header.request_id, 10'000));
  });
  Ask(kTogether);
  EXPECT_EQ(client_->writes(), 1u);
  EXPECT_EQ(server_->writes(), 1u);
}

TEST_F(ConnectionPair, AnAnswerThatComesLateHoldsUpNoOther) {
  std::vector<std::uint64_t> order;
  Start(*server_, [this](InFrame frame) {
    const std::uint64_t id = frame.header.request_id;
    const auto answer = [this, id] { server_->Send(FrameOf(FrameKind::kReply, id, 10'000)); };
    if (id == 1) {
      asio::post(context_, answer);
    } else {
      answer();
    }
  });
  Ask(kTogether);
  for (const InFrame& frame : answers_) order.push_back(frame.header.request_id);
  EXPECT_EQ(order, (std::vector<std::uint64_t>{2, 3, 4, 5, 6, 1}));
  EXPECT_EQ(server_->writes(), 2u);
}

TEST_F(ConnectionPair, AnswersThatTheSocketDoesNotTakeAtOnceComeWhole) {
  constexpr std::uint64_t kCount = 200;
  constexpr std::size_t kBytes = 100'000;  // 20 MB in all, more than any socket holds
  Start(*server_, [this](InFrame frame) {
    server_->Send(FrameOf(FrameKind::kReply, frame.header.request_id, kBytes));
  });
  Ask(kCount);
  for (const InFrame& frame : answers_) {
    const std::uint64_t id = frame.header.request_id;
    ASSERT_EQ(frame.payload.bytes.size(), kBytes);
    ASSERT_TRUE(std::ranges::all_of(frame.payload.bytes, [id](std::byte b) {
      return b == static_cast<std::byte>(id);
    })) << id;
  }
  EXPECT_EQ(server_->unsent_bytes(), 0u);
}

TEST_F(ConnectionPair, AnEndThatComesWithTheAnswersIsBehindThem) {
  std::uint64_t handled = 0;
  Start(*server_, [this, &handled](InFrame frame) {
    server_->Send(FrameOf(FrameKind::kReply, frame.header.request_id, 10'000));
    if (++handled == kTogether) server_->Finish();
  });
  Ask(kTogether);
}

constexpr std::chrono::milliseconds kShort{300};
constexpr std::chrono::hours kNever{1};

/// Two ends over which nobody asks anything, for longer than `idle`.
class QuietConnections : public ConnectionPair {
 protected:
  QuietConnections(Duration ping_every, Duration client_idle, Duration server_idle)
      : ConnectionPair({.idle = client_idle, .ping_every = ping_every}, {.idle = server_idle}) {}

  static void Ignore(const InFrame& /*frame*/) {}
  void RunUntilOneHasEnded() {
    const auto until = std::chrono::steady_clock::now() + kPatience;
    while (ended_ == 0 && std::chrono::steady_clock::now() < until) context_.run_one_until(until);
    ASSERT_GE(ended_, 1);
    EXPECT_NE(ends_.front().find("nothing came over the connection"), std::string::npos)
        << ends_.front();
  }
};

class PingingClient : public QuietConnections {
 protected:
  PingingClient() : QuietConnections(kShort / 3, 2 * kShort, 2 * kShort) {}
};
TEST_F(PingingClient, KeepsAQuietConnectionOpenAtBothEnds) {
  Start(*client_, Ignore);
  Start(*server_, Ignore);
  context_.run_for(8 * kShort);  // four times what either end would wait in silence
  EXPECT_EQ(ended_, 0) << ends_.front();
  EXPECT_GE(server_->writes(), 4u) << "it answers each";
}

class SilentClient : public QuietConnections {
 protected:
  SilentClient() : QuietConnections(kNever, kNever, kShort) {}
};
TEST_F(SilentClient, IsClosedByTheServer) {
  Start(*client_, Ignore);
  Start(*server_, Ignore);
  RunUntilOneHasEnded();
}

class SilentServer : public QuietConnections {
 protected:
  SilentServer() : QuietConnections(kShort / 3, kShort, kNever) {}
};
TEST_F(SilentServer, IsGivenUpByAClientWhosePingsNobodyAnswers) {
  Start(*client_, Ignore);  // the server's end is open, and nobody reads from it
  RunUntilOneHasEnded();
  EXPECT_GE(client_->writes(), 1u);
  Start(*server_, Ignore);
}

}  // namespace
}  // namespace forebay
