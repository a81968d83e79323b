#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <utility>

#include "common/base/asio.h"
#include "common/base/deadline.h"
#include "common/base/executors.h"
#include "common/base/result.h"
#include "common/model/limits.h"

namespace forebay {

/// How a listing waits for an S3 that does not answer.
struct S3Wait {
  Duration patience = kS3Patience;  ///< For one answer; kForever = as long as it takes.
  /// When nothing came for so long, `say` hears why, and S3 is asked anew.
  Duration say_after = std::chrono::seconds(15);
  /// Why it waits; null when an answer has come after all. Any thread; must not block.
  std::function<void(const Error* why)> say = [](const Error*) {};
};

/// What a later question may not meet: S3 is away or overloaded.
inline bool IsS3Away(const Error& error) {
  return error.code == Code::kUnavailable || error.code == Code::kOverloaded;
}

/// The answer of `ask`, which is asked again while S3 is away, until `wait.patience` is over,
/// `ended` becomes true or the caller is cancelled. `ended` outlives the task.
template <typename T>
Task<Result<T>> AskS3(S3Wait wait, const std::atomic<bool>& ended,
                      std::function<Task<Result<T>>(Deadline)> ask) {
  // Between questions that fail at once.
  constexpr std::chrono::milliseconds kPause{200};
  const TimePoint begun = Clock::now();
  bool said = false;
  for (;;) {
    const Duration left = wait.patience - (Clock::now() - begun);
    Task<Result<T>> asked = ask(Deadline::After(std::min(left, wait.say_after)));
    Result<T> answer = co_await std::move(asked);
    const bool again = !answer && IsS3Away(answer.error()) && !ended &&
                       Clock::now() - begun + 2 * kPause < wait.patience;
    bool goes_on = false;
    if (again) {
      said = true;
      wait.say(&answer.error());
      goes_on = co_await SleepFor(kPause);
    }
    if (goes_on && !ended) continue;
    if (said) wait.say(nullptr);
    co_return answer;
  }
}

}  // namespace forebay
