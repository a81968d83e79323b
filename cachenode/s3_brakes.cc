#include "cachenode/s3_brakes.h"

#include <algorithm>
#include <optional>
#include <utility>

namespace forebay {
namespace {

/// Counts a coroutine in and out, also when it is dropped at its wait.
class Waits {
 public:
  explicit Waits(std::atomic<std::uint64_t>& count) : count_(count) { ++count_; }
  ~Waits() { --count_; }
  Waits(const Waits&) = delete;
  Waits& operator=(const Waits&) = delete;

 private:
  std::atomic<std::uint64_t>& count_;
};

}  // namespace

std::shared_ptr<S3Brakes::OfLink> S3Brakes::Of(const Uuid& link) {
  {
    const std::shared_lock lock(mutex_);
    const auto found = links_.find(link);
    if (found != links_.end()) return found->second;
  }
  const std::unique_lock lock(mutex_);
  std::shared_ptr<OfLink>& of = links_[link];
  if (!of) {
    of = std::make_shared<OfLink>();
    if (closed_) of->brake.Close();
  }
  return of;
}

std::map<Uuid, std::shared_ptr<S3Brakes::OfLink>> S3Brakes::All() const {
  const std::shared_lock lock(mutex_);
  return links_;
}

void S3Brakes::Apply(OfLink& of) {
  FillLimits limits;
  {
    const std::scoped_lock lock(of.mutex);
    limits.requests_per_s = of.pace.Limit(Clock::now());
  }
  of.brake.Set(limits);
}

Task<Status> S3Brakes::Pass(Uuid link, BlockId block, UrgencyNow urgency, Deadline deadline,
                            std::optional<std::uint32_t> bytes) {
  const std::shared_ptr<OfLink> of = Of(link);
  Status passed;
  {
    const Waits waits(of->waiting);
    passed = co_await of->brake.Pass(block, urgency(), deadline, bytes);
  }
  if (passed) passed = co_await budget_.Pass(block, urgency(), deadline, bytes);
  if (passed) passed = co_await network_.Pass(block, urgency(), deadline, bytes);
  if (passed) of->requests.fetch_add(1, std::memory_order_relaxed);
  co_return passed;
}

void S3Brakes::SetBandwidth(double bytes_per_s) {
  FillLimits limits;
  limits.bytes_per_s = bytes_per_s;
  network_.Set(limits);
}

Task<Status> S3Brakes::PassNetwork(BlockId block, UrgencyNow urgency, Deadline deadline) {
  Status passed = co_await network_.Pass(block, urgency(), deadline);
  co_return passed;
}

void S3Brakes::Promote(const Uuid& link, const BlockId& block, Urgency urgency) {
  Of(link)->brake.Promote(block, urgency);
  budget_.Promote(block, urgency);
  network_.Promote(block, urgency);
}

void S3Brakes::Drop(const Uuid& link, const BlockId& block) {
  Of(link)->brake.Drop(block);
  budget_.Drop(block);
  network_.Drop(block);
}

bool S3Brakes::Open(const Uuid& link) {
  return Of(link)->brake.Open() && budget_.Open() && network_.Open();
}

void S3Brakes::Close() {
  {
    const std::unique_lock lock(mutex_);
    closed_ = true;
  }
  for (const auto& [link, of] : All()) of->brake.Close();
  budget_.Close();
  network_.Close();
}

void S3Brakes::NoteAnswered(const Uuid& link) {
  const std::shared_ptr<OfLink> of = Of(link);
  {
    const std::scoped_lock lock(of->mutex);
    of->pace.Answered(Clock::now());
  }
  Apply(*of);
}

void S3Brakes::NoteThrottled(const Uuid& link) {
  const std::shared_ptr<OfLink> of = Of(link);
  of->throttled.fetch_add(1, std::memory_order_relaxed);
  bool is_news = false;
  {
    const std::scoped_lock lock(of->mutex);
    is_news = of->pace.Throttled(Clock::now());
  }
  Apply(*of);
  if (is_news && on_news_) on_news_();
}

std::vector<S3Brakes::Use> S3Brakes::Uses() const {
  std::vector<Use> uses;
  for (const auto& [link, of] : All()) {
    Use& use = uses.emplace_back();
    use.link = link;
    use.requests = of->requests.load();
    use.throttled = of->throttled.load();
    use.waiting = of->waiting.load();
    const std::scoped_lock lock(of->mutex);
    use.limit = of->pace.Limit(Clock::now());
  }
  return uses;
}

void S3Brakes::SetLeases(const std::vector<RequestLease>& leases) {
  for (const auto& [link, of] : All()) {
    const auto lease = std::ranges::find(leases, link, &RequestLease::link);
    std::optional<double> limit;
    if (lease != leases.end()) limit = lease->requests_per_s;
    {
      const std::scoped_lock lock(of->mutex);
      of->pace.Lease(limit, Clock::now());
    }
    Apply(*of);
  }
}

void S3Brakes::Restore(const std::vector<RequestLease>& leases) {
  for (const RequestLease& lease : leases) (void)Of(lease.link);
  SetLeases(leases);
}

}  // namespace forebay
