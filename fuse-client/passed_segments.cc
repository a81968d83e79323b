#include "fuse-client/passed_segments.h"

#include <sys/resource.h>

#include <algorithm>
#include <utility>

namespace forebay {

namespace {

/// 4 TiB of segments of 256 MiB.
constexpr std::size_t kMostFiles = 16'384;

}  // namespace

std::size_t PassedSegments::UsualLimit() {
  rlimit descriptors{};
  if (::getrlimit(RLIMIT_NOFILE, &descriptors) != 0) return 1;
  return std::clamp<std::size_t>(descriptors.rlim_cur / 4, 1, kMostFiles);
}

PassedFile PassedSegments::Find(const SegmentName& name, TimePoint now) {
  const std::scoped_lock lock(mutex_);
  const auto found = by_name_.find(name);
  if (found == by_name_.end()) return nullptr;
  open_.splice(open_.begin(), open_, found->second);
  open_.front().used = now;
  return open_.front().file;
}

bool PassedSegments::BeginOpen(const SegmentName& name) {
  const std::scoped_lock lock(mutex_);
  return !by_name_.contains(name) && asked_for_.insert(name).second;
}

void PassedSegments::EndOpen(const SegmentName& name, PassedFile file, TimePoint now) {
  PassedFile closed;  // outside of the lock
  const std::scoped_lock lock(mutex_);
  asked_for_.erase(name);
  if (!file) {
    usable_from_ = (now + kPauseAfterFailure).time_since_epoch();
    return;
  }
  if (by_name_.contains(name)) return;
  if (open_.size() >= limit_) {
    by_name_.erase(open_.back().name);
    closed = std::move(open_.back().file);
    open_.pop_back();
  }
  open_.push_front(Open{name, std::move(file), now});
  by_name_[name] = open_.begin();
}

bool PassedSegments::Usable(TimePoint now) const {
  return now.time_since_epoch() >= usable_from_.load(std::memory_order_relaxed);
}

void PassedSegments::Drop(const SegmentName& name) {
  PassedFile closed;
  const std::scoped_lock lock(mutex_);
  const auto found = by_name_.find(name);
  if (found == by_name_.end()) return;
  closed = std::move(found->second->file);
  open_.erase(found->second);
  by_name_.erase(found);
}

void PassedSegments::CloseUnused(TimePoint before) {
  std::list<Open> closed;
  const std::scoped_lock lock(mutex_);
  while (!open_.empty() && open_.back().used < before) {
    by_name_.erase(open_.back().name);
    closed.splice(closed.end(), open_, std::prev(open_.end()));
  }
}

std::size_t PassedSegments::size() const {
  const std::scoped_lock lock(mutex_);
  return open_.size();
}

}  // namespace forebay
