#include "cachenode/store/disk_lane.h"

#include <pthread.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>

namespace forebay {

DiskLane::DiskLane(std::string name, std::size_t threads, std::size_t queue_limit)
    : name_(std::move(name)), queue_limit_(queue_limit), last_end_(Clock::now()) {
  threads_.reserve(threads);
  for (std::size_t i = 0; i < threads; ++i) threads_.emplace_back([this] { Serve(); });
}

DiskLane::~DiskLane() { Stop(); }

Status DiskLane::Enqueue(std::shared_ptr<Call> call) {
  {
    const std::scoped_lock lock(mutex_);
    if (stopping_ || hangs_) return Fail(Code::kTimeout, "the disk does not answer");
    if (queue_.size() >= queue_limit_)
      return Fail(Code::kOverloaded, "too much work is waiting for the disk");
    call->since = Clock::now();
    queue_.push_back(std::move(call));
  }
  work_.notify_one();
  return {};
}

/// Work that has begun is finished or given up, never cancelled: a cancellation of the caller is
/// seen after this.
Task<bool> DiskLane::Landed(std::shared_ptr<Waiter> waiter) {
  boost::system::error_code ignored;
  auto token = asio::bind_cancellation_slot(asio::cancellation_slot(),
                                            asio::redirect_error(asio::use_awaitable, ignored));
  waiter->timer.expires_at(TimePoint::max());
  co_await waiter->timer.async_wait(token);
  co_return !waiter->given_up;
}

/// The post runs on the waiter's own executor, which began to wait in the turn that queued the
/// call.
void DiskLane::Wake(std::shared_ptr<Waiter> waiter) {
  const asio::any_io_executor executor = waiter->timer.get_executor();
  asio::post(executor, [waiter = std::move(waiter)] { waiter->timer.cancel(); });
}

void DiskLane::Post(std::function<void()> work) {
  auto task = [work = std::move(work)]() -> Status {
    work();
    return {};
  };
  // Refused: whoever posts work comes back for what it leaves undone.
  const Status queued = Enqueue(std::make_shared<CallOf<decltype(task)>>(std::move(task)));
  if (!queued) spdlog::debug("{}: {}", name_, queued.error().message);
}

void DiskLane::Serve() {
  ::pthread_setname_np(::pthread_self(), name_.c_str());
  std::unique_lock lock(mutex_);
  for (;;) {
    work_.wait(lock, [this] { return stopping_ || !queue_.empty(); });
    if (queue_.empty()) break;
    std::shared_ptr<Call> call = std::move(queue_.front());
    queue_.pop_front();
    call->since = Clock::now();
    running_.push_back(call);
    lock.unlock();
    call->Do();
    lock.lock();
    std::erase(running_, call);
    last_end_ = Clock::now();
    if (call->given_up && --stuck_ == 0) hangs_ = false;
    std::shared_ptr<Waiter> waiter = std::move(call->waiter);
    lock.unlock();
    if (waiter) Wake(std::move(waiter));
    call.reset();
    lock.lock();
  }
}

/// Under the mutex.
void DiskLane::GiveUp(Call& call) {
  call.given_up = true;
  if (!call.waiter) return;
  call.waiter->given_up = true;
  Wake(std::move(call.waiter));
}

DiskLane::Looked DiskLane::Look(TimePoint now, Duration patience, bool only_if_it_hangs) {
  std::vector<std::shared_ptr<Call>> dropped;  // ended outside of the lock
  const std::scoped_lock lock(mutex_);
  Looked looked;
  const auto late = [&](const std::shared_ptr<Call>& call) { return now - call->since > patience; };
  const bool progress = now - last_end_ <= patience;
  if (only_if_it_hangs && progress) return looked;
  for (const std::shared_ptr<Call>& call : running_) {
    if (call->given_up || !late(call)) continue;
    GiveUp(*call);
    ++stuck_;
    ++looked.given_up;
  }
  looked.hangs = stuck_ > 0 && !progress;
  hangs_ = hangs_ || looked.hangs;
  const auto leaves = [&](const std::shared_ptr<Call>& call) { return hangs_ || late(call); };
  for (const std::shared_ptr<Call>& call : queue_) {
    if (!leaves(call)) continue;
    GiveUp(*call);
    dropped.push_back(call);
  }
  std::erase_if(queue_, [](const std::shared_ptr<Call>& call) { return call->given_up; });
  return looked;
}

bool DiskLane::Hangs() const {
  const std::scoped_lock lock(mutex_);
  return stuck_ > 0;
}

void DiskLane::Stop() {
  {
    const std::scoped_lock lock(mutex_);
    stopping_ = true;
  }
  work_.notify_all();
  for (std::thread& thread : threads_) {
    if (thread.joinable()) thread.join();
  }
}

}  // namespace forebay
