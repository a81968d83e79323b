#include "common/base/program.h"

#include <spdlog/spdlog.h>
#include <unistd.h>

#include <cstdio>
#include <optional>

#include "common/base/config_loader.h"
#include "common/base/config_text.h"
#include "common/base/control.h"
#include "common/base/process.h"
#include "common/base/version.h"

namespace forebay {

namespace {

constexpr int kExitDone = 0;
constexpr int kExitFailed = 1;
constexpr int kExitUsage = 2;

void Print(std::FILE* stream, std::string_view text) {
  std::fwrite(text.data(), 1, text.size(), stream);
  std::fflush(stream);
}

void PrintFaults(const std::string& program, const std::vector<std::string>& faults) {
  std::string text =
      fmt::format("{}: {} in the configuration:\n", program,
                  faults.size() == 1 ? "a fault" : fmt::format("{} faults", faults.size()));
  for (const std::string& fault : faults) text += "  " + fault + "\n";
  Print(stderr, text);
}

/// Reads the configuration. An exit code when the program ends with that.
std::optional<int> Configure(ProgramSpec& spec, const ConfigSources& sources) {
  const ConfigOutcome outcome = LoadConfig(sources, spec.own, spec.others);
  switch (outcome.action) {
    case ConfigAction::kHelp:
      Print(stdout, HelpText(spec.name, spec.summary, spec.own));
      return kExitDone;
    case ConfigAction::kVersion:
      Print(stdout, fmt::format("{} {} ({})\n", spec.name, Version(), Commit()));
      return kExitDone;
    case ConfigAction::kRun:
    case ConfigAction::kPrintConfig:
    case ConfigAction::kCheckConfig:
      break;
  }
  if (!outcome.faults.empty()) {
    PrintFaults(spec.name, outcome.faults);
    return kExitUsage;
  }
  if (outcome.action == ConfigAction::kPrintConfig) {
    Print(stdout, PrintConfig(spec.own));
    return kExitDone;
  }
  if (outcome.action == ConfigAction::kCheckConfig) {
    for (const std::string& doubt : spec.doubts ? spec.doubts() : std::vector<std::string>())
      Print(stderr, fmt::format("{}: warning: {}\n", spec.name, doubt));
    Print(stdout, "the configuration is good\n");
    return kExitDone;
  }
  return std::nullopt;
}

/// The part of a program's life after its configuration.
class Run {
 public:
  Run(const ProgramSpec& spec, const Environment& environment)
      : spec_(spec), environment_(environment) {}

  int operator()() {
    const bool detach = spec_.foreground != nullptr && !*spec_.foreground;
    // A ward is in the background already, where its guardian is.
    in_background_ = detach;
    if (detach && !spec_.ward) {
      const Result<int> exit_code = background_.Enter(spec_.quiet);
      if (!exit_code) return Failed(exit_code.error());
      if (*exit_code >= 0) return *exit_code;
    }
    Result<std::unique_ptr<Log>> log = Log::Start(*spec_.log, spec_.name, in_background_);
    if (!log) return Failed(log.error());
    log_ = std::move(*log);
    return spec_.guard ? Guard() : Live();
  }

 private:
  int Guard() {
    const auto announce = [this](const std::string& line) {
      NotifySystemd(environment_, "READY=1");
      return Announce(line);
    };
    return spec_.guard(Guardianship{*log_, environment_, announce,
                                    [this] { NotifySystemd(environment_, "STOPPING=1"); }});
  }

  int Live() {
    Metrics metrics;
    Health health;
    auto own_control = std::make_unique<Control>(
        metrics, health, spec_.ward ? spec_.ward->terminated : nullptr, environment_);
    Control& control = *own_control;
    const Status listening = control.Start(*spec_.metrics_listen);
    if (!listening) return Failed(listening.error());
    ProgramServices services{
        metrics,
        health,
        control.stopping(),
        [&control] { control.RequestStop(); },
        [&control](const std::vector<IoPool*>& loops) { control.WatchOnly(loops); },
        [this](const std::string& sentence) {
          if (!LogIsStderr()) SayToStarter(sentence);
        }};
    spdlog::info("{} {} ({}) starts", spec_.name, Version(), Commit());
    const std::unique_ptr<Daemon> daemon = spec_.make(services);

    Status status = daemon->Start();
    const bool stopped_early = control.stopping().stop_requested();
    if (status && !stopped_early) status = Serve(*daemon, control, health);
    // A start that was broken off by SIGTERM did what it was told.
    if (!status && stopped_early) status = Status();

    control.EndWatch();
    control.RequestStop();
    health.SetNotReady("stopping");
    if (!spec_.ward) NotifySystemd(environment_, "STOPPING=1");
    daemon->Stop(Deadline::After(kDrainTime));
    if (daemon->HangsOn()) {
      spdlog::error("{} ends beside a disk that does not answer", spec_.name);
      own_control.reset();  // its port, which is ours as long as the kernel keeps the process
      spdlog::shutdown();
      ::_exit(kExitFailed);
    }
    if (!status) return Failed(status.error());
    spdlog::info("{} has stopped", spec_.name);
    return kExitDone;
  }

  /// From ready until a stop is requested.
  Status Serve(Daemon& daemon, Control& control, Health& health) {
    std::string line = spec_.name + " ready";
    for (const auto& [name, address] : daemon.Addresses()) {
      line += fmt::format(" {}={}", name, address);
    }
    if (!control.metrics_address().empty()) line += " metrics=" + control.metrics_address();
    line += "\n";
    health.SetStarted();
    if (!spec_.ward) NotifySystemd(environment_, "READY=1");
    control.Watch(daemon.Loops());
    const Status announced = Announce(line);
    if (!announced) return announced;
    while (control.Wait() == Control::Event::kReload) {
      spdlog::info("reloading");
      const Status reopened = log_->Reopen();
      if (!reopened) spdlog::error("{}; logging goes on to the old file", reopened.error().message);
      daemon.Reload();
    }
    return {};
  }

  Status Announce(const std::string& line) {
    if (spec_.ward) {
      const Status left = in_background_ ? Background::LeaveTerminal() : Status();
      if (left) spec_.ward->ready(line);
      return left;
    }
    if (in_background_) return background_.Ready(line);
    if (!spec_.quiet) Print(stdout, line);
    return {};
  }

  /// Says why the program ends: in its log, and to whoever started it if the log is elsewhere.
  int Failed(const Error& error) {
    if (log_ != nullptr) spdlog::error("{}", error.message);
    if (!LogIsStderr()) SayToStarter(error.message);
    return error.code == Code::kInvalid ? kExitUsage : kExitFailed;
  }

  bool LogIsStderr() const { return log_ != nullptr && spec_.log->file.empty() && !in_background_; }

  void SayToStarter(const std::string& sentence) const {
    Print(stderr, fmt::format("{}: {}\n", spec_.name, sentence));
  }

  const ProgramSpec& spec_;
  const Environment& environment_;
  Background background_;
  bool in_background_ = false;
  std::unique_ptr<Log> log_;
};

}  // namespace

ConfigSources SourcesOfProcess(int argc, char** argv) {
  ConfigSources sources;
  sources.arguments.assign(argv + std::min(argc, 1), argv + argc);
  sources.environment = ProcessEnvironment();
  return sources;
}

int RunProgram(ProgramSpec& spec, int argc, char** argv) {
  PrepareProcess();
  const ConfigSources sources = SourcesOfProcess(argc, argv);
  const std::optional<int> ended = Configure(spec, sources);
  if (ended) return *ended;
  return Run(spec, sources.environment)();
}

}  // namespace forebay
