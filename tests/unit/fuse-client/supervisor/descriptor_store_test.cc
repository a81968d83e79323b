#include "fuse-client/supervisor/descriptor_store.h"

#include <gtest/gtest.h>
#include <unistd.h>

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

TEST(SystemdStore, ThatNobodyListensToTakesNothing) {
  const auto store = SystemdStore::Of({{"NOTIFY_SOCKET", "/no/such/socket"}, {"FDSTORE", "1"}});
  ASSERT_TRUE(store);
  EXPECT_EQ(store->Put("one", STDERR_FILENO).error().code, Code::kUnavailable);
}

}  // namespace
}  // namespace forebay
