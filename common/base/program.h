#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include "common/base/config_loader.h"
#include "common/base/config_option.h"
#include "common/base/deadline.h"
#include "common/base/executors.h"
#include "common/base/health.h"
#include "common/base/log.h"
#include "common/base/metrics.h"
#include "common/base/result.h"

namespace forebay {

/// What a program's root gets from its surroundings; outlives it.
struct ProgramServices {
  Metrics& metrics;  ///< Served at /metrics from before Start() on.
  Health& health;    ///< /readyz. RunProgram sets it ready after Start(); the root may change it.
  std::stop_token stopping;            ///< Asked to stop; a long Start() watches it.
  std::function<void()> request_stop;  ///< As SIGTERM does; any thread.
  /// For a root whose event loops change while it runs, in place of Daemon::Loops: from now on
  /// these are watched, and no others. Any thread.
  std::function<void(const std::vector<IoPool*>&)> watch_loops;
  /// During Start(): a sentence to whoever started the program and waits for it, where the log,
  /// which should have it too, goes elsewhere. Any thread.
  std::function<void(const std::string& sentence)> tell_starter = {};
};

/// The composition root of a program: owns its parts and their order. All calls come from the main
/// thread.
class Daemon {
 public:
  Daemon() = default;
  virtual ~Daemon() = default;
  Daemon(const Daemon&) = delete;
  Daemon& operator=(const Daemon&) = delete;

  /// Returns when the program serves. After an error, or when `stopping` is asked for, Stop() is
  /// called all the same and must undo whatever part was done.
  virtual Status Start() = 0;
  /// Stops accepting, drains until `drain`, joins. Called once.
  virtual void Stop(Deadline drain) = 0;
  /// After Stop(): threads of ours are in the kernel, which does not let them go (a disk that
  /// hangs). The program then ends without destructors, which would wait for them.
  virtual bool HangsOn() const { return false; }
  /// SIGHUP, between Start() and Stop(): reload what can be. The log has been reopened.
  virtual void Reload() {}
  /// Between Start() and Stop(): the event loops without which it does not serve. One that no
  /// longer turns fails /livez, and systemd's watchdog when there is one.
  virtual std::vector<IoPool*> Loops() { return {}; }
  /// For the ready line, after Start(): {"listen", "127.0.0.1:7441"}.
  virtual std::vector<std::pair<std::string, std::string>> Addresses() const = 0;
};

/// For a program that serves by other processes and itself only looks after them.
struct Guardianship {
  Log& log;
  const Environment& environment;
  /// When all of it serves, once: prints the ready line or lets the process that was started end,
  /// and tells systemd.
  std::function<Status(const std::string& ready_line)> announce;
  /// When it begins to stop.
  std::function<void()> announce_stop;
};

/// For such a process: what else goes to the terminal, systemd and the signals' sender goes to the
/// one that looks after it. The functions are called on the main thread, but for the second.
struct Ward {
  std::function<void(const std::string& ready_line)> ready;
  std::function<void()> terminated;  ///< SIGTERM came, which does not stop it. Any thread.
};

/// A program. The sections refer to config structs that the caller keeps until RunProgram returns:
///
///     int RunNode(int argc, char** argv) {
///       NodeConfig node;
///       S3Config s3;
///       LogConfig log;
///       AllConfigs all;
///       ProgramSpec spec{.name = "forebay-node", .summary = "…"};
///       spec.own = {NodeSection(node), S3Section(s3), LogSection(log)};
///       spec.others = all.SectionsBeside(spec.own);
///       spec.log = &log;
///       spec.metrics_listen = &node.metrics_listen;
///       spec.make = [&](ProgramServices& services) {
///         return std::make_unique<NodeDaemon>(node, s3, services);
///       };
///       return RunProgram(spec, argc, argv);
///     }
struct ProgramSpec {
  std::string name;
  std::string summary;  ///< A sentence or two for --help.
  std::vector<ConfigSection> own = {};
  std::vector<ConfigSection> others = {};  ///< Of the other programs that share the file.
  const LogOptions* log = nullptr;
  const std::string* metrics_listen = nullptr;  ///< "" = no metrics port.
  const bool* foreground = nullptr;             ///< Null = always in the foreground.
  bool quiet = false;                           ///< No ready line.
  std::function<std::unique_ptr<Daemon>(ProgramServices&)> make = {};
  /// What --check-config says besides: sentences about what does not fit this machine as it is now,
  /// and so may or may not be wrong when the program starts.
  std::function<std::vector<std::string>()> doubts = {};
  /// Instead of `make`: the program's life after its configuration, in one thread. Answers its exit
  /// code.
  std::function<int(const Guardianship&)> guard = {};
  std::optional<Ward> ward = {};
};

/// How long Stop() has to drain (INTERFACE.md: SIGTERM drains within 10 s); a program that has not
/// ended 5 s later is ended.
inline constexpr std::chrono::seconds kDrainTime{10};
inline constexpr std::chrono::seconds kStopGrace{5};

/// What RunProgram reads the configuration from: for a root that reads it again.
ConfigSources SourcesOfProcess(int argc, char** argv);

/// A whole program: configuration, log, /metrics, signals, Start, the ready line on standard
/// output, Stop. SIGTERM and SIGINT stop, a second SIGINT ends at once, SIGHUP reloads. Returns the
/// exit code: 0 done, 1 failed, 2 usage or configuration.
int RunProgram(ProgramSpec& spec, int argc, char** argv);

}  // namespace forebay
