#include "common/base/network_pace.h"

#include <utility>

#include "common/base/executors.h"

namespace forebay {

/// Bytes that are paid for and have not gone yet.
class NetworkPace::Turn {
 public:
  Turn(NetworkPace& pace, std::uint64_t bytes) : pace_(&pace), bytes_(bytes) {}
  ~Turn() {
    if (pace_ != nullptr) pace_->Add(-static_cast<double>(bytes_));
  }
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;
  void Use() { pace_ = nullptr; }

 private:
  NetworkPace* pace_;
  const std::uint64_t bytes_;
};

NetworkPace::NetworkPace(std::uint64_t bytes_per_s, std::string what)
    : bytes_per_s_(bytes_per_s), what_(std::move(what)) {
  bucket_.SetRate(static_cast<double>(bytes_per_s), Clock::now());
}

// What is owed is the turn of those who came before.
Result<Duration> NetworkPace::Book(std::uint64_t bytes, TimePoint now, Deadline deadline) {
  const std::scoped_lock lock(mutex_);
  const Duration wait = bucket_.Wait(now);
  if (wait > deadline.Remaining(now)) {
    return Fail(Code::kOverloaded, what_ + ", " + std::to_string(bytes_per_s_) +
                                       " bytes a second, leaves no room for this read");
  }
  bucket_.Take(static_cast<double>(bytes), now);
  return wait;
}

void NetworkPace::Add(double bytes) {
  const std::scoped_lock lock(mutex_);
  bucket_.Take(bytes, Clock::now());
}

void NetworkPace::Charge(std::uint64_t bytes) { Add(static_cast<double>(bytes)); }

void NetworkPace::GiveBack(std::uint64_t bytes) { Add(-static_cast<double>(bytes)); }

Duration NetworkPace::Owed(TimePoint now) {
  const std::scoped_lock lock(mutex_);
  return bucket_.Wait(now);
}

Task<Status> NetworkPace::Settle(Duration most) {
  const Duration wait = Owed(Clock::now()) - most;
  if (wait > Duration::zero() && !co_await SleepFor(wait)) {
    co_return Fail(Code::kUnavailable, "the call was cancelled");
  }
  co_return Status();
}

double NetworkPace::waited_seconds() const {
  return static_cast<double>(waited_nanoseconds_.load(std::memory_order_relaxed)) / 1e9;
}

Task<Status> NetworkPace::Pass(std::uint64_t bytes, Deadline deadline) {
  const Result<Duration> wait = Book(bytes, Clock::now(), deadline);
  if (!wait) co_return Fail(wait.error());
  if (*wait > Duration::zero()) {
    Turn turn(*this, bytes);
    const bool slept = co_await SleepFor(*wait);
    if (!slept) co_return Fail(Code::kUnavailable, "the call was cancelled");
    turn.Use();
    const auto waited = std::chrono::duration_cast<std::chrono::nanoseconds>(*wait);
    waited_nanoseconds_.fetch_add(static_cast<std::uint64_t>(waited.count()),
                                  std::memory_order_relaxed);
  }
  co_return Status();
}

}  // namespace forebay
