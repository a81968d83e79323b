#include <gmock/gmock.h>

#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <optional>
#include <thread>

#include "tests/component/s3/s3_fixture.h"

namespace forebay {
namespace {

using namespace std::chrono_literals;
using fakes::S3Answer;

class S3ClientCancelTest : public S3ClientTest {
 protected:
  S3ClientCancelTest() {
    S3Options options = FastOptions();
    options.http.first_byte_timeout = 1h;  // only the caller ends these calls
    options.http.stall_timeout = 1h;
    Restart(options);
  }

  /// The next answer stops in the middle of its body.
  GetRequest StoredAndStalling() {
    const GetRequest request = Stored("k", Bytes(100'000), 0, 100'000);
    S3Answer answer;
    answer.headers = {{"ETag", "\"" + request.etag + "\""}};
    answer.body = Bytes(100'000);
    answer.stall_after = 50'000;
    server_.Next(answer);
    return request;
  }

  /// Runs the loop in small steps until `condition` holds; false after 10 s.
  template <typename Condition>
  bool RunUntil(asio::io_context& context, Condition condition) {
    const Deadline patience = Deadline::After(10s);
    while (!condition() && !patience.Expired()) context.run_for(5ms);
    return condition();
  }
};

TEST_F(S3ClientCancelTest, ACancelledCallEndsAtOnceAndDropsItsConnection) {
  const GetRequest request = StoredAndStalling();
  asio::io_context context;
  asio::cancellation_signal cancel;
  std::optional<Status> result;
  std::exception_ptr thrown;
  auto sink = std::make_unique<TextSink>();
  asio::co_spawn(
      context, Client().Get(request, *sink, Deadline::After(1h)),
      asio::bind_cancellation_slot(cancel.slot(), [&](std::exception_ptr, Status status) {
        result = std::move(status);
        sink.reset();
      }));
  ASSERT_TRUE(RunUntil(context, [&] { return server_.requests().size() == 1; }));
  cancel.emit(asio::cancellation_type::terminal);
  ASSERT_TRUE(RunUntil(context, [&] { return sink == nullptr; }));
  EXPECT_FALSE(thrown);
  ASSERT_FALSE(*result);
  EXPECT_EQ(result->error().code, Code::kTimeout) << result->error().message;
  EXPECT_TRUE(server_.WaitForClosed(1));
}

TEST_F(S3ClientCancelTest, ADestroyedFrameLeavesItsSinkAlone) {
  for (int round = 0; round < 20; ++round) {
    const GetRequest request = Stored("k", Bytes(2'000'000), 0, 2'000'000);
    auto sink = std::make_unique<TextSink>();
    auto context = std::make_unique<asio::io_context>();
    asio::co_spawn(*context, Client().Get(request, *sink, Deadline::After(1h)),
                   [](std::exception_ptr, Status) {});
    const auto requests = static_cast<std::size_t>(round) + 1;
    ASSERT_TRUE(RunUntil(*context, [&] { return server_.requests().size() == requests; }));
    context.reset();  // in the middle of a body: the frame goes …
    sink.reset();     // … and the sink; a sanitizer sees a byte that comes later
  }
  TextSink sink;
  EXPECT_TRUE(Get(Stored("k", "0123456789", 0, 5), sink)) << "the engine lives on";
}

TEST_F(S3ClientCancelTest, ACallThatWaitsForAConnectionEndsAtItsDeadline) {
  S3Options options = FastOptions();
  options.http.max_connections = 1;
  options.http.stall_timeout = 1h;
  Restart(options);
  const GetRequest stalling = StoredAndStalling();
  asio::io_context context;
  TextSink first_sink;
  TextSink second_sink;
  std::optional<Status> first;
  std::optional<Status> second;
  asio::co_spawn(context, Client().Get(stalling, first_sink, Deadline::After(1h)),
                 [&](std::exception_ptr, Status status) { first = std::move(status); });
  ASSERT_TRUE(RunUntil(context, [&] { return server_.requests().size() == 1; }));
  asio::co_spawn(context, Client().Get(stalling, second_sink, Deadline::After(100ms)),
                 [&](std::exception_ptr, Status status) { second = std::move(status); });
  ASSERT_TRUE(RunUntil(context, [&] { return second.has_value(); }));
  EXPECT_EQ(second->error().code, Code::kUnavailable);
  EXPECT_EQ(server_.requests().size(), 1U) << "it never got a connection";
  Client().Stop();
  ASSERT_TRUE(RunUntil(context, [&] { return first.has_value(); }));
  EXPECT_EQ(first->error().code, Code::kUnavailable);
}

TEST_F(S3ClientCancelTest, StopEndsRunningAndWaitingCalls) {
  S3Options options = FastOptions();
  options.retry = RetryTiming{.base = 1h, .throttled_base = 1h, .cap = 1h};
  options.http.stall_timeout = 1h;
  Restart(options);
  const GetRequest request = StoredAndStalling();
  asio::io_context context;
  TextSink sinks[2];
  std::optional<Status> ended[2];
  for (int i = 0; i < 2; ++i) {
    asio::co_spawn(
        context, Client().Get(request, sinks[i], Deadline::After(24h)),
        [&ended, i](std::exception_ptr, Status status) { ended[i] = std::move(status); });
    if (i == 0) {
      ASSERT_TRUE(RunUntil(context, [&] { return server_.requests().size() == 1; }));
      server_.Next(fakes::ScriptedS3::Error(500, "InternalError"));
    }
  }
  ASSERT_TRUE(RunUntil(context, [&] { return server_.requests().size() == 2; }));
  Client().Stop();
  ASSERT_TRUE(RunUntil(context, [&] { return ended[0] && ended[1]; }));
  for (const std::optional<Status>& status : ended) {
    EXPECT_EQ(status->error().code, Code::kUnavailable) << status->error().message;
    EXPECT_THAT(status->error().message, testing::HasSubstr("stopping"));
  }
  TextSink late;
  EXPECT_EQ(Get(request, late).error().code, Code::kUnavailable);
}

}  // namespace
}  // namespace forebay
