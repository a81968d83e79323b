#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <string>
#include <unordered_map>
#include <unordered_set>

#include "common/model/block_id.h"

namespace forebay {

/// Names the block that this thread works on, for as long as it lives: if the program crashes here,
/// the block is written into the CrashBook. Costs two stores. `block` outlives it.
class HandledBlock {
 public:
  explicit HandledBlock(const BlockId& block);
  HandledBlock(const HandledBlock&) = delete;
  HandledBlock& operator=(const HandledBlock&) = delete;
  ~HandledBlock();

 private:
  const BlockId* const outer_;
};

/// Which blocks the program was working on when it crashed, over its restarts. One that it crashed
/// on three times is set aside, so that the fourth start serves: it is fetched from S3 and not
/// kept. A crash is a signal by a fault or by abort(); who is killed from outside, also for want of
/// memory, says nothing about a block.
///
/// The file (docs/STORE_FORMAT.md) is written by the handler of the signal: nothing is written
/// while all goes well, and no thread stores into a mapping of a file, which hangs when the disk
/// does. One book of a process takes notes: the one that was opened last. Thread-safe.
class CrashBook {
 public:
  static constexpr std::size_t kCrashes = 3;
  static constexpr std::chrono::hours kForgottenAfter{7 * 24};  ///< Without a crash.
  /// Of the file; older ones make way.
  static constexpr std::size_t kMostEntries = 1024;

  CrashBook() = default;
  ~CrashBook();
  CrashBook(const CrashBook&) = delete;
  CrashBook& operator=(const CrashBook&) = delete;

  /// Once: reads what earlier processes left at `path`, if anything, and takes notes there from now
  /// on. Without a file that can be written nothing is noted, which is logged.
  void Open(std::string path);

  /// Takes a lock for those alone that were set aside at Open.
  bool IsSetAside(const BlockId& block) const;
  std::size_t size() const { return size_.load(std::memory_order_relaxed); }
  /// Of one that is set aside: its crashes count no more, after a restart neither. Blocks then.
  void Forget(const BlockId& block);

 private:
  struct Crashes {
    std::size_t count = 0;
    std::int64_t last = 0;  ///< Seconds since 1970.
  };
  void Load();
  bool Write() const;

  std::string path_;
  int fd_ = -1;
  /// Those that were set aside at Open, which alone changes it.
  std::unordered_set<BlockId> suspects_;
  std::atomic<std::size_t> size_{0};
  mutable std::mutex mutex_;
  std::unordered_map<BlockId, Crashes> crashes_;
};

}  // namespace forebay
