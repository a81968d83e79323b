#pragma once

#include <atomic>
#include <memory>
#include <utility>

#include "common/base/readers_gate.h"

namespace forebay {

/// A value that many threads look at and that is replaced now and then. A look takes no lock and
/// waits for nobody; Publish waits until nobody looks at the value before. Thread-safe, but for
/// Publish: one call at a time.
template <typename T>
class Published {
 public:
  Published() : Published(T()) {}
  explicit Published(T first)
      : owned_(std::make_unique<const T>(std::move(first))), current_(owned_.get()) {}
  Published(const Published&) = delete;
  Published& operator=(const Published&) = delete;

  /// Calls `look(value)` and answers what it answers. The value stays until then; `look` is short
  /// and does not block.
  template <typename Look>
  auto Read(Look look) const {
    const ReadersGate::Pass pass(gate_);
    return look(*current_.load(std::memory_order_acquire));
  }
  T Copy() const {
    return Read([](const T& value) { return value; });
  }

  void Publish(T next) {
    auto fresh = std::make_unique<const T>(std::move(next));
    current_.store(fresh.get(), std::memory_order_release);
    gate_.WaitForReaders();
    owned_ = std::move(fresh);
  }

 private:
  ReadersGate gate_;
  std::unique_ptr<const T> owned_;
  std::atomic<const T*> current_;
};

}  // namespace forebay
