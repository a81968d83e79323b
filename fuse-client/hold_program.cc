#include "fuse-client/hold_program.h"

#include <spdlog/spdlog.h>
#include <sys/resource.h>
#include <sys/signalfd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstddef>
#include <cstdio>
#include <memory>
#include <system_error>
#include <utility>

#include "common/base/config_loader.h"
#include "common/base/log.h"
#include "common/base/process.h"
#include "common/base/version.h"
#include "common/config/programs.h"
#include "fuse-client/mountpoint.h"
#include "fuse-client/supervisor/holder.h"

namespace forebay {

namespace {

constexpr int kExitDone = 0;
constexpr int kExitFailed = 1;
constexpr int kExitUsage = 2;

/// Descriptors of its own: connections, the socket, the log.
constexpr std::size_t kOwnDescriptors = 2 * Holder::kMountsMax + 32;

/// So many may be held, as the limit of open files is.
std::size_t RoomForDescriptors(std::size_t most) {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur <= kOwnDescriptors) return 0;
  return std::min<std::size_t>(limit.rlim_cur - kOwnDescriptors, most);
}

// SIGHUP, which to our programs is a word about files, ends none of what is held.
Result<OwnedFd> SignalsThatStop() {
  std::signal(SIGHUP, SIG_IGN);
  sigset_t caught;
  sigemptyset(&caught);
  for (const int number : {SIGTERM, SIGINT}) sigaddset(&caught, number);
  ::pthread_sigmask(SIG_BLOCK, &caught, nullptr);
  OwnedFd signals(::signalfd(-1, &caught, SFD_CLOEXEC | SFD_NONBLOCK));
  if (signals) return signals;
  return Fail(Code::kInternal,
              "cannot wait for signals: " + std::generic_category().message(errno));
}

int Failed(const Error& error) {
  std::fprintf(stderr, "forebay-mount: %s\n", error.message.c_str());
  return error.code == Code::kInvalid ? kExitUsage : kExitFailed;
}

}  // namespace

int RunHold(const std::vector<std::string>& words) {
  if (words.size() != 1 || !words.front().starts_with('/')) {
    std::fprintf(stderr, "Usage: forebay-mount --hold SOCKET    (an absolute path)\n");
    return kExitUsage;
  }
  PrepareProcess();
  const Result<OwnedFd> signals = SignalsThatStop();
  if (!signals) return Failed(signals.error());
  const Result<std::unique_ptr<Log>> log =
      Log::Start(LogOptions(), std::string(kMountProgram.name), false);
  if (!log) return Failed(log.error());
  HolderOptions options;
  options.path = words.front();
  options.descriptors_max = RoomForDescriptors(options.descriptors_max);
  options.detach = DetachIfOurs;
  Result<Holder> holder = Holder::Listen(std::move(options));
  if (!holder) return Failed(holder.error());
  spdlog::info("{} {} ({}) holds mounts at {}", kMountProgram.name, Version(), Commit(),
               words.front());
  NotifySystemd(ProcessEnvironment(), "READY=1");
  std::printf("forebay-mount ready hold=%s\n", words.front().c_str());
  std::fflush(stdout);
  holder->Serve(signals->get());
  return kExitDone;
}

}  // namespace forebay
