#include "cachenode/store/arrivals.h"

#include <algorithm>
#include <utility>

namespace forebay {

void Arrivals::Enter(std::shared_ptr<Arrival> arrival) {
  const std::scoped_lock lock(mutex_);
  waiting_.push_back(std::move(arrival));
}

void Arrivals::GiveUp(Arrival& arrival) {
  arrival.given_up.store(true, std::memory_order_relaxed);
  std::shared_ptr<Arrival> left;  // ended outside of the lock
  const std::scoped_lock lock(mutex_);
  const auto is_it = [&arrival](const auto& waits) { return waits.get() == &arrival; };
  const auto found = std::ranges::find_if(waiting_, is_it);
  if (found == waiting_.end()) return;
  left = std::move(*found);
  waiting_.erase(found);
}

Arrivals::Batch Arrivals::Take(const Arrival& own) {
  Batch batch;
  std::unique_lock lock(mutex_);
  landed_.wait(lock, [&own] { return !own.taken_ || own.landed_; });
  if (own.landed_ || own.given_up.load(std::memory_order_relaxed)) return batch;
  std::uint64_t bytes = 0;
  while (!waiting_.empty() && batch.size() < kAtOnce) {
    bytes += waiting_.front()->block->block.length;
    if (!batch.empty() && bytes > kBytesAtOnce) break;
    waiting_.front()->taken_ = true;
    batch.push_back(std::move(waiting_.front()));
    waiting_.pop_front();
  }
  return batch;
}

void Arrivals::Land(const Batch& batch, std::vector<Status> answers) {
  {
    const std::scoped_lock lock(mutex_);
    for (std::size_t i = 0; i < batch.size(); ++i) batch[i]->landed_ = std::move(answers[i]);
  }
  landed_.notify_all();
}

Status Arrivals::AnswerOf(Arrival& own) {
  const std::scoped_lock lock(mutex_);
  if (!own.landed_) return Fail(Code::kTimeout, "the disk does not answer");
  return std::move(*own.landed_);
}

}  // namespace forebay
