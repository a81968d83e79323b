// How a Supervisor leaves its mount to the next one.
#include <spdlog/spdlog.h>

#include <algorithm>
#include <chrono>

#include "fuse-client/supervisor/supervisor.h"

namespace forebay {

namespace {

/// Between two looks for somebody who keeps the mount. One who refuses it has others to hear, and
/// is asked more and more rarely.
constexpr Duration kLookEvery = std::chrono::seconds(1);
constexpr Duration kLookEveryMost = std::chrono::seconds(30);

}  // namespace

void Supervisor::Terminate() {
  const bool leaves = options_.term_leaves && options_.stored->IsKept();
  if (leaves && !stopping_) return Rest();
  Stop();
}

// What nobody has mounted yet is not left to anybody, and without a store there is nobody to leave
// it to.
void Supervisor::Rest() {
  if (options_.stored == nullptr || !options_.stored->IsKept()) {
    const char* why = options_.stored == nullptr
                          ? "neither $FDSTORE nor --held-by says that somebody keeps it meanwhile"
                          : "the holder that --held-by names has gone or does not answer";
    spdlog::warn("SIGUSR2 leaves a mount to the next start, and {}; {} goes on", why,
                 options_.mountpoint);
    return;
  }
  if (!ever_ready_) return Stop();
  if (stopping_ || resting_) return;
  resting_ = true;
  options_.on_stopping();
  restart_at_.reset();
  BreakOffUpgrade();
  spdlog::info("{} is left to the next start", options_.mountpoint);
  if (worker_) return AskToLeave();
  exit_code_ = 0;
}

// A holder may die, and be started again, while the mount goes on.
void Supervisor::KeepStored() {
  if (options_.stored == nullptr || options_.stored->IsKept()) return;
  if (stopping_ || resting_) return store_again_at_.reset();
  const TimePoint now = Clock::now();
  if (!store_again_at_) {
    spdlog::warn(
        "the holder of {} has gone or does not answer: the mount goes on, and ends with this "
        "process unless there is one again by then",
        options_.mountpoint);
    store_again_at_ = now;
    store_pause_ = kLookEvery;
  }
  if (now < *store_again_at_) return;
  const Status kept = options_.stored->KeepAgain(*slots_, kept_);
  store_again_at_ = Clock::now() + store_pause_;
  if (!kept) {
    const bool refused = kept.error().code == Code::kDenied;
    store_pause_ = refused ? std::min(2 * store_pause_, kLookEveryMost) : kLookEvery;
    if (refused && kept.error().message != store_refusal_) {
      store_refusal_ = kept.error().message;
      spdlog::warn("{}; {} is not held", store_refusal_, options_.mountpoint);
    }
    return;
  }
  store_again_at_.reset();
  store_refusal_.clear();
  spdlog::info("{} is held again", options_.mountpoint);
}

void Supervisor::EndStored() {
  if (options_.stored == nullptr) return;
  if (!resting_) return options_.stored->Forget();
  if (options_.stored->IsKept()) return;
  spdlog::warn("the holder of {} has gone or does not answer; it is unmounted",
               options_.mountpoint);
  options_.detach();
  options_.stored->Forget();
}

}  // namespace forebay
