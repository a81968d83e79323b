#include "tests/unit/base/child_process.h"

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <utility>

namespace forebay {

namespace {

constexpr int kPatienceMs = 20'000;

bool Readable(int fd) {
  pollfd wanted{.fd = fd, .events = POLLIN, .revents = 0};
  return ::poll(&wanted, 1, kPatienceMs) > 0;
}

/// Appends what is there; false at the end, or when nothing came in time.
bool ReadSome(int fd, std::string& text) {
  if (!Readable(fd)) return false;
  std::array<char, 4096> chunk{};
  const ssize_t n = ::read(fd, chunk.data(), chunk.size());
  if (n <= 0) return false;
  text.append(chunk.data(), static_cast<std::size_t>(n));
  return true;
}

std::vector<char*> Pointers(std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  pointers.reserve(texts.size() + 1);
  for (std::string& text : texts) pointers.push_back(text.data());
  pointers.push_back(nullptr);
  return pointers;
}

}  // namespace

ChildProcess::ChildProcess(std::vector<std::string> command, std::vector<std::string> environment) {
  for (char** entry = environ; *entry != nullptr; ++entry) environment.emplace_back(*entry);
  std::array<int, 2> out{};
  std::array<int, 2> err{};
  if (::pipe2(out.data(), O_CLOEXEC) != 0 || ::pipe2(err.data(), O_CLOEXEC) != 0) return;
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_adddup2(&actions, out[1], STDOUT_FILENO);
  ::posix_spawn_file_actions_adddup2(&actions, err[1], STDERR_FILENO);
  const std::vector<char*> arguments = Pointers(command);
  const std::vector<char*> variables = Pointers(environment);
  if (::posix_spawn(&pid_, arguments[0], &actions, nullptr, arguments.data(), variables.data()) !=
      0) {
    pid_ = -1;
  }
  ::posix_spawn_file_actions_destroy(&actions);
  ::close(out[1]);
  ::close(err[1]);
  out_ = out[0];
  err_ = err[0];
}

ChildProcess::~ChildProcess() {
  if (pid_ > 0) {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  if (out_ >= 0) ::close(out_);
  if (err_ >= 0) ::close(err_);
}

std::string ChildProcess::ReadLine() {
  while (read_.find('\n') == std::string::npos) {
    if (!ReadSome(out_, read_)) return std::exchange(read_, "");
  }
  const std::size_t end = read_.find('\n');
  std::string line = read_.substr(0, end);
  read_.erase(0, end + 1);
  return line;
}

void ChildProcess::Signal(int number) const { ::kill(pid_, number); }

int ChildProcess::Wait() {
  const int handle = static_cast<int>(::syscall(SYS_pidfd_open, pid_, 0));
  const bool ended = handle >= 0 && Readable(handle);
  if (handle >= 0) ::close(handle);
  if (!ended) return -1;
  int status = 0;
  ::waitpid(std::exchange(pid_, -1), &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

std::string ChildProcess::RestOfOutput() {
  while (ReadSome(out_, read_)) {
  }
  return std::exchange(read_, "");
}

std::string ChildProcess::Errors() {
  std::string text;
  while (ReadSome(err_, text)) {
  }
  return text;
}

}  // namespace forebay
