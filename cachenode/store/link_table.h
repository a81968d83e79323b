#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "common/base/deadline.h"
#include "common/model/object_version.h"

namespace forebay {

/// What the store counts about one link, over all disks.
struct LinkState {
  explicit LinkState(const Uuid& link) : id(link), last_use(Clock::now().time_since_epoch()) {}

  void Touch() { last_use.store(Clock::now().time_since_epoch(), std::memory_order_relaxed); }
  TimePoint LastUse() const { return TimePoint(last_use.load(std::memory_order_relaxed)); }

  const Uuid id;
  /// The last read or admission. A link that recovery finds counts as used then: who reads it is
  /// not known yet.
  std::atomic<Duration> last_use;
  std::atomic<std::uint64_t> blocks{0};
  std::atomic<std::uint64_t> bytes{0};  ///< Without headers and padding.
  std::atomic<std::uint64_t> evicted_bytes{0};
};

/// The links that the store has seen; a state lives as long as somebody holds it. Thread-safe.
class LinkTable {
 public:
  std::shared_ptr<LinkState> Get(const Uuid& link) {
    const std::scoped_lock lock(mutex_);
    auto& state = links_[link];
    if (!state) state = std::make_shared<LinkState>(link);
    return state;
  }

  std::vector<std::shared_ptr<LinkState>> All() const {
    const std::scoped_lock lock(mutex_);
    std::vector<std::shared_ptr<LinkState>> all;
    all.reserve(links_.size());
    for (const auto& [id, state] : links_) all.push_back(state);
    return all;
  }

 private:
  mutable std::mutex mutex_;
  std::unordered_map<Uuid, std::shared_ptr<LinkState>> links_;
};

}  // namespace forebay
