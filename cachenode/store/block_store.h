#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "common/base/asio.h"
#include "common/base/buffer.h"
#include "common/base/offload.h"
#include "common/base/result.h"
#include "common/model/block_id.h"
#include "common/model/block_source.h"
#include "common/model/object_version.h"

namespace forebay {

/// One cache directory, on one disk.
struct CacheDirOptions {
  std::string path;
  std::uint64_t capacity_bytes =
      0;  ///< Hard bound on what Forebay uses there; 0 = 80 % of the file system's size.
};

struct BlockStoreOptions {
  std::vector<CacheDirOptions> dirs;
  std::uint64_t segment_bytes = 256ULL << 20;
  /// A link with a read or an admission in this time is in use: its blocks are not replaced by
  /// others of its own, nor by those of other links. After a start every link counts as used then.
  std::chrono::seconds link_in_use_for{600};
};

struct LinkUsage {
  std::uint64_t blocks = 0;
  std::uint64_t bytes =
      0;  ///< Block bytes, as a reader would get them (without headers and padding).
};

enum class DiskState : std::uint8_t { kOk = 0, kReadOnly = 1, kQuarantined = 2 };

struct DiskUsage {
  std::string path;
  DiskState state = DiskState::kOk;
  std::uint64_t used_bytes =
      0;  ///< On disk: records with headers and padding, without punched holes.
  std::uint64_t capacity_bytes = 0;
};

struct Evicted {
  std::uint64_t blocks = 0;
  std::uint64_t bytes = 0;  ///< Freed on disk.
};

/// A node's cached blocks, on its disks: segments of verified records (docs/STORE_FORMAT.md), an
/// index in memory and RocksDB as the index's durable copy. Survives kill -9 and power cuts: what
/// Read returns was verified against the checksums taken at Admit, or is not returned. Capacity is
/// a hard bound: the store evicts, it never answers ENOSPC.
///
/// All methods are thread-safe. Tasks resume on the caller's executor; blocking I/O runs on
/// `offload`.
class BlockStore {
 public:
  /// Creates or recovers the directories. kInvalid: another cluster's directory, a newer format, a
  /// directory in use by another process, one that cannot be created or written; nothing is changed
  /// then. `cluster` zero = accept any and remember it on first use.
  static Result<std::unique_ptr<BlockStore>> Open(BlockStoreOptions options, Uuid cluster,
                                                  Offload& offload);
  virtual ~BlockStore() = default;

  /// The cells that enclose `range`, verified. kNotFound: not here (also after a mismatch: one
  /// re-read, then the record is dropped and counted). Counts as a use of the block's link.
  virtual Task<Result<Cells>> Read(BlockId block, BlockRange range) = 0;

  /// Stores a whole block: data first, then index. `data.bytes.size()` == block.length, one
  /// checksum per cell. Ok when it is there already. kOverloaded: no space that may be freed for it
  /// (served without being kept); kInternal: the disks refuse to write.
  virtual Task<Status> Admit(Uuid link, BlockId block, Slice data,
                             std::vector<std::uint64_t> checksums) = 0;

  virtual bool Contains(const BlockId& block) const = 0;

  /// Frees blocks: those listed (absent ones are skipped), or all of a link. Waits for readers of
  /// each block to finish.
  virtual Task<Result<Evicted>> Evict(std::vector<BlockId> blocks) = 0;
  virtual Task<Result<Evicted>> EvictLink(Uuid link) = 0;

  virtual std::unordered_map<Uuid, LinkUsage> UsageByLink() const = 0;
  virtual std::vector<DiskUsage> Disks() const = 0;
  virtual std::uint64_t BlockCount() const = 0;

  /// Totals since Open, for metrics and heartbeats.
  struct Counters {
    std::atomic<std::uint64_t> admitted_blocks{0};
    std::atomic<std::uint64_t> admitted_bytes{0};
    std::atomic<std::uint64_t> refused_blocks{0};  ///< Admit answered kOverloaded.
    std::atomic<std::uint64_t> evicted_blocks{0};  ///< By the evictor, to make room.
    std::atomic<std::uint64_t> evicted_bytes{0};
    std::atomic<std::uint64_t> checksum_failures{0};
    std::atomic<std::uint64_t> read_errors{0};  ///< The disk could not read; the block is dropped.
    std::atomic<std::uint64_t> write_errors{0};
    std::atomic<std::uint64_t> recovered_blocks{0};
    std::atomic<std::uint64_t> dropped_at_recovery{0};
  };
  virtual const Counters& counters() const = 0;
  /// Evicted bytes by link (evictor only), totals since Open.
  virtual std::unordered_map<Uuid, std::uint64_t> EvictedBytesByLink() const = 0;

  /// Makes what was admitted durable (fdatasync of segments, flush of the index) and closes. No
  /// other call after it.
  virtual Status Close() = 0;
};

}  // namespace forebay
