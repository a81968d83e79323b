#include "common/base/loop_watch.h"

#include <atomic>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>

namespace forebay {

struct LoopWatch::Question {
  std::chrono::steady_clock::time_point asked;  // under the mutex
  std::atomic<bool> open{false};
};

void LoopWatch::Watch(const std::vector<IoPool*>& pools) {
  const std::scoped_lock lock(mutex_);
  for (IoPool* pool : pools) {
    for (std::size_t i = 0; i < pool->size(); ++i)
      loops_.push_back(Loop{pool->ThreadName(i), &pool->At(i), std::make_shared<Question>()});
  }
}

void LoopWatch::Forget() {
  const std::scoped_lock lock(mutex_);
  loops_.clear();
}

void LoopWatch::Ask() {
  const std::scoped_lock lock(mutex_);
  for (const Loop& loop : loops_) {
    if (loop.question->open.exchange(true, std::memory_order_acq_rel)) continue;
    loop.question->asked = std::chrono::steady_clock::now();
    asio::post(*loop.context, [question = loop.question] {
      question->open.store(false, std::memory_order_release);
    });
  }
}

std::string LoopWatch::Stuck() const {
  const std::scoped_lock lock(mutex_);
  const auto now = std::chrono::steady_clock::now();
  for (const Loop& loop : loops_) {
    const bool open = loop.question->open.load(std::memory_order_acquire);
    if (open && now - loop.question->asked > patience_) return loop.thread;
  }
  return "";
}

}  // namespace forebay
