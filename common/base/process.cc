#include "common/base/process.h"

#include <fcntl.h>
#include <spdlog/spdlog.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <span>
#include <system_error>

namespace forebay {

namespace {

std::string ErrnoText() { return std::generic_category().message(errno); }

std::unexpected<Error> FailedCall(std::string_view what) {
  return Fail(
      Code::kInternal,
      fmt::format("cannot go into the background: {}: {}; use --foreground", what, ErrnoText()));
}

/// Everything until the other side closes its end.
std::string ReadToEnd(int fd) {
  std::string text;
  std::array<char, 512> chunk{};
  for (;;) {
    const ssize_t n = ::read(fd, chunk.data(), chunk.size());
    if (n > 0) {
      text.append(chunk.data(), static_cast<std::size_t>(n));
    } else if (n == 0 || errno != EINTR) {
      return text;
    }
  }
}

/// The exit status of a child as a shell reports it.
int WaitFor(pid_t child) {
  int status = 0;
  while (::waitpid(child, &status, 0) < 0) {
    if (errno != EINTR) return 1;
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/// For what must not be lost.
constexpr timeval kSystemdPatience{.tv_sec = 5, .tv_usec = 0};

void AttachDescriptor(msghdr& message, std::span<char> control, int fd) {
  message.msg_control = control.data();
  message.msg_controllen = control.size();
  cmsghdr* part = CMSG_FIRSTHDR(&message);
  part->cmsg_level = SOL_SOCKET;
  part->cmsg_type = SCM_RIGHTS;
  part->cmsg_len = CMSG_LEN(sizeof fd);
  std::memcpy(CMSG_DATA(part), &fd, sizeof fd);
}

/// A state of several lines is one notification: the first says which.
std::string CannotTell(std::string_view state, const std::string& path, const std::string& why) {
  return fmt::format("cannot tell systemd {} at {}: {}", state.substr(0, state.find('\n')), path,
                     why);
}

Status Send(const Environment& environment, std::string_view state, int fd, int flags) {
  const auto found = environment.find("NOTIFY_SOCKET");
  if (found == environment.end() || found->second.empty()) {
    return Fail(Code::kUnavailable,
                fmt::format("systemd is not told {}: it did not start us", state));
  }
  const std::string& path = found->second;
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof(address.sun_path)) {
    return Fail(Code::kInvalid,
                fmt::format("NOTIFY_SOCKET {} is too long for a socket; systemd is not told {}",
                            path, state));
  }
  std::ranges::copy(path, address.sun_path);
  // systemd writes an abstract socket's leading NUL as '@'.
  if (path.front() == '@') address.sun_path[0] = '\0';
  iovec part{const_cast<char*>(state.data()), state.size()};
  msghdr message{};
  message.msg_name = &address;
  message.msg_namelen = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + path.size());
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> control{};
  if (fd >= 0) AttachDescriptor(message, control, fd);
  const int notify = ::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (notify < 0) return Fail(Code::kUnavailable, CannotTell(state, path, ErrnoText()));
  ::setsockopt(notify, SOL_SOCKET, SO_SNDTIMEO, &kSystemdPatience, sizeof kSystemdPatience);
  const ssize_t sent = ::sendmsg(notify, &message, MSG_NOSIGNAL | flags);
  const std::string why = ErrnoText();
  ::close(notify);
  if (sent >= 0) return {};
  return Fail(Code::kUnavailable, CannotTell(state, path, why));
}

}  // namespace

// It cannot fail with these arguments.
void ForbidDumps() { ::prctl(PR_SET_DUMPABLE, 0, 0, 0, 0); }

void HoldStandardStreams() {
  for (;;) {
    const int fd = ::open("/dev/null", O_RDONLY);
    if (fd > STDERR_FILENO) ::close(fd);
    if (fd < 0 || fd > STDERR_FILENO) return;
  }
}

void PrepareProcess() {
  HoldStandardStreams();
  // None of these can fail with these arguments but the descriptor limit, which is a wish.
  std::signal(SIGPIPE, SIG_IGN);
  ::umask(077);
  ForbidDumps();
  rlimit descriptors{};
  if (::getrlimit(RLIMIT_NOFILE, &descriptors) == 0) {
    descriptors.rlim_cur = descriptors.rlim_max;
    ::setrlimit(RLIMIT_NOFILE, &descriptors);
  }
}

void NotifySystemd(const Environment& environment, std::string_view state) {
  const auto found = environment.find("NOTIFY_SOCKET");
  if (found == environment.end() || found->second.empty()) return;
  const Status told = Send(environment, state, -1, MSG_DONTWAIT);
  if (!told) spdlog::warn("{}", told.error().message);
}

Status SendToSystemd(const Environment& environment, std::string_view state, int fd) {
  return Send(environment, state, fd, 0);
}

std::optional<std::chrono::microseconds> WatchdogTime(const Environment& environment) {
  const auto number = [&](const char* name) -> std::optional<std::uint64_t> {
    const auto found = environment.find(name);
    if (found == environment.end()) return std::nullopt;
    std::uint64_t value = 0;
    const std::string& text = found->second;
    const auto end = std::from_chars(text.data(), text.data() + text.size(), value);
    if (end.ec != std::errc() || end.ptr != text.data() + text.size()) return std::nullopt;
    return value;
  };
  const auto time = number("WATCHDOG_USEC");
  if (!time || *time == 0) return std::nullopt;
  // Of a parent: its children inherit the variables.
  if (const auto pid = number("WATCHDOG_PID"); pid && *pid != std::uint64_t(::getpid()))
    return std::nullopt;
  return std::chrono::microseconds(*time);
}

Result<int> Background::Enter(bool quiet) {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) return FailedCall("pipe");
  std::fflush(nullptr);  // or both processes would write what is still buffered
  const pid_t child = ::fork();
  if (child < 0) {
    ::close(ends[0]);
    ::close(ends[1]);
    return FailedCall("fork");
  }
  if (child == 0) {
    ::close(ends[0]);
    pipe_ = ends[1];
    return -1;
  }
  ::close(ends[1]);
  // Takes as long as the child's start; Ctrl-C reaches the child too, which is still in the
  // terminal's foreground group, and ends this wait.
  std::signal(SIGINT, SIG_IGN);
  const std::string line = ReadToEnd(ends[0]);
  ::close(ends[0]);
  if (line.empty()) return WaitFor(child);
  if (quiet) return 0;
  std::fwrite(line.data(), 1, line.size(), stdout);
  std::fflush(stdout);
  return 0;
}

Status Background::LeaveTerminal() {
  const int null = ::open("/dev/null", O_RDWR | O_CLOEXEC);
  if (null < 0) return FailedCall("/dev/null");
  ::setsid();
  if (::chdir("/") != 0) return FailedCall("chdir /");
  for (const int standard : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) ::dup2(null, standard);
  ::close(null);
  return {};
}

Status Background::Ready(std::string_view line) {
  Status left = LeaveTerminal();
  if (!left) return left;
  const ssize_t written = ::write(pipe_, line.data(), line.size());
  ::close(pipe_);
  pipe_ = -1;
  if (written < 0) return FailedCall("the starting process has gone");
  return {};
}

}  // namespace forebay
