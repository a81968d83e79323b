#include "fuse-client/crash_guard.h"

#include <fcntl.h>
#include <spdlog/spdlog.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <climits>
#include <csignal>
#include <ctime>

#include "fuse-client/mountpoint.h"

namespace forebay {

namespace {

constexpr std::array<int, 6> kCrashes = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT, SIGSYS};

/// Looks at fusermount3, 10 ms apart, before the process ends without it: two seconds.
constexpr int kLooks = 200;

// What a signal handler needs lies in static memory, complete before `armed` is true.
struct Guarded {
  std::array<char, PATH_MAX> mountpoint{};
  std::array<char, PATH_MAX> fusermount{};  // "" = we are root, and ask the kernel
  std::array<struct sigaction, kCrashes.size()> previous{};
};
Guarded guarded;
std::atomic<bool> armed{false};

// Only calls that signal-safety(7) allows.
void RunFusermountSafely() {
  std::array<char, 11> name = {"fusermount"};
  std::array<char, 4> lazily = {"-uz"};
  std::array<char, 3> end = {"--"};
  const std::array<char*, 5> argv = {name.data(), lazily.data(), end.data(),
                                     guarded.mountpoint.data(), nullptr};
  const pid_t child = ::fork();
  if (child == 0) {
    ::execve(guarded.fusermount.data(), argv.data(), environ);
    ::_exit(127);
  }
  for (int look = 0; child > 0 && look < kLooks; ++look) {
    if (::waitpid(child, nullptr, WNOHANG) != 0) return;
    const struct timespec pause = {0, 10'000'000};
    ::nanosleep(&pause, nullptr);
  }
}

void OnCrash(int number, siginfo_t* info, void*) {
  if (armed.exchange(false)) {
    if (guarded.fusermount[0] == '\0') {
      ::umount2(guarded.mountpoint.data(), MNT_DETACH | UMOUNT_NOFOLLOW);
    } else {
      RunFusermountSafely();
    }
  }
  for (std::size_t i = 0; i < kCrashes.size(); ++i) {
    if (kCrashes[i] == number) ::sigaction(number, &guarded.previous[i], nullptr);
  }
  // A fault comes again by itself when we return; what somebody sent does not.
  if (info->si_code <= 0) ::raise(number);
}

bool Copy(const std::string& text, std::array<char, PATH_MAX>& out) {
  if (text.size() >= out.size()) return false;
  *std::ranges::copy(text, out.begin()).out = '\0';
  return true;
}

}  // namespace

CrashGuard::CrashGuard(const std::string& mountpoint) {
  const std::string fusermount = ::geteuid() == 0 ? "" : PathOfFusermount();
  if (!Copy(mountpoint, guarded.mountpoint) || !Copy(fusermount, guarded.fusermount)) {
    spdlog::warn("{} is too long a path to be cleared after a crash", mountpoint);
    return;
  }
  struct sigaction action{};
  action.sa_sigaction = OnCrash;
  action.sa_flags = SA_SIGINFO;
  ::sigemptyset(&action.sa_mask);
  for (std::size_t i = 0; i < kCrashes.size(); ++i) {
    ::sigaction(kCrashes[i], &action, &guarded.previous[i]);
  }
  armed = true;
}

CrashGuard::~CrashGuard() {
  if (!armed.exchange(false)) return;
  for (std::size_t i = 0; i < kCrashes.size(); ++i) {
    ::sigaction(kCrashes[i], &guarded.previous[i], nullptr);
  }
}

}  // namespace forebay
