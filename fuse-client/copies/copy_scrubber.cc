#include "fuse-client/copies/copy_scrubber.h"

#include <pthread.h>

#include <algorithm>
#include <optional>

namespace forebay {

namespace {

/// While nothing is to be done.
constexpr Duration kLookEvery = std::chrono::seconds(1);

}  // namespace

CopyScrubber::CopyScrubber(CopyStore& store, Options options)
    : store_(store), options_(options), thread_([this](const std::stop_token& stop) {
        ::pthread_setname_np(::pthread_self(), "copy-scrub");
        Run(stop);
      }) {}

/// False when it was stopped.
bool CopyScrubber::Pause(std::size_t bytes, const std::stop_token& stop) {
  if (options_.bytes_per_second == 0) return !stop.stop_requested();
  const std::chrono::duration<double> rest(static_cast<double>(bytes) /
                                           static_cast<double>(options_.bytes_per_second));
  std::unique_lock lock(mutex_);
  const TimePoint until = Clock::now() + std::chrono::duration_cast<Duration>(rest);
  pause_.wait_until(lock, stop, until, [] { return false; });
  return !stop.stop_requested();
}

void CopyScrubber::Run(const std::stop_token& stop) {
  TimePoint next_round = Clock::now() + options_.round_every;
  while (!stop.stop_requested()) {
    const bool round = options_.bytes_per_second != 0 && Clock::now() >= next_round;
    const std::optional<CopyStore::ToVerify> next =
        store_.NextToVerify(round, std::max(next_round, Clock::now() + kLookEvery), stop);
    if (!next) {
      if (round) next_round = Clock::now() + options_.round_every;
      continue;
    }
    // The store counts what is wrong and says so.
    (void)store_.Verify(next->name, [&](std::size_t bytes) {
      if (next->wanted) return !stop.stop_requested();
      return Pause(bytes, stop) && !store_.SomebodyWaits();
    });
  }
}

}  // namespace forebay
