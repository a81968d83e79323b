#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <shared_mutex>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "cachenode/store/read_stream.h"
#include "common/model/block_id.h"
#include "common/model/object_version.h"

namespace forebay {

/// Which job has read which block when, and from that what a block is worth. Also of blocks that
/// are not cached: whether one of them is to come in is judged like those that are there.
/// Thread-safe: 64 shards with a lock each, held for a few memory accesses; no I/O, no wall time.
///
/// Memory for each block that is remembered: 6 bytes and one for each of up to 2, 4 or 8 jobs, at a
/// load of 0.64 to 0.8: 10-13, 12-16 or 17-22 bytes. Cached blocks that were read are remembered
/// all, others as far as there are kBytesPerCachedBlock for all; then new ones take their places.
class ReadHistory {
 public:
  /// Jobs of one link that are told apart; others count together, as the last of these.
  static constexpr std::size_t kMaxJobs = 8;
  /// Links that are told apart; reads of others are not remembered.
  static constexpr std::size_t kMaxLinks = 1024;
  static constexpr std::size_t kBytesPerCachedBlock = 40;

  ReadHistory();
  ~ReadHistory();
  ReadHistory(const ReadHistory&) = delete;
  ReadHistory& operator=(const ReadHistory&) = delete;

  enum class Noted : std::uint8_t {
    kCounts,
    kSameRead,  ///< It belongs to the read before.
    kNot,       ///< It is not known of: others are at work, or there are too many links.
  };
  /// `job` reads the block, through `link`; `cached`: it is in the store. READs of one block in a
  /// row count as one. The read of a cached block never waits for another thread: where it would
  /// have to, it is not noted, as one that a page cache answered.
  Noted NoteRead(const Uuid& link, std::string_view job, const BlockId& block, bool cached);
  /// The block has come into the store, or has left it.
  void SetCached(const BlockId& block, bool cached);

  struct Value {
    double worth = 0;         ///< About how many of the node's next reads want the block.
    double mean = 0;          ///< The worth of a block of the same link of which nothing is known.
    std::size_t readers = 0;  ///< Jobs that read the link now.
    bool has_jobs = false;    ///< Somebody has read blocks of this link. False: nothing is known.
    bool just_read = false;   ///< A job has read it a moment ago.
  };
  /// `link`: where the block lies, if it was not read yet.
  Value ValueOf(const Uuid& link, const BlockId& block) const;

  std::size_t size() const { return size_.load(std::memory_order_relaxed); }
  std::size_t MemoryBytes() const;

 private:
  struct Shard;
  struct DataSet;
  static constexpr std::size_t kShards = 64;
  using Tag = std::uint16_t;  // index into data_sets_

  struct Read {
    Tag tag = 0;
    std::size_t slot = 0;
    ReadStream* stream = nullptr;
    bool cached = false;
  };

  Shard& ShardOf(std::uint64_t hash) const;
  /// Of the data set `tag`, or of the link's own, which is made first; kMaxLinks = the latter.
  void AddSeat(const Uuid& link, Tag tag, std::string_view job);
  void Clear(Tag tag, std::size_t slot);
  Tag TagIn(const Shard& shard, std::uint32_t print, Tag otherwise) const;
  bool NoteIn(Shard& shard, std::uint32_t print, const Read& read);
  bool MakePlace(Shard& shard);
  void LookAround(Shard& shard, const Read& read);
  bool IsShared(Tag tag, std::size_t slot, const ReadStamp* stamps, std::size_t width) const;
  void ForgetAt(Shard& shard, std::size_t at);

  std::unique_ptr<std::array<Shard, kShards>> shards_;
  std::atomic<std::size_t> size_{0};
  std::atomic<std::uint64_t> clock_{0};  // reads of all streams

  mutable std::shared_mutex mutex_;  // before a shard's
  // Below: guarded by mutex_.
  std::unordered_map<Uuid, Tag> tags_;
  std::vector<std::unique_ptr<DataSet>> data_sets_;
};

}  // namespace forebay
