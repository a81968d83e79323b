#include "fuse-client/mount_program.h"

#include <fcntl.h>
#include <spdlog/spdlog.h>
#include <sys/prctl.h>

#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "common/base/config_text.h"
#include "common/base/log.h"
#include "common/base/process.h"
#include "common/base/program.h"
#include "common/config/programs.h"
#include "common/config/sections.h"
#include "common/wire/handshake.h"
#include "fuse-client/crash_guard.h"
#include "fuse-client/hold_program.h"
#include "fuse-client/mount.h"
#include "fuse-client/mount_args.h"
#include "fuse-client/mountpoint.h"
#include "fuse-client/supervisor/descriptor_store.h"
#include "fuse-client/supervisor/holder_store.h"
#include "fuse-client/supervisor/keeper.h"
#include "fuse-client/supervisor/stored_mount.h"
#include "fuse-client/supervisor/supervisor.h"
#include "fuse-client/supervisor/upgrade_socket.h"

namespace forebay {

namespace {

constexpr int kExitDone = 0;
constexpr int kExitFailed = 1;
constexpr int kExitUsage = 2;

/// What mount(8) expects of its helpers, mount(8), "EXIT STATUS".
constexpr int kMountUsage = 1;
constexpr int kMountFailed = 32;

constexpr std::string_view kUpgradeArgument = "--upgrade";
constexpr std::string_view kHoldArgument = "--hold";

/// How the ready line names the address of /metrics.
constexpr std::string_view kMetricsInLine = " metrics=";
/// The keeper's entry for it: a successor listens where its predecessor did.
constexpr std::string_view kMetricsKept = "metrics-listen";

// The process that waits for the one in the background gets a code that has been translated.
int HelperExitCode(int code) {
  switch (code) {
    case kExitDone:
    case kMountFailed:
      return code;
    case kExitUsage:
      return kMountUsage;
    default:
      return kMountFailed;
  }
}

/// What forebay-mount is configured with, in each of its processes.
struct MountOptions {
  MountConfig mount;
  TrustConfig trust;
  LogConfig log;
  AllConfigs all;
  ProgramSpec spec{.name = std::string(kMountProgram.name),
                   .summary = std::string(kMountProgram.summary)};

