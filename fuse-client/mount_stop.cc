// How a mount ends, or is left to the process that goes on with it.
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <boost/asio/post.hpp>
#include <chrono>
#include <future>
#include <memory>
#include <thread>

#include "fuse-client/job_text.h"
#include "fuse-client/mount.h"
#include "fuse-client/mountpoint.h"

namespace forebay {

namespace {

/// Between two looks at something that has no event to wait for.
constexpr Duration kPollEvery = std::chrono::milliseconds(20);

/// Between two tries to unmount while somebody is using the mount.
constexpr Duration kUnmountEvery = std::chrono::milliseconds(200);

/// How long the unmount waits for a coordinator to take the last report of jobs.
constexpr Duration kLastReport = std::chrono::seconds(1);

/// What Stop keeps of its time for ending the workers.
constexpr Duration kEndingTime = std::chrono::milliseconds(1500);

/// For what is under way when a successor takes over.
constexpr Duration kLeavingTime = std::chrono::seconds(1);

}  // namespace

void MountDaemon::LeaveMountpoint(Deadline last_try) {
  bool said_so = false;
  for (;;) {
    const Unmounted result = one_->TryLeave();
    if (result == Unmounted::kDone) return;
    if (result == Unmounted::kFailed || last_try.Expired()) {
      spdlog::warn(
          "{} is still in use: it is taken out of the tree, and what programs have open "
          "there fails from now on",
          mountpoint_);
      one_->Detach();
      return;
    }
    if (!said_so) spdlog::info("{} is in use; waiting until it can be unmounted", mountpoint_);
    said_so = true;
    std::this_thread::sleep_for(kUnmountEvery);
  }
}

// Closing the connections ends the calls that are under way.
void MountDaemon::ClosePools() {
  for (std::size_t i = 0; i < pools_.size(); ++i) {
    std::promise<void> closed;
    asio::post(threads_.At(i), [&] {
      pools_[i]->Close();
      closed.set_value();
    });
    closed.get_future().get();
  }
}

void MountDaemon::EndWorkers(Deadline drain) {
  const auto idle = [this] { return (!one_ || one_->Idle()) && (!all_ || all_->Idle()); };
  if (one_) one_->BeginStop();
  if (all_) all_->BeginStop();
  ClosePools();
  if (copies_) copies_->CloseConnections();
  while (!idle() && !drain.Expired()) std::this_thread::sleep_for(kPollEvery);
  threads_.Stop();
  if (copies_) copies_->EndCopying();
  offload_.Stop();
}

void MountDaemon::LeaveToSuccessor() {
  leaving_ = true;
  services_.request_stop();
}

void MountDaemon::SaveJobs(Deadline deadline) {
  if (!serving_) return;
  const auto saved = std::make_shared<std::promise<void>>();
  std::future<void> done = saved->get_future();
  asio::post(control_.At(0), [this, saved] {
    job_keeper_->Save(job_reporter_->incarnation());
    saved->set_value();
  });
  (void)done.wait_until(deadline.at());
}

/// What is under way is answered, if that takes no longer than a successor should wait; it has the
/// rest. Nothing is taken down: an end of the connections would be an error to readers.
void MountDaemon::Leave() {
  follower_.reset();
  if (one_) one_->StopTaking();
  if (all_) all_->StopTaking();
  const Deadline drain = Deadline::After(kLeavingTime);
  const auto idle = [this] { return (!one_ || one_->Idle()) && (!all_ || all_->Idle()); };
  while (serving_ && !idle() && !drain.Expired()) std::this_thread::sleep_for(kPollEvery);
  if (one_) one_->SaveStats();
  if (all_) all_->SaveStats();
  SaveJobs(Deadline::After(kLeavingTime));
  if (one_) one_->LogTotals();
  if (all_) all_->LogTotals();
  spdlog::info("{} is left to the next process", mountpoint_);
  spdlog::default_logger()->flush();
  ::_exit(0);
}

void MountDaemon::Stop(Deadline drain) {
  if (leaving_) Leave();
  const Deadline last_try(drain.at() - kEndingTime);
  follower_.reset();
  if (one_) LeaveMountpoint(last_try);
  if (all_) all_->Leave(last_try);
  // Without the workers' threads nothing was ever under way.
  if (serving_) EndWorkers(drain);
  if (serving_) {
    LogJobs(*jobs_);
    job_reporter_->FinishFrom(Deadline::After(kLastReport));
  }
  if (control_pool_) {
    std::promise<void> closed;
    asio::post(control_.At(0), [&] {
      if (listing_blocks_) listing_blocks_->Stop();
      control_pool_->Close();
      closed.set_value();
    });
    closed.get_future().get();
  }
  control_.Stop();
  trust_metrics_ = {};
  listing_metrics_ = {};
  if (one_) one_->LogTotals();
  if (all_) all_->LogTotals();
  one_.reset();
  all_.reset();
  pools_.clear();
}

}  // namespace forebay
