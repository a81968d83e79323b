#include "common/s3/profile_bundles.h"

#include <pthread.h>

#include <algorithm>
#include <boost/asio/this_coro.hpp>
#include <utility>

namespace forebay {

void ProfileBundles::Start() {
  if (!look_) return;
  thread_ = std::thread([this] {
    pthread_setname_np(pthread_self(), "s3-bundles");
    Loop();
  });
}

void ProfileBundles::Stop() {
  {
    std::scoped_lock lock(mutex_);
    stopping_ = true;
  }
  wanted_.notify_all();
  found_.NotifyAll();
  if (thread_.joinable()) thread_.join();
}

void ProfileBundles::Loop() {
  std::unique_lock lock(mutex_);
  const auto is_wanted = [](const auto& item) { return item.second.wanted; };
  for (;;) {
    wanted_.wait(lock, [&] { return stopping_ || std::ranges::any_of(entries_, is_wanted); });
    if (stopping_) return;
    auto& [profile, entry] = *std::ranges::find_if(entries_, is_wanted);  // never removed
    entry.wanted = false;
    lock.unlock();
    std::string bundle = look_(profile);
    lock.lock();
    entry.bundle = std::move(bundle);
    entry.looked_at = Clock::now();
    found_.NotifyAll();
  }
}

std::optional<std::string> ProfileBundles::Recall(const std::string& profile) {
  Entry& entry = entries_[profile];
  if (!entry.bundle || Clock::now() - entry.looked_at >= recheck_every_) {
    entry.wanted = true;
    wanted_.notify_all();
  }
  return entry.bundle;
}

Task<Result<std::string>> ProfileBundles::Of(std::string profile, Deadline deadline) {
  if (!look_ || profile.empty()) co_return std::string();
  const asio::any_io_executor executor = co_await asio::this_coro::executor;
  for (;;) {
    Notifier::Ticket ticket = found_.Enlist(executor);
    {
      std::scoped_lock lock(mutex_);
      std::optional<std::string> known = Recall(profile);
      if (known) co_return *std::move(known);
      if (stopping_) co_return Fail(Code::kUnavailable, "the S3 client is stopping");
    }
    const bool notified = co_await ticket.Wait(deadline);
    if (!notified) co_return Fail(Code::kUnavailable, "the AWS files could not be read in time");
  }
}

void ProfileBundles::Forget(const std::string& profile) {
  std::scoped_lock lock(mutex_);
  const auto entry = entries_.find(profile);
  if (entry != entries_.end()) entry->second.bundle.reset();
}

}  // namespace forebay
