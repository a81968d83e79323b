#include "common/base/process.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <string>

#include "tests/fakes/temp_dir.h"

namespace forebay {
namespace {

/// A datagram socket as systemd's.
class NotifySocket {
 public:
  /// `path` with '@' in front is an abstract address.
  explicit NotifySocket(const std::string& path) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::ranges::copy(path, address.sun_path);
    if (path.front() == '@') address.sun_path[0] = '\0';
    fd_ = ::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + path.size());
    bound_ = ::bind(fd_, reinterpret_cast<const sockaddr*>(&address), length) == 0;
  }
  ~NotifySocket() { ::close(fd_); }
  NotifySocket(const NotifySocket&) = delete;
  NotifySocket& operator=(const NotifySocket&) = delete;

  bool bound() const { return bound_; }

  /// The next datagram; "" when there is none. Sending to a UNIX socket delivers at once.
  std::string Receive() {
    std::array<char, 256> text{};
    const ssize_t n = ::recv(fd_, text.data(), text.size(), 0);
    return n < 0 ? "" : std::string(text.data(), static_cast<std::size_t>(n));
  }

 private:
  int fd_ = -1;
  bool bound_ = false;
};

TEST(NotifySystemdTest, SendsTheStateAsOneDatagram) {
  const fakes::TempDir dir;
  NotifySocket socket(dir / "notify");
  ASSERT_TRUE(socket.bound());
  NotifySystemd({{"NOTIFY_SOCKET", dir / "notify"}}, "READY=1");
  EXPECT_EQ(socket.Receive(), "READY=1");
  EXPECT_EQ(socket.Receive(), "");
}

TEST(NotifySystemdTest, KnowsAbstractSockets) {
  const std::string path = "@forebay-notify-test-" + std::to_string(::getpid());
  NotifySocket socket(path);
  ASSERT_TRUE(socket.bound());
  NotifySystemd({{"NOTIFY_SOCKET", path}}, "STOPPING=1");
  EXPECT_EQ(socket.Receive(), "STOPPING=1");
}

TEST(NotifySystemdTest, WithoutSystemdNothingHappens) {
  NotifySystemd({}, "READY=1");
  NotifySystemd({{"NOTIFY_SOCKET", ""}}, "READY=1");
  NotifySystemd({{"NOTIFY_SOCKET", "/no/such/socket"}}, "READY=1");
  NotifySystemd({{"NOTIFY_SOCKET", "/" + std::string(200, 'x')}}, "READY=1");
}

TEST(PrepareProcessTest, AClosedPeerIsAnErrorAndFilesArePrivate) {
  const mode_t before = ::umask(022);
  PrepareProcess();
  EXPECT_EQ(::umask(before), 077U);
  std::array<int, 2> ends{};
  ASSERT_EQ(::pipe(ends.data()), 0);
  ::close(ends[0]);
  EXPECT_EQ(::write(ends[1], "x", 1), -1) << "and no SIGPIPE";
  ::close(ends[1]);
  rlimit descriptors{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &descriptors), 0);
  EXPECT_EQ(descriptors.rlim_cur, descriptors.rlim_max);
}

}  // namespace
}  // namespace forebay
