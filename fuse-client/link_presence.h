#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <utility>

#include "common/base/result.h"

namespace forebay {

/// Whether the link of a mount is there still, as a coordinator says that would know it
/// (TellsWhatHasGone): never by the word of a node, which may be late, and not because nobody
/// answers. Thread-safe; one thread sets it.
class LinkPresence {
 public:
  enum class State : std::uint8_t {
    kThere,
    kRemoved,
    kMadeAnew,  ///< Another link has its name, which the mount does not show.
  };

  explicit LinkPresence(std::string name) : name_(std::move(name)) {}

  State state() const { return state_.load(std::memory_order_relaxed); }
  /// True: it was another one before.
  bool Set(State state) { return state_.exchange(state, std::memory_order_relaxed) != state; }
  /// kStale, with what is to be done: reads of what the mount does not have end so.
  Status Check() const {
    const State now = state();
    if (now == State::kThere) [[likely]]
      return {};
    return Fail(Code::kStale, Sentence(now));
  }

 private:
  std::string Sentence(State state) const;

  const std::string name_;
  std::atomic<State> state_{State::kThere};
};

}  // namespace forebay
