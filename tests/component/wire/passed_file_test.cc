// Files that go from a server to a client of the same machine.
#include "common/wire/passed_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <future>
#include <vector>

#include "tests/component/wire/wire_fixture.h"

namespace forebay {
namespace {

PassedFile FileWith(std::uint32_t number) {
  std::array<int, 2> ends{};
  EXPECT_EQ(::pipe2(ends.data(), O_CLOEXEC), 0);
  EXPECT_EQ(::write(ends[1], &number, sizeof number), static_cast<ssize_t>(sizeof number));
  ::close(ends[1]);
  return OwnFile(ends[0]);
}

std::uint32_t NumberIn(const PassedFile& file) {
  std::uint32_t number = 0;
  if (!file || ::read(*file, &number, sizeof number) != static_cast<ssize_t>(sizeof number))
    return 0;
  return number;
}

/// Every second answer brings a file, those between a payload.
Task<Result<RpcReply>> Pass(RpcCall call) {
  const std::uint32_t number = NumberOf(call);
  Result<RpcReply> reply = Echo(number, number % 2 == 0 ? 0 : 5000);
  if (reply && number % 2 == 0) reply->file = FileWith(number);
  co_return reply;
}

class PassedFiles : public WireFixture {
 protected:
  Task<Result<RpcReply>> AskForFile(std::uint32_t number) {
    proto::ReadBlockRequest request;
    request.set_range_begin(number);
    Result<RpcReply> reply = co_await client_->CallForFile(address_, Method::kReadBlock, request,
                                                           Deadline::After(kPatience));
    co_return reply;
  }
  const std::string socket_ =
      "unix:" + ::testing::TempDir() + "/forebay-files-" + std::to_string(getpid()) + ".sock";
};

TEST_F(PassedFiles, ComeWithTheirOwnAnswers) {
  Serve(Pass, {socket_});
  Connect();
  std::vector<std::future<Result<RpcReply>>> calls;
  for (std::uint32_t i = 1; i <= 300; ++i) calls.push_back(Start(AskForFile(i)));
  for (std::uint32_t i = 1; i <= 300; ++i) {
    const Result<RpcReply> reply = Await(std::move(calls[i - 1]));
    ASSERT_EQ(AnswerOf(reply), i);
    EXPECT_EQ(reply->file != nullptr, i % 2 == 0) << i;
    if (reply->file) EXPECT_EQ(NumberIn(reply->file), i);
    EXPECT_EQ(reply->payload.bytes.size(), i % 2 == 0 ? 0U : 5000U);
  }
}

TEST_F(PassedFiles, AreClosedWithTheAnswer) {
  Serve(Pass, {socket_});
  Connect();
  int descriptor = -1;
  {
    const Result<RpcReply> reply = Run(AskForFile(2));
    ASSERT_TRUE(reply.has_value() && reply->file);
    descriptor = *reply->file;
    EXPECT_EQ(NumberIn(reply->file), 2U);
  }
  EXPECT_LT(::fcntl(descriptor, F_GETFD), 0);
}

TEST_F(PassedFiles, DoNotGoOverTcp) {
  Serve(Pass);
  Connect();
  const Result<RpcReply> reply = Run(AskForFile(2));
  ASSERT_EQ(AnswerOf(reply), 2U);
  EXPECT_FALSE(reply->file);
}

TEST_F(PassedFiles, AreRefusedByAClientThatTakesNone) {
  Serve(Pass, {socket_});
  Connect();
  const Result<RpcReply> reply = Call(2);
  ASSERT_FALSE(reply.has_value());
  EXPECT_EQ(reply.error().code, Code::kUnavailable);
}

}  // namespace
}  // namespace forebay
