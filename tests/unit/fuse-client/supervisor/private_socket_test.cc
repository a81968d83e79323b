#include "fuse-client/supervisor/private_socket.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <string>
#include <utility>
#include <vector>

#include "tests/fakes/temp_dir.h"

namespace forebay {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using Of = PrivateSocket::Of;

/// While it lives, what this process does is done as another user.
class As {
 public:
  explicit As(uid_t user) { EXPECT_EQ(::seteuid(user), 0); }
  ~As() { EXPECT_EQ(::seteuid(0), 0); }
  As(const As&) = delete;
  As& operator=(const As&) = delete;
};

class PrivateSocketTest : public ::testing::Test {
 protected:
  PrivateSocket Listening() {
    Result<PrivateSocket> socket = PrivateSocket::Listen(path_);
    EXPECT_TRUE(socket) << socket.error().message;
    return socket ? std::move(*socket) : PrivateSocket();
  }
  Result<HandoverChannel> Connect(Of whose = Of::kThisUser) const {
    return PrivateSocket::Connect(path_, whose, milliseconds(50));
  }

  fakes::TempDir dir_;
  const std::string path_ = dir_ / "socket";
};

TEST_F(PrivateSocketTest, RootAsksTheProgramOfAnyUserAndLeavesNothingWithOthers) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can be another user";
  constexpr uid_t kOne = 65534;
  constexpr uid_t kOther = 65533;
  ASSERT_EQ(::chmod(dir_.path().c_str(), 0777), 0);
  PrivateSocket listening;
  {
    const As user(kOne);
    listening = Listening();
    EXPECT_TRUE(Connect());
    EXPECT_TRUE(listening.Accept());
  }
  const Result<HandoverChannel> asking = Connect(Of::kAnyUser);
  ASSERT_TRUE(asking) << asking.error().message;
  {
    const As user(kOne);
    EXPECT_TRUE(listening.Accept());  // root is heard
  }
  EXPECT_EQ(Connect(Of::kThisUser).error().code, Code::kDenied);
  // All that the file system would do.
  ASSERT_EQ(::chmod(path_.c_str(), 0777), 0);
  const As other(kOther);
  for (const Of whose : {Of::kThisUser, Of::kAnyUser}) {
    EXPECT_EQ(Connect(whose).error().code, Code::kDenied);
  }
}

TEST_F(PrivateSocketTest, NobodyWaitsLongerThanHisPatience) {
  const PrivateSocket listening = Listening();
  const TimePoint begin = Clock::now();
  const Result<HandoverChannel> channel = Connect();
  ASSERT_TRUE(channel);
  EXPECT_EQ(channel->Receive(true).error().code, Code::kTimeout);
  const std::string much(HandoverChannel::kBytesMax / 2, 'x');
  while (channel->Send(HandoverKind::kKeep, "1", much)) {
  }
  EXPECT_LT(Clock::now() - begin, seconds(5));  // a channel's own patience is 10 s
}

TEST_F(PrivateSocketTest, WhoDoesNotAcceptIsAnotherThingThanNobody) {
  EXPECT_EQ(Connect().error().code, Code::kUnavailable);
  {
    const PrivateSocket listening = Listening();
    std::vector<HandoverChannel> waiting;
    Result<HandoverChannel> next = Connect();
    for (; next && waiting.size() < 10'000; next = Connect()) waiting.push_back(std::move(*next));
    ASSERT_FALSE(next);
    EXPECT_EQ(next.error().code, Code::kTimeout);
  }
  EXPECT_EQ(Connect().error().code, Code::kUnavailable);
}

}  // namespace
}  // namespace forebay
