#pragma once

#include <atomic>
#include <boost/asio/io_context.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "common/base/config_option.h"
#include "common/base/health.h"
#include "common/base/http_server.h"
#include "common/base/loop_watch.h"
#include "common/base/metrics.h"
#include "common/base/result.h"

namespace forebay {

/// A program's own thread for signals, /metrics and health, which answers while the main thread
/// starts or stops the rest. For RunProgram.
class Control {
 public:
  enum class Event : std::uint8_t { kStop, kReload };

  /// Catches the signals from here on. `on_terminate`, when there is one, is called for SIGTERM
  /// instead of a stop, on the control thread.
  /// In the environment: whether systemd's watchdog waits for this process
  /// (sd_watchdog_enabled(3)).
  Control(Metrics& metrics, Health& health, std::function<void()> on_terminate = {},
          Environment environment = {});
  ~Control();  ///< Stops its thread.
  Control(const Control&) = delete;
  Control& operator=(const Control&) = delete;

  /// Listens at `metrics_listen` unless that is "", and starts the thread.
  Status Start(const std::string& metrics_listen);
  /// The address of /metrics with its real port, or "".
  const std::string& metrics_address() const { return http_.address(); }

  /// From now on /livez fails while one of these loops is stuck, and systemd's watchdog hears of
  /// the process only while none is.
  void Watch(const std::vector<IoPool*>& loops);
  /// These in place of those before. Any thread.
  void WatchOnly(const std::vector<IoPool*>& loops);
  /// The loops are not touched any more.
  void EndWatch();

  /// Waits for the next event; kStop from when a stop was requested on. Main thread.
  Event Wait();
  /// Any thread. From now on the process has kDrainTime + kStopGrace to end.
  void RequestStop();
  std::stop_token stopping() const { return stop_.get_token(); }

 private:
  void WaitForSignal();
  void OnSignal(int number);
  void LookAtLoops();

  boost::asio::io_context context_{1};
  boost::asio::signal_set signals_;
  boost::asio::steady_timer end_timer_;
  boost::asio::steady_timer look_timer_;
  const Environment environment_;
  /// Half of it without a sign of life is a warning in the log; all of it, and systemd restarts us.
  const std::optional<std::chrono::microseconds> watchdog_;
  LoopWatch loops_;
  bool is_stuck_ = false;  // control thread
  HttpServer http_;
  const std::function<void()> on_terminate_;
  std::stop_source stop_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool reload_ = false;
  std::thread thread_;
};

}  // namespace forebay
