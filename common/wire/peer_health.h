#pragma once

#include <mutex>
#include <string>
#include <string_view>
#include <unordered_set>

namespace forebay {

/// Which cache nodes did not answer lately. One per program, shared by all its threads, so that
/// only the questions that are under way when a node dies wait for it. Whoever reports a node first
/// must probe it until it answers or has left the ring. Thread-safe.
class PeerHealth {
 public:
  /// True: the caller must probe the node and report Recovered. False: somebody does already.
  bool Failed(const std::string& node_id) {
    std::scoped_lock lock(mutex_);
    return silent_.insert(node_id).second;
  }

  void Recovered(const std::string& node_id) {
    std::scoped_lock lock(mutex_);
    silent_.erase(node_id);
  }

  /// True: other owners come first.
  bool IsSilent(const std::string& node_id) const {
    std::scoped_lock lock(mutex_);
    return !silent_.empty() && silent_.contains(node_id);
  }

 private:
  mutable std::mutex mutex_;
  std::unordered_set<std::string> silent_;
};

}  // namespace forebay