  MountOptions() {
    spec.own.push_back(MountSection(mount));
    spec.own.push_back(TrustSection(trust, {}, &mount.metrics_listen));
    spec.own.push_back(LogSection(log));
    spec.others = all.SectionsBeside(spec.own);
    spec.log = &log;
    spec.metrics_listen = &mount.metrics_listen;
    spec.foreground = &mount.foreground;
  }
  MountOptions(const MountOptions&) = delete;
  MountOptions& operator=(const MountOptions&) = delete;
};

int Run(ProgramSpec& spec, std::vector<std::string> arguments) {
  std::vector<char*> words;
  words.reserve(arguments.size());
  for (std::string& word : arguments) words.push_back(word.data());
  return RunProgram(spec, static_cast<int>(words.size()), words.data());
}

/// Threads that serve, and the directory of all links.
std::size_t ArenasFor(std::size_t threads) { return threads + 1; }

void MakeAbsolute(std::string& path) {
  std::error_code error;
  const std::filesystem::path absolute = std::filesystem::absolute(path, error);
  if (!path.empty() && !error) path = absolute.string();
}

/// All options in force go to the workers as a file, so that one that comes later has the same,
/// whatever has become of files, the environment and the folder of the start.
WorkerCommand CommandOf(const MountOptions& options, const std::string& device,
                        const Environment& environment) {
  WorkerCommand command;
  command.arguments = {options.spec.name, device, options.mount.mountpoint};
  command.config = PrintConfig(options.spec.own);
  for (const auto& [name, value] : environment) {
    const bool configures = name.starts_with("FOREBAY_MOUNT_") ||
                            name.starts_with("FOREBAY_TRUST_") || name.starts_with("FOREBAY_LOG_");
    if (!configures && !IsOfServiceManager(name)) command.environment.emplace(name, value);
  }
  if (WatchdogTime(environment) && environment.contains("NOTIFY_SOCKET")) {
    // Without WATCHDOG_PID: whichever worker serves says that it does.
    for (const char* name : {"NOTIFY_SOCKET", "WATCHDOG_USEC"}) {
      command.environment.emplace(name, environment.at(name));
    }
  }
  return command;
}

/// Whoever keeps the mount while this program is started again; null: nobody does.
Result<std::unique_ptr<DescriptorStore>> StoreOf(const MountConfig& mount,
                                                 const Environment& environment) {
  if (mount.held_by.empty()) return SystemdStore::Of(environment);
  Result<std::unique_ptr<HolderStore>> held = HolderStore::Open(mount.held_by, mount.mountpoint);
  if (!held) return Fail(held.error());
  return std::move(*held);
}

/// What that has kept.
Result<std::optional<StoredMount>> OpenStored(MountOptions& options,
                                              const Environment& environment) {
  Result<std::unique_ptr<DescriptorStore>> store = StoreOf(options.mount, environment);
  if (!store) return Fail(store.error());
  if (!*store) return std::nullopt;
  Result<StoredMount> stored = StoredMount::Open(
      std::move(*store), {.source = options.mount.source, .mountpoint = options.mount.mountpoint});
  if (!stored) return Fail(stored.error());
  if (!stored->abandoned().empty()) {
    const Status detached = DetachIfOurs(stored->abandoned());
    if (!detached) spdlog::warn("{}", detached.error().message);
  }
  if (stored->inherited() && stored->arenas() != ArenasFor(options.mount.threads)) {
    options.mount.threads = stored->arenas() - ArenasFor(0);
    spdlog::warn("{} goes on with {} threads until it is mounted anew", stored->mountpoint(),
                 options.mount.threads);
  }
  return std::optional<StoredMount>(std::move(*stored));
}

/// To the log, and to whoever started this program if the log is elsewhere.
int NotStarted(const MountOptions& options, const Error& error) {
  spdlog::error("{}", error.message);
  if (!options.mount.foreground || !options.log.file.empty()) {
    std::fprintf(stderr, "forebay-mount: %s\n", error.message.c_str());
  }
  return error.code == Code::kInvalid ? kExitUsage : kExitFailed;
}

int Supervise(MountOptions& options, const std::string& device, const Guardianship& self) {
  MakeAbsolute(options.mount.mountpoint);
  options.mount.mountpoint = StoredMount::NameOf(options.mount.mountpoint);
  Result<std::optional<StoredMount>> stored = OpenStored(options, self.environment);
  if (!stored) return NotStarted(options, stored.error());
  const bool inherited = *stored && (*stored)->inherited();
  // Without links; before anything is mounted there, since a look would wait for a worker.
  if (!inherited) ClearDeadMount(options.mount.mountpoint);
  const std::string mountpoint =
      inherited ? (*stored)->mountpoint()
                : AbsoluteMountpoint(options.mount.mountpoint).value_or(options.mount.mountpoint);
  SupervisorOptions supervisor;
  supervisor.stored = *stored ? &**stored : nullptr;
  supervisor.term_leaves = !options.mount.held_by.empty();
  supervisor.watchdog = WatchdogTime(self.environment);
  supervisor.feed_watchdog = [&] { NotifySystemd(self.environment, "WATCHDOG=1"); };
  supervisor.mountpoint = mountpoint;
  supervisor.command = CommandOf(options, device, self.environment);
  supervisor.arenas = ArenasFor(options.mount.threads);
  const Result<std::string> folder = RuntimeDir();
  // It makes the folder, too.
  if (folder && LoadOrCreateSecret()) {
    supervisor.socket_path = MountSocketPath(*folder, kUpgradeSocket, mountpoint);
  }
  std::optional<CrashGuard> crash_guard;
  supervisor.on_ready = [&](const std::string& line) {
    // What is stored goes on with the next start.
    if (!*stored) crash_guard.emplace(mountpoint);
    return self.announce(line);
  };
  supervisor.on_stopping = [&] {
    crash_guard.reset();
    self.announce_stop();
  };
  supervisor.reopen_log = [&] {
    const Status reopened = self.log.Reopen();
    if (!reopened) spdlog::error("{}; logging goes on to the old file", reopened.error().message);
  };
  supervisor.detach = [&] { DetachLazily(mountpoint); };
  return Supervisor(std::move(supervisor)).Run();
}

void KeepMetricsAddress(const Keeper& keeper, const std::string& ready_line) {
  const std::size_t at = ready_line.find(kMetricsInLine);
  if (at == std::string::npos) return;
  std::string address = ready_line.substr(at + kMetricsInLine.size());
  while (!address.empty() && address.back() == '\n') address.pop_back();
  keeper.Keep(kMetricsKept, address);
}

/// A worker. `device` is what the mount table shows.
int RunWorker(const std::string& device) {
  PrepareProcess();
  // The kernel names a process after the file that it runs, of which we were given a descriptor.
  ::prctl(PR_SET_NAME, std::string(kMountProgram.name).c_str(), 0, 0, 0);
  for (const int fd : {Keeper::kChannelFd, Keeper::kConfigFd}) ::fcntl(fd, F_SETFD, FD_CLOEXEC);
  Result<std::unique_ptr<Keeper>> keeper = Keeper::Connect(OwnedFd(Keeper::kChannelFd));
  if (!keeper) {
    std::fprintf(stderr, "forebay-mount: %s\n", keeper.error().message.c_str());
    return kExitFailed;
  }
  MountOptions options;
  bool ready = false;
  options.spec.ward = Ward{.ready =
                               [&](const std::string& line) {
                                 ready = true;
                                 KeepMetricsAddress(**keeper, line);
                                 (*keeper)->Ready(line);
                               },
                           .terminated = [&] { (*keeper)->Terminated(); }};
  options.spec.make = [&](ProgramServices& services) {
    auto daemon = std::make_unique<MountDaemon>(options.mount, device, services, keeper->get(),
                                                options.trust.dir);
    (*keeper)->Obey({.stop = services.request_stop,
                     .leave = [mount = daemon.get()] { mount->LeaveToSuccessor(); }});
    return daemon;
  };
  std::vector<std::string> arguments = {options.spec.name, "--config",
                                        "/proc/self/fd/" + std::to_string(Keeper::kConfigFd)};
  for (const auto& [key, kept] : (*keeper)->TakeInherited(kMetricsKept)) {
    arguments.insert(arguments.end(), {"--metrics-listen", kept.value});
  }
  const int code = Run(options.spec, std::move(arguments));
  if (ready || code == kExitDone) (*keeper)->Finished(code);
  return code;
}

int RunUpgrade(const std::vector<std::string>& words) {
  if (words.size() != 1) {
    std::fprintf(stderr, "Usage: forebay-mount --upgrade MOUNTPOINT\n");
    return kExitUsage;
  }
  PrepareProcess();
  Result<std::string> done = AbsoluteMountpoint(words.front());
  if (done) {
    const std::string mountpoint = *done;
    const Result<std::string> folder = RuntimeDir();
    done = folder ? AskForUpgrade(MountSocketPath(*folder, kUpgradeSocket, mountpoint), mountpoint)
                  : folder;
  }
  if (!done) {
    std::fprintf(stderr, "forebay-mount: %s\n", done.error().message.c_str());
    return kExitFailed;
  }
  std::printf("%s\n", done->c_str());
  return kExitDone;
}

}  // namespace

int RunMount(int argc, char** argv) {
  std::vector<std::string> arguments(argv, argv + argc);
  if (argc >= 3 && arguments[1] == kWorkerArgument) return RunWorker(arguments[2]);
  if (argc >= 2 && arguments[1] == kUpgradeArgument) {
    return RunUpgrade({arguments.begin() + 2, arguments.end()});
  }
  if (argc >= 2 && arguments[1] == kHoldArgument) {
    return RunHold({arguments.begin() + 2, arguments.end()});
  }
  const bool as_helper = std::filesystem::path(arguments.at(0)).filename() == "mount.forebay";
  std::string device;
  if (as_helper) {
    Result<MountArguments> translated =
        TranslateMountArguments({arguments.begin() + 1, arguments.end()});
    if (!translated) {
      std::fprintf(stderr, "mount.forebay: %s\n", translated.error().message.c_str());
      return kMountUsage;
    }
    device = translated->source;
    for (const std::string& warning : translated->warnings) {
      std::fprintf(stderr, "mount.forebay: %s\n", warning.c_str());
    }
    if (translated->fake) translated->arguments.push_back("--check-config");
    arguments.resize(1);
    arguments.insert(arguments.end(), translated->arguments.begin(), translated->arguments.end());
  }
  MountOptions options;
  options.spec.quiet = as_helper;  // as other helpers of mount(8)
  options.spec.guard = [&](const Guardianship& self) {
    return Supervise(options, device.empty() ? options.mount.source : device, self);
  };
  const int code = Run(options.spec, std::move(arguments));
  return as_helper ? HelperExitCode(code) : code;
}

}  // namespace forebay
