#include "fuse-client/supervisor/worker_process.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>
#include <utility>

#include "fuse-client/supervisor/keeper.h"

namespace forebay {

namespace {

constexpr int kExitNotStarted = 127;  // as a shell reports it

std::unexpected<Error> Refused(const char* what) {
  return Fail(Code::kInternal,
              "cannot start a process that serves the mount: " + std::string(what) + ": " +
                  std::generic_category().message(errno));
}

Result<OwnedFd> FileOf(const std::string& text) {
  OwnedFd file(::memfd_create("forebay-config", MFD_CLOEXEC));
  if (!file) return Refused("memfd_create");
  if (::write(file.get(), text.data(), text.size()) != static_cast<ssize_t>(text.size())) {
    return Refused("write");
  }
  return file;
}

std::vector<char*> Pointers(std::vector<std::string>& words) {
  std::vector<char*> pointers;
  pointers.reserve(words.size() + 1);
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  return pointers;
}

/// exec would do it, too; but a signal that comes before would be answered as our supervisor
/// answers its own crash: by clearing the mount point.
void ForgetHandlers() {
  for (int number = 1; number < NSIG; ++number) {
    struct sigaction action{};
    // The C library keeps some numbers to itself.
    if (::sigaction(number, nullptr, &action) != 0 || action.sa_handler == SIG_IGN) continue;
    action = {};
    action.sa_handler = SIG_DFL;
    ::sigaction(number, &action, nullptr);
  }
}

/// In the child, with all signals blocked: only calls that need no lock.
[[noreturn]] void Become(int program, int channel, int config, char* const* argv,
                         char* const* envp) {
  ::setsid();
  // Also when it cannot notice by itself that its supervisor has gone: a dead mount is better than
  // one that nobody can end.
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  // Out of the way first, then to their places, where they outlive exec.
  const int high_channel = ::fcntl(channel, F_DUPFD_CLOEXEC, Keeper::kConfigFd + 1);
  const int high_config = ::fcntl(config, F_DUPFD_CLOEXEC, Keeper::kConfigFd + 1);
  const int high_program = ::fcntl(program, F_DUPFD_CLOEXEC, Keeper::kConfigFd + 1);
  ::dup2(high_channel, Keeper::kChannelFd);
  ::dup2(high_config, Keeper::kConfigFd);
  ForgetHandlers();
  sigset_t none;
  sigemptyset(&none);
  ::pthread_sigmask(SIG_SETMASK, &none, nullptr);
  ::fexecve(high_program, argv, envp);
  ::_exit(kExitNotStarted);
}

}  // namespace

Result<WorkerProcess> WorkerProcess::Start(int program, const WorkerCommand& command) {
  Result<std::pair<HandoverChannel, HandoverChannel>> ends = HandoverChannel::Pair();
  if (!ends) return Fail(ends.error());
  const Result<OwnedFd> config = FileOf(command.config);
  if (!config) return Fail(config.error());
  std::vector<std::string> arguments = command.arguments;
  arguments.insert(arguments.begin() + 1, kWorkerArgument);
  std::vector<std::string> variables;
  variables.reserve(command.environment.size());
  for (const auto& [name, value] : command.environment) variables.push_back(name + "=" + value);
  const std::vector<char*> argv = Pointers(arguments);
  const std::vector<char*> envp = Pointers(variables);
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  const pid_t child = ::fork();
  if (child == 0) {
    Become(program, ends->second.fd(), config->get(), argv.data(), envp.data());
  }
  const int why = errno;
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  errno = why;
  if (child < 0) return Refused("fork");
  return WorkerProcess(child, std::move(ends->first));
}

void WorkerProcess::Kill(int number) const { ::kill(pid_, number); }

}  // namespace forebay
