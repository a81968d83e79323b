#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <stop_token>
#include <thread>

#include "common/base/deadline.h"
#include "fuse-client/copies/copy_store.h"

namespace forebay {

/// Reads the copies of a store again, on a thread of its own: those that must be verified before
/// their first use, and all of them again and again. No faster than `bytes_per_second`, but for
/// what somebody waits for, who would read as many bytes in another way meanwhile.
class CopyScrubber {
 public:
  struct Options {
    /// 0: no rounds, and no bound for what must be verified before its first use.
    std::uint64_t bytes_per_second = 0;
    /// Between two rounds, where a round does not take so long.
    Duration round_every = std::chrono::minutes(10);
  };

  /// `store` outlives it.
  CopyScrubber(CopyStore& store, Options options);
  /// Ends what it is reading.
  ~CopyScrubber() = default;
  CopyScrubber(const CopyScrubber&) = delete;
  CopyScrubber& operator=(const CopyScrubber&) = delete;

 private:
  void Run(const std::stop_token& stop);
  bool Pause(std::size_t bytes, const std::stop_token& stop);

  CopyStore& store_;
  const Options options_;
  std::mutex mutex_;
  std::condition_variable_any pause_;
  std::jthread thread_;  // the last: it uses all above
};

}  // namespace forebay
