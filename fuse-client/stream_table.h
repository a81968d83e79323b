#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <mutex>

namespace forebay {

/// Blocks to ask for ahead of a reader: [first, first + count) by number in the object.
struct BlocksAhead {
  std::uint64_t first = 0;
  std::uint32_t count = 0;

  bool operator==(const BlocksAhead&) const = default;
};

/// Recognises programs that read big files from front to back, so that the next blocks are on their
/// way before they are asked for. One table per mount, because the kernel spreads one file's READs
/// over all workers. Bounded: the stream that was silent longest makes room. Thread-safe.
class StreamTable {
 public:
  /// The kernel sends a window of READs at once and they arrive in any order: what lies this near
  /// to the furthest end seen belongs to the same stream. Two of its largest windows of 1 MiB
  /// READs.
  static constexpr std::uint64_t kSlackBytes = 2 << 20;
  /// So much must have been read in sequence before anything is asked for ahead: more than a small
  /// random read of a shard's index takes.
  static constexpr std::uint64_t kStartBytes = 512ULL * 1024;
  static constexpr std::uint32_t kUsualWindow = 4;  ///< Blocks.
  /// A stream whose reader meets blocks that are not there yet is asked further ahead for, up to so
  /// many blocks and bytes: 16 GETs of 4 MiB that take 80 ms each are 800 MB/s.
  static constexpr std::uint32_t kMaxWindow = 16;
  static constexpr std::uint64_t kMaxWindowBytes = 64 << 20;
  /// A window that was wide enough for so many blocks gets narrower by one.
  static constexpr std::uint32_t kCalmBlocks = 16;

  /// Notes a READ of [offset, end) of a file with `size` bytes, and answers each block once, unless
  /// NotBegun.
  BlocksAhead Note(std::uint64_t nodeid, std::uint64_t offset, std::uint64_t end,
                   std::uint64_t size, std::uint64_t block_bytes);

  /// A block that Note has answered is not on its way. It is answered again, with those behind it,
  /// when its reader has come kStartBytes further: nobody is asked for it at every READ.
  void NotBegun(std::uint64_t nodeid, std::uint64_t block);

  /// A READ of [offset, end) that Note has seen waited for a block to come: the next time its
  /// stream enters a block its window gets twice as wide.
  void Waited(std::uint64_t nodeid, std::uint64_t offset, std::uint64_t end);

 private:
  struct Stream {
    std::uint64_t nodeid = 0;  ///< 0 = free.
    std::uint64_t end = 0;     ///< Furthest byte read.
    std::uint64_t run_bytes = 0;
    std::uint64_t block = 0;        ///< The block of the furthest byte.
    std::uint64_t ahead_until = 0;  ///< Blocks before this one are on their way.
    std::uint64_t ask_from = 0;     ///< Nothing is answered before the reader has come here.
    std::uint32_t window = 0;
    bool waited = false;  ///< Since it has entered its block.
    /// What was asked for before the window grew says nothing of the window.
    std::uint64_t judged_from = 0;
    std::uint32_t calm = 0;              ///< Blocks in sequence in which it has not.
    std::uint32_t least = kUsualWindow;  ///< Anything narrower was too narrow once.
    std::uint64_t last_use = 0;

    bool IsNear(std::uint64_t file, std::uint64_t offset) const;
    void EnterBlock(std::uint64_t block_bytes);
  };
  Stream& FindOrReplace(std::uint64_t nodeid, std::uint64_t offset);

  std::mutex mutex_;
  std::uint64_t clock_ = 0;
  std::array<Stream, 64> streams_{};
};

}  // namespace forebay
