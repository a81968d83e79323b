#include "common/s3/auth/credential_process.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <system_error>
#include <utility>

#include "common/s3/auth/credential_answers.h"

namespace forebay {
namespace {

constexpr std::size_t kMaxOutputBytes = std::size_t{64} * 1024;
// How late a stop or the end of the patience is seen.
constexpr int kSliceMs = 50;

// The program while it runs. Kills it, with all that it started, and reaps it when it goes.
class Child {
 public:
  Child() = default;
  ~Child() {
    Kill();
    if (output_ >= 0) ::close(output_);
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  // 0, or errno.
  int Start(const std::vector<std::string>& words, const AwsEnvironment& environment) {
    std::array<int, 2> pipe{};
    if (::pipe2(pipe.data(), O_CLOEXEC) != 0) return errno;
    output_ = pipe[0];
    std::vector<char*> arguments;
    arguments.reserve(words.size() + 1);
    for (const std::string& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
    arguments.push_back(nullptr);
    std::vector<std::string> settings;
    settings.reserve(environment.variables().size());
    for (const auto& [name, value] : environment.variables())
      settings.push_back(name + "=" + value);
    std::vector<char*> pointers;
    pointers.reserve(settings.size() + 1);
    for (std::string& setting : settings) pointers.push_back(setting.data());
    pointers.push_back(nullptr);

    posix_spawn_file_actions_t files;
    ::posix_spawn_file_actions_init(&files);
    ::posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    ::posix_spawn_file_actions_adddup2(&files, pipe[1], STDOUT_FILENO);
    ::posix_spawn_file_actions_addopen(&files, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
    posix_spawnattr_t attributes;
    ::posix_spawnattr_init(&attributes);
    sigset_t all;
    sigset_t none;
    sigfillset(&all);
    sigemptyset(&none);
    ::posix_spawnattr_setsigdefault(&attributes, &all);
    ::posix_spawnattr_setsigmask(&attributes, &none);
    ::posix_spawnattr_setpgroup(&attributes, 0);
    ::posix_spawnattr_setflags(
        &attributes, POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETPGROUP);
    const int error = ::posix_spawnp(&pid_, arguments.front(), &files, &attributes,
                                     arguments.data(), pointers.data());
    ::posix_spawnattr_destroy(&attributes);
    ::posix_spawn_file_actions_destroy(&files);
    ::close(pipe[1]);
    if (error != 0) pid_ = -1;
    return error;
  }

  int output() const { return output_; }

  // True when it has ended; `status` as waitpid gives it.
  bool Ended(int& status) {
    const pid_t pid = pid_;
    if (::waitpid(pid, &status, WNOHANG) != pid) return false;
    pid_ = -1;
    return true;
  }

  void Kill() {
    if (pid_ < 0) return;
    ::kill(-pid_, SIGKILL);
    int status = 0;
    while (::waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
    }
    pid_ = -1;
  }

 private:
  pid_t pid_ = -1;
  int output_ = -1;
};

std::string SystemWords(int error) { return std::generic_category().message(error); }

// Reads to the end of the output and the program. Nothing when it went well, else what is wrong.
std::string ReadAll(Child& child, Deadline deadline, const std::stop_token& stop,
                    std::string& output) {
  std::array<char, 4096> chunk;
  bool open = true;
  for (;;) {
    if (stop.stop_requested()) return "it was stopped";
    if (deadline.Expired()) return "it did not end in time";
    int status = 0;
    if (!open && child.Ended(status)) {
      if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return {};
      return WIFEXITED(status) ? fmt::format("it ended with {}", WEXITSTATUS(status))
                               : fmt::format("signal {} ended it", WTERMSIG(status));
    }
    pollfd ready{.fd = open ? child.output() : -1, .events = POLLIN, .revents = 0};
    if (::poll(&ready, 1, kSliceMs) <= 0) continue;
    const ssize_t n = ::read(child.output(), chunk.data(), chunk.size());
    if (n <= 0) {
      open = false;
    } else if (output.size() + static_cast<std::size_t>(n) > kMaxOutputBytes) {
      return "it printed more than 64 KiB";
    } else {
      output.append(chunk.data(), static_cast<std::size_t>(n));
    }
  }
}

}  // namespace

std::vector<std::string> SplitCommand(std::string_view command) {
  std::vector<std::string> words;
  std::string word;
  bool in_word = false;
  char quote = '\0';
  for (std::size_t i = 0; i < command.size(); ++i) {
    const char c = command[i];
    if (c == '\\' && quote != '\'' && i + 1 < command.size()) {
      word.push_back(command[++i]);
      in_word = true;
    } else if (quote != '\0') {
      if (c == quote) {
        quote = '\0';
      } else {
        word.push_back(c);
      }
    } else if (c == '\'' || c == '"') {
      quote = c;
      in_word = true;
    } else if (c == ' ' || c == '\t') {
      if (in_word) words.push_back(std::exchange(word, {}));
      in_word = false;
    } else {
      word.push_back(c);
      in_word = true;
    }
  }
  if (quote != '\0') return {};
  if (in_word) words.push_back(std::move(word));
  return words;
}

CredentialAnswer RunCredentialProcess(const std::string& command, const std::string& provider,
                                      const AwsEnvironment& environment, Duration patience,
                                      std::stop_token stop) {
  const std::vector<std::string> words = SplitCommand(command);
  if (words.empty()) {
    return Broken(fmt::format("the {} is empty or has a quote that is not closed", provider));
  }
  Child child;
  const int error = child.Start(words, environment);
  if (error != 0) {
    return Broken(fmt::format("the {} cannot be started: {}: {}", provider, words.front(),
                              SystemWords(error)));
  }
  std::string output;
  const std::string fault = ReadAll(child, Deadline::After(patience), stop, output);
  if (!fault.empty()) {
    return Away(fmt::format("the {} failed: {}; run {} by hand to see why", provider, fault,
                            words.front()));
  }
  CredentialAnswer answer =
      CredentialsFromJson(output, {.token_name = "SessionToken", .has_version = true}, provider);
  if (answer) return answer;
  return Broken(fmt::format("the {} cannot be used: {}", provider, answer.error().why));
}

}  // namespace forebay
