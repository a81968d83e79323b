#include "fuse-client/supervisor/descriptor_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "tests/fakes/temp_dir.h"

namespace forebay {
namespace {

TEST(SystemdStore, IsThereOnlyWhereSystemdKeepsDescriptorsOfThisVeryProcess) {
  const std::string self = std::to_string(::getpid());
  const Environment whole = {
      {"NOTIFY_SOCKET", "/run/notify"}, {"FDSTORE", "4096"}, {"SYSTEMD_EXEC_PID", self}};
  EXPECT_TRUE(SystemdStore::Of(whole));
  for (const auto& [name, value] :
       std::multimap<std::string, std::string>{{"NOTIFY_SOCKET", ""},
                                               {"FDSTORE", "0"},
                                               {"FDSTORE", "many"},
                                               {"SYSTEMD_EXEC_PID", "1"}}) {
    Environment other = whole;
    other[name] = value;
    EXPECT_FALSE(SystemdStore::Of(other)) << name << "=" << value;
  }
  Environment without = whole;
  without.erase("FDSTORE");
  EXPECT_FALSE(SystemdStore::Of(without));
  // Another service manager than systemd.
  without = whole;
  without.erase("SYSTEMD_EXEC_PID");
  EXPECT_TRUE(SystemdStore::Of(without));
}

TEST(SystemdStore, TakesNothingThatWasPassedToAnotherProcess) {
  const auto store = SystemdStore::Of({{"NOTIFY_SOCKET", "/run/notify"},
                                       {"FDSTORE", "4096"},
                                       {"LISTEN_PID", "1"},
                                       {"LISTEN_FDS", "1"},
                                       {"LISTEN_FDNAMES", "journal"}});
  ASSERT_TRUE(store);
  EXPECT_TRUE(store->TakeBack().empty());
}

TEST(SystemdStore, DoesNotTakeMoreThanSystemdSaysThatItKeeps) {
  const fakes::TempDir folder;
  const std::string path = folder / "notify";
  const OwnedFd systemd(::socket(AF_UNIX, SOCK_DGRAM, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  path.copy(address.sun_path, sizeof address.sun_path - 1);
  ASSERT_EQ(::bind(systemd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  const auto store = SystemdStore::Of({{"NOTIFY_SOCKET", path}, {"FDSTORE", "2"}});
  ASSERT_TRUE(store);
  EXPECT_TRUE(store->Put("one", STDERR_FILENO));
  EXPECT_TRUE(store->Put("two", STDERR_FILENO));
  const Status third = store->Put("three", STDERR_FILENO);
  ASSERT_FALSE(third);
  EXPECT_EQ(third.error().code, Code::kDenied);
  EXPECT_THAT(third.error().message, testing::HasSubstr("keeps 2 descriptors of this service at"));
  store->Remove("one");
  EXPECT_TRUE(store->Put("three", STDERR_FILENO));
}

TEST(SystemdStore, ThatNobodyListensToTakesNothing) {
  const auto store = SystemdStore::Of({{"NOTIFY_SOCKET", "/no/such/socket"}, {"FDSTORE", "1"}});
  ASSERT_TRUE(store);
  EXPECT_EQ(store->Put("one", STDERR_FILENO).error().code, Code::kUnavailable);
}

}  // namespace
}  // namespace forebay
