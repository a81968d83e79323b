#include "cachenode/old_versions.h"

#include <algorithm>
#include <boost/asio/this_coro.hpp>
#include <utility>

#include "common/s3/version_search.h"

namespace forebay {
namespace {

/// Why there is no answer. S3 that is away has not said that the version is gone.
Error WhyUnknown(Error error) {
  switch (error.code) {
    case Code::kStale:
    case Code::kUnavailable:
    case Code::kOverloaded:
    case Code::kTimeout:
      return error;
    case Code::kNotFound:
    case Code::kDenied:
    case Code::kInvalid:
    case Code::kCorrupt:
    case Code::kInternal:
      break;
  }
  return Error{Code::kStale, "its older versions cannot be looked up: " + error.message};
}

}  // namespace

std::size_t OldVersions::Hash::operator()(const Object& object) const {
  const std::hash<std::string> hash;
  return hash(object.key) ^ (hash(object.etag) * 31);
}

std::string OldVersions::Known(const Object& object) const {
  const std::scoped_lock lock(mutex_);
  const auto known = known_.find(object);
  return known != known_.end() && known->second.answer ? *known->second.answer : std::string();
}

void OldVersions::Forget(const Object& object) {
  const std::scoped_lock lock(mutex_);
  known_.erase(object);
}

std::optional<OldVersions::Answer> OldVersions::Recall(const Object& object, TimePoint now) const {
  const std::scoped_lock lock(mutex_);
  const auto known = known_.find(object);
  if (known == known_.end()) return std::nullopt;
  if (!known->second.answer && now - known->second.at >= kAskAgain) return std::nullopt;
  return known->second.answer;
}

void OldVersions::Remember(const Object& object, const Answer& answer, TimePoint now) {
  if (!answer && answer.error().code != Code::kStale) return;
  const std::scoped_lock lock(mutex_);
  if (known_.size() >= kMost && !known_.contains(object)) {
    known_.erase(
        std::ranges::min_element(known_, {}, [](const auto& entry) { return entry.second.at; }));
  }
  known_.insert_or_assign(object, Remembered{.answer = answer, .at = now});
}

Task<OldVersions::Answer> OldVersions::Find(Question question, Deadline deadline) {
  std::optional<Answer> known;
  const auto seat = lookups_.Join(question.object, [&]() -> std::shared_ptr<Lookup> {
    known = Recall(question.object, Clock::now());
    return known ? nullptr : std::make_shared<Lookup>();
  });
  if (known) co_return *std::move(known);
  if (!seat.leads) {
    Answer awaited = co_await Await(seat.flight, deadline);
    co_return awaited;
  }
  Answer answer = co_await Look(question, deadline);
  Remember(question.object, answer, Clock::now());
  lookups_.Leave(question.object, seat.flight);
  {
    const std::scoped_lock lock(seat.flight->mutex);
    seat.flight->answer = answer;
  }
  seat.flight->landed.NotifyAll();
  co_return answer;
}

Task<OldVersions::Answer> OldVersions::Await(std::shared_ptr<Lookup> lookup, Deadline deadline) {
  const asio::any_io_executor executor = co_await asio::this_coro::executor;
  for (;;) {
    Notifier::Ticket ticket = lookup->landed.Enlist(executor);
    {
      const std::scoped_lock lock(lookup->mutex);
      if (lookup->answer) co_return *lookup->answer;
    }
    const bool notified = co_await ticket.Wait(deadline);
    if (!notified) co_return Fail(Code::kTimeout, "S3 did not list an object's versions in time");
  }
}

Task<OldVersions::Answer> OldVersions::Look(const Question& question, Deadline deadline) {
  VersionQuestion asked{.origin = question.origin,
                        .key = question.object.key,
                        .etag = question.object.etag,
                        .size = question.size,
                        .before_request = question.before_request,
                        .on_throttled = question.on_throttled};
  Answer found = co_await FindVersion(store_, std::move(asked), deadline);
  if (!found) co_return Fail(WhyUnknown(std::move(found.error())));
  co_return found;
}

}  // namespace forebay
