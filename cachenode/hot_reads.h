#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "cachenode/store/block_hash.h"
#include "common/model/block_id.h"

namespace forebay {

/// How many readers wait for one block at the same time, of all that this node answers. Takes no
/// lock: blocks share counters, of which there are many more than blocks that are read at once.
class HotReads {
 public:
  /// With more readers than these at one block the others do better at its next owners: one mount
  /// that reads a large file has less than that under way in a block, read-ahead included.
  static constexpr std::uint32_t kMany = 32;

  /// Counts a reader in, and out as it ends.
  class Reader {
   public:
    explicit Reader(std::atomic<std::uint32_t>& readers)
        : readers_(readers), before_(readers.fetch_add(1, std::memory_order_relaxed)) {}
    ~Reader() { readers_.fetch_sub(1, std::memory_order_relaxed); }
    Reader(const Reader&) = delete;
    Reader& operator=(const Reader&) = delete;

    /// So many were here before it that it had better go on.
    bool is_one_too_many() const { return before_ >= kMany; }

   private:
    std::atomic<std::uint32_t>& readers_;
    const std::uint32_t before_;
  };

  /// To be kept while the block is being answered.
  [[nodiscard]] Reader Enter(const BlockId& block) {
    return Reader(readers_[MixedHash(block) % kCounters]);
  }
  void CountSentOn() { sent_on_.fetch_add(1, std::memory_order_relaxed); }
  /// Readers that were told to go to another owner, since the start.
  std::uint64_t sent_on() const { return sent_on_.load(std::memory_order_relaxed); }

 private:
  static constexpr std::size_t kCounters = 4096;
  std::array<std::atomic<std::uint32_t>, kCounters> readers_{};
  std::atomic<std::uint64_t> sent_on_{0};
};

}  // namespace forebay
