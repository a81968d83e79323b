#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "common/base/result.h"
#include "fuse-client/order/announced_order.h"

namespace forebay {

/// The announced orders of the jobs that read through one mount, one for each job. Thread-safe.
class OrderBook {
 public:
  static constexpr std::size_t kMaxJobs = 16;
  /// Over all jobs; 12 bytes each.
  static constexpr std::size_t kMaxFiles = 2 * AnnouncedOrder::kMaxFiles;

  /// kOverloaded: an order of so many files would be too many, or one job too many.
  Status RoomFor(const std::string& job, std::size_t files) const;
  /// Replaces what the job had announced before; errors of RoomFor, and then that stays.
  Status Announce(const std::string& job, AnnouncedOrder order);
  /// A reader of `job` has begun to read the file. Costs a look at one number while nobody has
  /// announced anything.
  void NoteRead(const std::string& job, std::uint64_t nodeid) {
    if (count_.load(std::memory_order_acquire) != 0) NoteReadOf(job, nodeid);
  }

  struct Next {
    std::string job;
    AnnouncedOrder::Next file;
  };
  /// The next file to fetch, of all jobs in turn; each has the whole window.
  std::optional<Next> Take(const AnnouncedOrder::Window& window,
                           const AnnouncedOrder::SizeOf& size_of);

  /// What Take has answered is still in front of its job, whose order is the same.
  bool IsAhead(const Next& next) const;

  struct State {
    std::string job;
    std::size_t files = 0;
    std::size_t position = 0;
  };
  std::vector<State> States() const;

  /// From now on called, with no lock held, when there may be more to Take; perhaps once more after
  /// another one was set.
  void OnMore(std::function<void()> call);

 private:
  Status RoomForLocked(const std::string& job, std::size_t files) const;
  void NoteReadOf(const std::string& job, std::uint64_t nodeid);

  std::atomic<std::size_t> count_{0};
  mutable std::mutex mutex_;
  std::map<std::string, AnnouncedOrder> orders_;
  std::string last_taken_;
  std::shared_ptr<const std::function<void()>> on_more_;
};

}  // namespace forebay
