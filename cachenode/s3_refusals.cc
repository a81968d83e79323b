#include "cachenode/s3_refusals.h"

#include <utility>

namespace forebay {

void S3Refusals::Note(const Uuid& link, std::string why, TimePoint now) {
  const std::scoped_lock lock(mutex_);
  const auto [refused, is_new] = refused_.try_emplace(
      link, Refused{.row = {.link = link, .why = {}, .calls = 0, .since = now}, .last = now});
  refused->second.row.why = std::move(why);
  ++refused->second.row.calls;
  refused->second.last = now;
  any_.store(true, std::memory_order_relaxed);
}

void S3Refusals::NoteAnswered(const Uuid& link) {
  if (!any_.load(std::memory_order_relaxed)) return;
  const std::scoped_lock lock(mutex_);
  refused_.erase(link);
  any_.store(!refused_.empty(), std::memory_order_relaxed);
}

std::vector<S3Refusals::Row> S3Refusals::Lately(TimePoint now, std::size_t most) {
  const std::scoped_lock lock(mutex_);
  std::erase_if(refused_, [now](const auto& row) { return now - row.second.last > kKept; });
  any_.store(!refused_.empty(), std::memory_order_relaxed);
  std::vector<Row> rows;
  rows.reserve(refused_.size());
  for (const auto& [link, refused] : refused_) {
    if (rows.size() == most) break;
    rows.push_back(refused.row);
  }
  return rows;
}

}  // namespace forebay
