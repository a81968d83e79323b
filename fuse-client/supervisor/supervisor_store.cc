// How a Supervisor leaves its mount to the next one.
#include <spdlog/spdlog.h>

#include <chrono>

#include "fuse-client/supervisor/supervisor.h"

namespace forebay {

namespace {

/// Between two looks for somebody who keeps the mount.
constexpr Duration kLookEvery = std::chrono::seconds(1);

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
    spdlog::warn(
        "SIGUSR2 leaves a mount to the next start, and neither $FDSTORE nor --held-by says that "
        "somebody keeps it meanwhile; {} goes on",
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
        "the holder of {} has gone: the mount goes on, and ends with this process unless "
        "there is another holder by then",
        options_.mountpoint);
    store_again_at_ = now;
  }
  if (now < *store_again_at_) return;
  const Status kept = options_.stored->KeepAgain(*slots_, kept_);
  store_again_at_ = Clock::now() + kLookEvery;
  if (!kept) {
    if (kept.error().code == Code::kDenied && kept.error().message != store_refusal_) {
      store_refusal_ = kept.error().message;
      spdlog::warn("{}", store_refusal_);
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
  spdlog::warn("the holder of {} has gone; it is unmounted", options_.mountpoint);
  options_.detach();
}

}  // namespace forebay
