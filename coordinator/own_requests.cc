#include "coordinator/own_requests.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "common/base/executors.h"
#include "common/s3/list_parser.h"

namespace forebay {
namespace {

/// A greater lease is felt so soon. Few wait at once: the key ranges that a listing is cut into.
constexpr std::chrono::milliseconds kLookAgain{200};

}  // namespace

/// One who waits, also when its coroutine is dropped meanwhile.
class OwnRequests::Waits {
 public:
  Waits(OwnRequests& requests, const S3Place& place) : requests_(requests), place_(place) {
    const std::scoped_lock lock(requests_.mutex_);
    ++requests_.places_[place_].waiting;
  }
  ~Waits() {
    const std::scoped_lock lock(requests_.mutex_);
    --requests_.places_[place_].waiting;
  }
  Waits(const Waits&) = delete;
  Waits& operator=(const Waits&) = delete;

 private:
  OwnRequests& requests_;
  const S3Place& place_;
};

std::optional<Duration> OwnRequests::TryPass(const S3Place& place) {
  const TimePoint now = Clock::now();
  const std::scoped_lock lock(mutex_);
  OfPlace& of = places_[place];
  const Duration wait = of.bucket.Wait(now);
  if (wait > Duration::zero()) return wait;
  of.bucket.Take(1, now);
  ++of.requests;
  return std::nullopt;
}

Task<Status> OwnRequests::Pass(LinkOrigin origin, Deadline deadline) {
  const S3Place place = S3Place::Of(origin);
  std::optional<Duration> wait = TryPass(place);
  if (!wait) co_return Status();
  const Waits waits(*this, place);
  while (wait) {
    if (deadline.Expired(Clock::now())) {
      co_return Fail(Code::kOverloaded,
                     fmt::format("S3 throttles s3://{}/{}, and other requests came first: wait, or "
                                 "try again later",
                                 place.bucket, Printable(place.prefix)));
    }
    const Duration nap = std::min<Duration>(*wait, kLookAgain);
    (void)co_await SleepFor(std::min(nap, deadline.Remaining(Clock::now())));
    wait = TryPass(place);
  }
  co_return Status();
}

void OwnRequests::NoteThrottled(const LinkOrigin& origin) {
  const std::scoped_lock lock(mutex_);
  ++places_[S3Place::Of(origin)].throttled;
}

std::vector<OwnUse> OwnRequests::Uses() const {
  std::vector<OwnUse> uses;
  const std::scoped_lock lock(mutex_);
  uses.reserve(places_.size());
  for (const auto& [place, of] : places_)
    uses.push_back({place, of.requests, of.throttled, of.waiting});
  return uses;
}

void OwnRequests::SetLeases(const std::map<S3Place, double>& leases) {
  const TimePoint now = Clock::now();
  const std::scoped_lock lock(mutex_);
  for (auto& [place, of] : places_) {
    const auto lease = leases.find(place);
    of.bucket.SetRate(lease == leases.end() ? 0 : lease->second, now);
  }
}

}  // namespace forebay
