#pragma once

#include <memory>
#include <mutex>
#include <unordered_map>
#include <utility>
#include <vector>

namespace forebay {

/// The running flights by key: whoever comes second joins the first. A flight is owned by those who
/// hold it, so one waiter that gives up never ends it for the others. Thread-safe.
template <typename Key, typename Flight, typename Hash = std::hash<Key>>
class SingleFlight {
 public:
  struct Seat {
    std::shared_ptr<Flight> flight;
    bool leads;  ///< The caller made it and must run it, and call Leave when it has landed.
  };

  /// Joins the flight of `key`, or makes one with `make()`, which is called under the lock and must
  /// not block. It may answer null when no flight is needed any more: then nothing is registered
  /// and the seat has no flight.
  template <typename Make>
  Seat Join(const Key& key, Make make) {
    std::scoped_lock lock(mutex_);
    auto [it, inserted] = flights_.try_emplace(key, nullptr);
    if (!inserted) return Seat{it->second, false};
    it->second = make();
    if (it->second) return Seat{it->second, true};
    flights_.erase(it);
    return Seat{nullptr, false};
  }

  /// The running flight of `key`, or null.
  std::shared_ptr<Flight> Find(const Key& key) const {
    std::scoped_lock lock(mutex_);
    auto it = flights_.find(key);
    return it == flights_.end() ? nullptr : it->second;
  }

  /// The leader's last act: from now on the next caller leads a new flight. Only `flight` itself is
  /// removed.
  void Leave(const Key& key, const std::shared_ptr<Flight>& flight) {
    std::scoped_lock lock(mutex_);
    auto it = flights_.find(key);
    if (it != flights_.end() && it->second == flight) flights_.erase(it);
  }

  std::size_t size() const {
    std::scoped_lock lock(mutex_);
    return flights_.size();
  }

 private:
  mutable std::mutex mutex_;
  std::unordered_map<Key, std::shared_ptr<Flight>, Hash> flights_;
};

}  // namespace forebay
