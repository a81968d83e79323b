#pragma once

#include <mutex>
#include <string>
#include <string_view>
#include <utility>

namespace forebay {

/// Whether a program may be sent work, for /readyz. Thread-safe.
class Health {
 public:
  void SetReady() { SetNotReady(""); }
  /// Ready, unless the program has said otherwise since it began.
  void SetStarted() {
    const std::scoped_lock lock(mutex_);
    if (reason_ == kStarting) reason_.clear();
  }
  /// `reason` is one clause: "recovering 12 of 40 segments".
  void SetNotReady(std::string_view reason) {
    const std::scoped_lock lock(mutex_);
    reason_ = reason;
  }
  /// "" when it is ready.
  std::string WhyNotReady() const {
    const std::scoped_lock lock(mutex_);
    return reason_;
  }

 private:
  static constexpr std::string_view kStarting = "starting";

  mutable std::mutex mutex_;
  std::string reason_{kStarting};
};

}  // namespace forebay
