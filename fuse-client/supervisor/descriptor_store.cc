#include "fuse-client/supervisor/descriptor_store.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <array>
#include <charconv>
#include <sstream>
#include <string_view>

#include "common/base/process.h"

namespace forebay {

namespace {

/// The first descriptor that systemd passes, sd_listen_fds(3).
constexpr int kFirstPassed = 3;

std::string Variable(const Environment& environment, const char* name) {
  const auto found = environment.find(name);
  return found == environment.end() ? "" : found->second;
}

int NumberIn(const std::string& text) {
  int number = 0;
  const auto end = std::from_chars(text.data(), text.data() + text.size(), number);
  return end.ec == std::errc() && end.ptr == text.data() + text.size() ? number : 0;
}

}  // namespace

std::unique_ptr<SystemdStore> SystemdStore::Of(const Environment& environment) {
  if (Variable(environment, "NOTIFY_SOCKET").empty()) return nullptr;
  const int most = NumberIn(Variable(environment, "FDSTORE"));
  if (most <= 0) return nullptr;
  // Of a service that has started us in turn: the store is that one's.
  const std::string started = Variable(environment, "SYSTEMD_EXEC_PID");
  if (!started.empty() && NumberIn(started) != ::getpid()) return nullptr;
  return std::unique_ptr<SystemdStore>(
      new SystemdStore(environment, static_cast<std::size_t>(most)));
}

std::map<std::string, OwnedFd> SystemdStore::TakeBack() {
  std::map<std::string, OwnedFd> found;
  if (NumberIn(Variable(environment_, "LISTEN_PID")) != ::getpid()) return found;
  const int count = NumberIn(Variable(environment_, "LISTEN_FDS"));
  std::istringstream names(Variable(environment_, "LISTEN_FDNAMES"));
  for (int fd = kFirstPassed; fd < kFirstPassed + count; ++fd) {
    std::string name;
    std::getline(names, name, ':');
    if (::fcntl(fd, F_SETFD, FD_CLOEXEC) != 0) continue;
    kept_.insert(name);
    found[name] = OwnedFd(fd);
  }
  return found;
}

// systemd looks at what it keeps, unless told not to, and would wake up for each request of the
// kernel that /dev/fuse has for us.
Status SystemdStore::Put(const std::string& name, int fd) {
  if (kept_.size() >= most_) {
    return Fail(Code::kDenied, fmt::format("systemd keeps {} descriptors of this service at most; "
                                           "raise FileDescriptorStoreMax= and $FDSTORE in its unit",
                                           most_));
  }
  Status put = SendToSystemd(environment_, "FDSTORE=1\nFDPOLL=0\nFDNAME=" + name, fd);
  if (put) kept_.insert(name);
  return put;
}

void SystemdStore::Remove(const std::string& name) {
  kept_.erase(name);
  const Status told = SendToSystemd(environment_, "FDSTOREREMOVE=1\nFDNAME=" + name, -1);
  if (!told) spdlog::warn("{}; it keeps a descriptor too many", told.error().message);
}

bool IsOfServiceManager(const std::string& variable) {
  constexpr std::array<std::string_view, 9> kNames = {
      "SYSTEMD_EXEC_PID", "NOTIFY_SOCKET", "FDSTORE",       "LISTEN_PID",    "LISTEN_FDS",
      "LISTEN_FDNAMES",   "WATCHDOG_PID",  "WATCHDOG_USEC", "LISTEN_PIDFDID"};
  for (const std::string_view name : kNames) {
    if (variable == name) return true;
  }
  return false;
}

}  // namespace forebay
