#pragma once

#include <memory>

#include "common/base/asio.h"
#include "common/base/deadline.h"

namespace forebay {

/// One wait of a coroutine for a moment, which can be ended sooner. Whatever waits for time alone
/// waits by this: the simulated cluster (tests/sim) has another one, in which no time passes.
class Alarm {
 public:
  explicit Alarm(asio::any_io_executor executor);
  ~Alarm();
  Alarm(const Alarm&) = delete;
  Alarm& operator=(const Alarm&) = delete;

  const asio::any_io_executor& executor() const;
  /// True: `at` has come. False: Cancel, or the coroutine was cancelled. On the executor; one wait
  /// at a time.
  Task<bool> WaitUntil(TimePoint at);
  /// Ends the wait, if there is one. On the executor.
  void Cancel();

 private:
  class Impl;
  const std::unique_ptr<Impl> impl_;
};

}  // namespace forebay
