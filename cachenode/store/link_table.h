#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "common/base/deadline.h"
#include "common/model/link.h"
#include "common/model/object_version.h"

namespace forebay {

class QuotaHold;

/// What the store counts about one link, over all disks.
struct LinkState {
  LinkState(const Uuid& link, TimePoint now) : id(link), last_use(now.time_since_epoch()) {}

  void Touch(TimePoint now) { last_use.store(now.time_since_epoch(), std::memory_order_relaxed); }
  TimePoint LastUse() const { return TimePoint(last_use.load(std::memory_order_relaxed)); }

  /// True when a pin of a file or folder covers the object at `path`.
  bool PathIsPinned(std::string_view path) const {
    const std::scoped_lock lock(mutex);
    return PinsCover(path_pins, path);
  }

  /// Counts a block from now on; `hold`: what was held of the quota for it, which ends in the same
  /// moment, so that nobody finds both and makes room for what is there already. Null: nothing was.
  void Count(std::uint64_t length, bool block_is_pinned, QuotaHold* hold);
  /// Takes it back: the block does not count, and what was held is held again, unless that is over.
  void Uncount(std::uint64_t length, bool block_is_pinned, QuotaHold* hold);
  /// What has to go before there is room to hold. Nothing: the quota never has room for the block.
  std::optional<std::uint64_t> Lacks(std::uint64_t length) const {
    const std::scoped_lock lock(mutex);
    const std::uint64_t most = max_bytes.load(std::memory_order_relaxed);
    if (length > most) return std::nullopt;
    const std::uint64_t taken = bytes.load(std::memory_order_relaxed) + held;
    return taken > most - length ? taken - (most - length) : 0;
  }
  std::uint64_t RoomLeft() const {
    const std::scoped_lock lock(mutex);
    const std::uint64_t most = max_bytes.load(std::memory_order_relaxed);
    const std::uint64_t taken = bytes.load(std::memory_order_relaxed) + held;
    return taken > most ? 0 : most - taken;
  }
  std::uint64_t Surplus() const {
    const std::uint64_t most = max_bytes.load(std::memory_order_relaxed);
    const std::uint64_t all = bytes.load(std::memory_order_relaxed);
    return all > most ? all - most : 0;
  }

  const Uuid id;
  /// The last read or admission. A link that recovery finds counts as used then: who reads it is
  /// not known yet.
  std::atomic<Duration> last_use;
  std::atomic<std::uint64_t> blocks{0};
  std::atomic<std::uint64_t> bytes{0};  ///< Without headers and padding.
  std::atomic<std::uint64_t> evicted_bytes{0};
  std::atomic<std::uint64_t> pinned_bytes{0};  ///< Of blocks that are pinned one by one.
  std::atomic<bool> pinned{false};             ///< As a whole.
  std::atomic<std::uint64_t> max_bytes{UINT64_MAX};
  std::atomic<LinkPriority> priority{LinkPriority::kNormal};

  mutable std::mutex mutex;            ///< Guards what follows.
  std::vector<std::string> path_pins;  ///< As LinkRule::pins, without the one of the whole link.
  std::uint64_t held = 0;              ///< Of admissions under way.
  std::uint64_t pin_sync = 0;          ///< The mark and sweep under way; 0 = none.
};

/// Room within a link's quota, for one block that is on its way. Ends when the block counts by
/// itself, with End, or with its last holder: a disk that hangs may hold what nobody waits for any
/// more. Thread-safe.
class QuotaHold {
 public:
  /// Null: the quota has no room for it.
  static std::shared_ptr<QuotaHold> Take(std::shared_ptr<LinkState> link, std::uint64_t length) {
    const std::scoped_lock lock(link->mutex);
    const std::uint64_t most = link->max_bytes.load(std::memory_order_relaxed);
    const std::uint64_t taken = link->bytes.load(std::memory_order_relaxed) + link->held;
    if (taken > most || length > most - taken) return nullptr;
    link->held += length;
    return std::shared_ptr<QuotaHold>(new QuotaHold(std::move(link), length));
  }
  ~QuotaHold() { End(); }
  void End() {
    const std::scoped_lock lock(link_->mutex);
    link_->held -= std::exchange(bytes_, 0);
    is_over_ = true;
  }
  QuotaHold(const QuotaHold&) = delete;
  QuotaHold& operator=(const QuotaHold&) = delete;

 private:
  friend struct LinkState;
  QuotaHold(std::shared_ptr<LinkState> link, std::uint64_t bytes)
      : link_(std::move(link)), bytes_(bytes) {}

  const std::shared_ptr<LinkState> link_;
  // Guarded by the link's mutex.
  std::uint64_t bytes_;  // 0 once the block counts
  bool is_over_ = false;
};

inline void LinkState::Count(std::uint64_t length, bool block_is_pinned, QuotaHold* hold) {
  const std::scoped_lock lock(mutex);
  if (hold != nullptr) held -= std::exchange(hold->bytes_, 0);
  blocks.fetch_add(1, std::memory_order_relaxed);
  bytes.fetch_add(length, std::memory_order_relaxed);
  if (block_is_pinned) pinned_bytes.fetch_add(length, std::memory_order_relaxed);
}

inline void LinkState::Uncount(std::uint64_t length, bool block_is_pinned, QuotaHold* hold) {
  const std::scoped_lock lock(mutex);
  if (hold != nullptr && !hold->is_over_) {
    hold->bytes_ = length;
    held += length;
  }
  blocks.fetch_sub(1, std::memory_order_relaxed);
  bytes.fetch_sub(length, std::memory_order_relaxed);
  if (block_is_pinned) pinned_bytes.fetch_sub(length, std::memory_order_relaxed);
}

/// The links that the store has seen; a state lives as long as somebody holds it. Thread-safe.
class LinkTable {
 public:
  explicit LinkTable(std::function<TimePoint()> now) : now_(std::move(now)) {}

  std::shared_ptr<LinkState> Get(const Uuid& link) {
    const std::scoped_lock lock(mutex_);
    auto& state = links_[link];
    if (!state) state = std::make_shared<LinkState>(link, now_());
    return state;
  }

  /// What the quota leaves of a link; all of it where the link is not known.
  std::uint64_t RoomLeft(const Uuid& link) const {
    std::shared_ptr<LinkState> state;
    {
      const std::scoped_lock lock(mutex_);
      const auto found = links_.find(link);
      if (found == links_.end()) return UINT64_MAX;
      state = found->second;
    }
    return state->RoomLeft();
  }

  std::vector<std::shared_ptr<LinkState>> All() const {
    const std::scoped_lock lock(mutex_);
    std::vector<std::shared_ptr<LinkState>> all;
    all.reserve(links_.size());
    for (const auto& [id, state] : links_) all.push_back(state);
    return all;
  }

 private:
  const std::function<TimePoint()> now_;
  mutable std::mutex mutex_;
  std::unordered_map<Uuid, std::shared_ptr<LinkState>> links_;
};

}  // namespace forebay
