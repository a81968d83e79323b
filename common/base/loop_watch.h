#pragma once

#include <chrono>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "common/base/executors.h"

namespace forebay {

/// Whether the event loops of a program still turn: each is asked to run an empty handler, and one
/// that has not done so for a while is stuck in a bug, in a lock, or in a system call that never
/// ends. For /livez and systemd's watchdog. Thread-safe.
class LoopWatch {
 public:
  explicit LoopWatch(std::chrono::steady_clock::duration patience) : patience_(patience) {}

  /// From now on these are asked; they live until Forget.
  void Watch(const std::vector<IoPool*>& pools);
  /// No pool is touched any more.
  void Forget();

  /// Asks every loop that owes no answer. Call it a few times within the patience.
  void Ask();
  /// The thread of a loop that has owed its answer for longer than the patience, as `top -H` shows
  /// it; "" when there is none.
  std::string Stuck() const;

 private:
  struct Question;
  struct Loop {
    std::string thread;
    boost::asio::io_context* context;
    std::shared_ptr<Question> question;  ///< The handler's too, which may outlive this object.
  };

  const std::chrono::steady_clock::duration patience_;
  mutable std::mutex mutex_;
  std::vector<Loop> loops_;
};

}  // namespace forebay
