#include "common/base/process.h"

#include <gtest/gtest.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <optional>
#include <string>

#include "tests/fakes/temp_dir.h"
#include "tests/unit/base/notify_socket.h"

namespace forebay {
namespace {

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

TEST(WatchdogTimeTest, IsWhatSystemdAsksOfThisProcess) {
  using std::chrono::microseconds;
  const std::string self = std::to_string(::getpid());
  EXPECT_EQ(WatchdogTime({{"WATCHDOG_USEC", "60000000"}}), microseconds(60'000'000));
  EXPECT_EQ(WatchdogTime({{"WATCHDOG_USEC", "5"}, {"WATCHDOG_PID", self}}), microseconds(5));
  EXPECT_EQ(WatchdogTime({{"WATCHDOG_USEC", "5"}, {"WATCHDOG_PID", "1"}}), std::nullopt);
  EXPECT_EQ(WatchdogTime({{"WATCHDOG_USEC", "0"}}), std::nullopt);
  EXPECT_EQ(WatchdogTime({{"WATCHDOG_USEC", "soon"}}), std::nullopt);
  EXPECT_EQ(WatchdogTime({}), std::nullopt);
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
  EXPECT_EQ(::prctl(PR_GET_DUMPABLE, 0, 0, 0, 0), 0);
}

}  // namespace
}  // namespace forebay
