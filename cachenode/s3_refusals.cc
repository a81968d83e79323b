#include "cachenode/s3_refusals.h"

#include <utility>

namespace forebay {

// What was refused before a long pause is not counted, and says why until it is known better.
S3Refusals::Refused& S3Refusals::Count(const Uuid& link, TimePoint now) {
  const Refused fresh{.row = {.link = link, .why = {}, .calls = 0, .since = now}, .last = now};
  Refused& refused = refused_.try_emplace(link, fresh).first->second;
  if (now - refused.last > kKept) {
    std::string said = std::move(refused.row.why);
    refused = fresh;
    refused.row.why = std::move(said);
  }
  refused.last = now;
  ++refused.row.calls;
  any_.store(true, std::memory_order_relaxed);
  return refused;
}

bool S3Refusals::Note(const Uuid& link, std::string why, TimePoint now) {
  const std::scoped_lock lock(mutex_);
  Refused& refused = Count(link, now);
  refused.row.why = std::move(why);
  return refused.row.calls >= kOften;
}

void S3Refusals::NoteAgain(const Uuid& link, std::string why, TimePoint now) {
  const std::scoped_lock lock(mutex_);
  Refused& refused = Count(link, now);
  if (refused.row.why.empty()) refused.row.why = std::move(why);
}

bool S3Refusals::IsRefused(const Uuid& link, TimePoint now) const {
  if (!any_.load(std::memory_order_relaxed)) return false;
  const std::scoped_lock lock(mutex_);
  const auto refused = refused_.find(link);
  return refused != refused_.end() && now - refused->second.last <= kFresh;
}

bool S3Refusals::IsOften(const Uuid& link, TimePoint now) const {
  if (!any_.load(std::memory_order_relaxed)) return false;
  const std::scoped_lock lock(mutex_);
  const auto refused = refused_.find(link);
  return refused != refused_.end() && refused->second.row.calls >= kOften &&
         now - refused->second.last <= kKept;
}

void S3Refusals::NoteAnswered(const Uuid& link) {
  if (!any_.load(std::memory_order_relaxed)) return;
  const std::scoped_lock lock(mutex_);
  refused_.erase(link);
  any_.store(!refused_.empty(), std::memory_order_relaxed);
}

std::vector<S3Refusals::Row> S3Refusals::Often(TimePoint now, std::size_t most) {
  const std::scoped_lock lock(mutex_);
  std::erase_if(refused_, [now](const auto& row) { return now - row.second.last > kKept; });
  any_.store(!refused_.empty(), std::memory_order_relaxed);
  std::vector<Row> rows;
  rows.reserve(refused_.size());
  for (const auto& [link, refused] : refused_) {
    if (rows.size() == most) break;
    if (refused.row.calls >= kOften) rows.push_back(refused.row);
  }
  return rows;
}

}  // namespace forebay
