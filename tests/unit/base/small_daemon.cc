// A program with the life of a daemon and no work, for program_test: it is RunProgram with real
// signals, files and sockets.
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <mutex>
#include <stop_token>
#include <string>

#include "common/base/config_values.h"
#include "common/base/program.h"
#include "common/config/log_config.h"
#include "common/config/sections.h"

namespace forebay {
namespace {

struct SmallConfig {
  std::string metrics_listen = "127.0.0.1:0";
  std::string fail;  // why Start() fails; "" = it does not
  std::string wait;  // not "": Start() waits until it is asked to stop
  bool hang = false;
  bool foreground = true;
};

ConfigSection SmallSection(SmallConfig& config) {
  ConfigSection section("small", "Options of a daemon without work.");
  section.Add("metrics_listen", OwnAddress(config.metrics_listen), "Where /metrics is.");
  section.Add("fail", Text(config.fail, "WHY"), "Fail to start.");
  section.Add("wait", Text(config.wait, "WHY"), "Do not become ready.");
  section.Add("hang", Switch(config.hang), "Take long to stop.");
  section.Add("foreground", Switch(config.foreground), "Stay.").Short("-f");
  return section;
}

class SmallDaemon : public Daemon {
 public:
  SmallDaemon(const SmallConfig& config, ProgramServices& services)
      : config_(config), services_(services) {}

  Status Start() override {
    if (!config_.fail.empty()) return Fail(Code::kInternal, config_.fail);
    if (config_.wait.empty()) return {};
    services_.health.SetNotReady(config_.wait);
    // The test reads the metrics port here, because there is no ready line.
    std::puts("waiting");
    std::fflush(stdout);
    Sleep(services_.stopping);
    return Fail(Code::kTimeout, "broken off");
  }

  void Stop(Deadline) override {
    if (config_.hang) Sleep(std::stop_token());
    std::puts("stopped");
    std::fflush(stdout);
  }

  void Reload() override {
    std::puts("reloaded");
    std::fflush(stdout);
  }

  std::vector<std::pair<std::string, std::string>> Addresses() const override {
    return {{"listen", "nowhere:1"}};
  }

 private:
  static void Sleep(std::stop_token token) {
    std::mutex mutex;
    std::condition_variable_any changed;
    std::unique_lock lock(mutex);
    changed.wait_for(lock, token, std::chrono::seconds(60), [] { return false; });
  }

  const SmallConfig& config_;
  ProgramServices& services_;
};

int RunSmall(int argc, char** argv) {
  SmallConfig small;
  LogConfig log;
  AllConfigs all;
  ProgramSpec spec{.name = "small-daemon",
                   .summary = "Does nothing, and stops when it is told to."};
  spec.own = {SmallSection(small), LogSection(log)};
  spec.others = all.SectionsBeside(spec.own);
  spec.log = &log;
  spec.metrics_listen = &small.metrics_listen;
  spec.foreground = &small.foreground;
  spec.make = [&small](ProgramServices& services) {
    return std::make_unique<SmallDaemon>(small, services);
  };
  return RunProgram(spec, argc, argv);
}

}  // namespace
}  // namespace forebay

int main(int argc, char** argv) { return forebay::RunSmall(argc, argv); }
