#pragma once

#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include "common/base/asio.h"
#include "common/base/deadline.h"
#include "common/base/result.h"

namespace forebay {

/// Threads and a queue for the blocking work of one disk, so that a disk that is slow or hangs
/// holds up nobody else's. A call that takes too long is given up: its caller goes on, and the
/// thread stays where it is until the kernel lets it go. Hence work must own all that it touches,
/// but for what outlives the lane. Thread-safe.
class DiskLane {
 public:
  /// `name` (at most 15 bytes) is shown by `top -H`.
  DiskLane(std::string name, std::size_t threads, std::size_t queue_limit);
  /// Calls Stop().
  ~DiskLane();
  DiskLane(const DiskLane&) = delete;
  DiskLane& operator=(const DiskLane&) = delete;

  /// Calls `work()`, which must return a Result or Status, on one of the threads; resumes on the
  /// caller's executor. kOverloaded: the queue is full; kTimeout: given up, or the lane hangs (the
  /// work has not begun, or will end unnoticed).
  template <typename Work>
  Task<std::invoke_result_t<Work>> Run(Work work);

  /// Calls `work()` when a thread is free; not on a lane that hangs or is full.
  void Post(std::function<void()> work);

  struct Looked {
    std::size_t given_up = 0;  ///< By this look.
    /// None of its work has ended for `patience`, and some of it was given up.
    bool hangs = false;
  };
  /// Gives up what has run, or waited for a thread, for longer than `patience`. Of a lane that
  /// works `only_if_it_hangs` spares what is merely slow. Does not block.
  Looked Look(TimePoint now, Duration patience, bool only_if_it_hangs);
  /// Some thread is still in work that was given up.
  bool Hangs() const;

  /// Takes no more work, finishes what has been queued and joins the threads: of a lane that hangs
  /// it does not come back before they do. Idempotent, not thread-safe.
  void Stop();

 private:
  /// A coroutine that waits; its timer is touched on its own executor only.
  struct Waiter {
    explicit Waiter(const asio::any_io_executor& executor) : timer(executor) {}
    asio::steady_timer timer;
    bool given_up = false;
  };
  /// `since` and `waiter` are guarded by the mutex.
  struct Call {
    virtual ~Call() = default;
    virtual void Do() = 0;
    TimePoint since;  ///< When it was queued; once it runs, when it began.
    bool given_up = false;
    std::shared_ptr<Waiter> waiter;
  };
  template <typename Work>
  struct CallOf final : Call {
    explicit CallOf(Work w) : work(std::move(w)) {}
    void Do() override {
      answer.emplace((*work)());
      work.reset();  // what it holds is let go before its caller goes on
    }
    std::optional<Work> work;
    std::optional<std::invoke_result_t<Work>> answer;
  };

  Status Enqueue(std::shared_ptr<Call> call);
  static Task<bool> Landed(std::shared_ptr<Waiter> waiter);
  static void Wake(std::shared_ptr<Waiter> waiter);
  void GiveUp(Call& call);
  void Serve();

  const std::string name_;
  const std::size_t queue_limit_;
  mutable std::mutex mutex_;
  std::condition_variable work_;
  std::deque<std::shared_ptr<Call>> queue_;
  std::vector<std::shared_ptr<Call>> running_;
  TimePoint last_end_;     ///< Of any work.
  std::size_t stuck_ = 0;  ///< Threads in work that was given up.
  bool hangs_ = false;     ///< From a look that said so until no thread is stuck.
  bool stopping_ = false;
  std::vector<std::thread> threads_;
};

template <typename Work>
Task<std::invoke_result_t<Work>> DiskLane::Run(Work work) {
  const asio::any_io_executor executor = co_await asio::this_coro::executor;
  const auto call = std::make_shared<CallOf<Work>>(std::move(work));
  const auto waiter = std::make_shared<Waiter>(executor);
  call->waiter = waiter;
  Status queued = Enqueue(call);
  if (!queued) co_return Fail(std::move(queued.error()));
  const bool landed = co_await Landed(waiter);
  if (!landed) co_return Fail(Code::kTimeout, "the disk does not answer");
  co_return std::move(*call->answer);
}

}  // namespace forebay
