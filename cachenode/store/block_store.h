#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "cachenode/store/cell_place.h"
#include "cachenode/store/disk_usage.h"
#include "cachenode/store/pin_steps.h"
#include "common/base/asio.h"
#include "common/base/buffer.h"
#include "common/base/deadline.h"
#include "common/base/offload.h"
#include "common/base/result.h"
#include "common/base/wall_clock.h"
#include "common/model/block_heat.h"
#include "common/model/block_id.h"
#include "common/model/block_loss.h"
#include "common/model/block_source.h"
#include "common/model/link.h"
#include "common/model/object_version.h"

namespace forebay {

/// One cache directory, on one disk.
struct CacheDirOptions {
  std::string path;
  std::uint64_t capacity_bytes =
      0;  ///< Hard bound on what Forebay uses there; 0 = 80 % of the file system's size.
};

/// What the cluster decided about one link.
struct LinkRule {
  static constexpr std::uint64_t kNoQuota = UINT64_MAX;

  Uuid link;
  std::uint64_t max_bytes = kNoQuota;  ///< Of its blocks here.
  std::vector<std::string> pins = {};  ///< As LinkSpec::pins.
  LinkPriority priority = LinkPriority::kNormal;
};

/// Which of the named blocks an eviction takes.
struct EvictFilter {
  std::chrono::hours unused_for{0};  ///< Only those that nobody has used for so long.
  bool dry_run = false;              ///< None; only say what would be.
};

struct BlockStoreOptions {
  std::vector<CacheDirOptions> dirs;
  /// What holds from the first moment on, as the node knew it when it stopped.
  std::vector<LinkRule> rules;
  std::uint64_t segment_bytes = 256ULL << 20;
  /// A link with a read or an admission in this time is in use: of its blocks only those make way
  /// that its jobs want less than the new one (VictimChoice), and none before a job has read any.
  /// After a start every link counts as used then.
  std::chrono::seconds link_in_use_for{600};
  /// Hours since 1970: when blocks were used last.
  std::function<std::uint32_t()> hour = [] {
    return static_cast<std::uint32_t>(UnixSeconds() / 3600);
  };
  /// What link_in_use_for is measured by; the times that are given to disks and waited for are not.
  std::function<TimePoint()> now = Clock::now;
  /// Told of each block that is gone from now on, and why; on any thread. Must not block.
  std::function<void(const BlockId& block, BlockLoss loss)> on_loss = [](const BlockId&,
                                                                         BlockLoss) {};
  /// Told when RoomVersion has gone up; as on_loss.
  std::function<void()> on_room = [] {};
};

struct LinkUsage {
  std::uint64_t blocks = 0;
  std::uint64_t bytes =
      0;  ///< Block bytes, as a reader would get them (without headers and padding).
  std::uint64_t pinned_bytes = 0;  ///< Of these.
  bool in_use = false;             ///< BlockStoreOptions::link_in_use_for has not passed.
};

/// What a step of a scrub has read.
struct Scrubbed {
  std::uint64_t blocks = 0;   ///< That match …
  std::uint64_t dropped = 0;  ///< … and that do not.
  std::uint64_t bytes = 0;    ///< Of both, on disk.
  bool pass_ended = false;    ///< All blocks of the disk have been read; the next step begins anew.

  Scrubbed& operator+=(const Scrubbed& other) {
    blocks += other.blocks;
    dropped += other.dropped;
    bytes += other.bytes;
    return *this;
  }
};

struct Evicted {
  std::uint64_t blocks = 0;
  std::uint64_t bytes = 0;          ///< Freed on disk.
  std::uint64_t pinned_blocks = 0;  ///< That stay because they are pinned …
  std::uint64_t pinned_bytes = 0;   ///< … and their bytes on disk.

  Evicted& operator+=(const Evicted& other) {
    blocks += other.blocks;
    bytes += other.bytes;
    pinned_blocks += other.pinned_blocks;
    pinned_bytes += other.pinned_bytes;
    return *this;
  }
};

/// Which room a new block may take.
enum class Room : std::uint8_t {
  kMayEvict = 0,  ///< What is free, or what the evictor gives away for it.
  kFreeOnly = 1,  ///< Nothing leaves for it.
  /// What is free, or what links of lower priority or that nobody uses hold; nothing of its own
  /// link leaves for it.
  kMayEvictIdle = 2,
};

/// Descriptors that a store keeps for its segments at most: half of those that the process may
/// have.
std::size_t SegmentDescriptors();

/// A node's cached blocks, on its disks: segments of verified records (docs/STORE_FORMAT.md), an
/// index in memory and RocksDB as the index's durable copy. Survives kill -9 and power cuts: what
/// Read returns was verified against the checksums taken at Admit, or is not returned. Capacity is
/// a hard bound: the store evicts, it never answers ENOSPC.
///
/// All methods are thread-safe. Tasks resume on the caller's executor; blocking I/O runs on threads
/// that each disk has of its own, other lengthy work on `offload`. No Task waits for a disk that
/// hangs longer than it takes Watch to notice.
class BlockStore {
 public:
  /// Creates or recovers the directories. kInvalid: another cluster's directory, a newer format, a
  /// directory in use by another process, one that cannot be created or written; nothing is changed
  /// then. `cluster` zero = accept any and remember it on first use.
  static Result<std::unique_ptr<BlockStore>> Open(BlockStoreOptions options, Uuid cluster,
                                                  Offload& offload);
  virtual ~BlockStore() = default;

  /// `job` reads the block, through `link`: what a full cache keeps follows from the reads of all
  /// jobs. Before Read, and before the Admit that the read leads to. That of a cached block is left
  /// out where it would have to wait for another thread.
  virtual void NoteRead(const Uuid& link, const BlockId& block, std::string_view job) = 0;

  /// The cells that enclose `range`, verified. kNotFound: not here (also after a mismatch: one
  /// re-read, then the record is dropped and counted). kTimeout: its disk does not answer; it may
  /// be there later. Counts as a use of the block's link.
  virtual Task<Result<Cells>> Read(BlockId block, BlockRange range) = 0;

  /// Where the cells that enclose `range` lie. Nothing: not here, or perhaps not in memory, which
  /// Read finds out. Does not block, and nothing holds the place: the block may be gone in the next
  /// moment, and whoever reads the file compares with the checksums. Segments are never written
  /// again, so that the bytes are right or no block's. Counts as a use of the block and its link.
  virtual std::optional<CellPlace> Place(const BlockId& block, BlockRange range) = 0;
  /// The places of at most so many blocks whose records lie behind that of `block`, which a reader
  /// of it may want next: of small blocks, whose headers are in memory. As with Place, but nothing
  /// counts as used.
  virtual std::vector<PlacedBlock> PlacesBehind(const BlockId& block, std::size_t most) = 0;
  /// Who knew the place has read there: a use of block and link. False: not to be read there now.
  virtual bool Use(const BlockId& block, std::uint64_t segment) = 0;
  /// The file that a block lies in, which holds blocks of one link only. Nothing: not here, or not
  /// open now. Does not block.
  virtual std::optional<SegmentHandle> FileOf(const BlockId& block) = 0;

  /// Stores a whole block: data first, then index. `data.bytes.size()` == block.length, one
  /// checksum per cell; `path` is its object's, from the link's root: it decides whether the block
  /// is pinned. Ok when it is there already. kOverloaded: no space that may be freed for it, within
  /// its link's quota (served without being kept); kInternal: the disks refuse to write.
  virtual Task<Status> Admit(Uuid link, BlockId block, Slice data,
                             std::vector<std::uint64_t> checksums, std::string path, Room room) = 0;
  /// Whether blocks of the link that take `bytes` on disk would find room that is free now, on one
  /// disk and within the link's quota. Does not block.
  virtual bool HasFreeRoom(const Uuid& link, std::uint64_t bytes) const = 0;
  /// Whether the link's quota leaves room for `bytes` of blocks. Does not block.
  virtual bool QuotaLeaves(const Uuid& link, std::uint64_t bytes) const = 0;
  /// Goes up when room was made, but for a block that needed it: by an eviction, a decision about a
  /// link, another size of a disk. What was refused before may find room now. Does not block.
  virtual std::uint64_t RoomVersion() const = 0;

  /// Reads the whole block from its disk, past the page cache, and compares it with its checksums.
  /// kNotFound: not here. kCorrupt: it does not match, and not when it is read once more; dropped
  /// and counted. No use of its link.
  virtual Task<Status> Verify(BlockId block) = 0;

  /// A step of reading and comparing all blocks of a disk, in turn, as Verify does: at least
  /// `bytes` unless the pass ends before. `disk` is a place in Disks(). One call at a time for each
  /// disk.
  virtual Task<Result<Scrubbed>> Scrub(std::size_t disk, std::uint64_t bytes) = 0;

  /// Looks whether the disk of Disks() is still what was opened. One that is quarantined or
  /// read-only is probed when that is due at `now`, and taken back into service after enough clean
  /// probes. To be called about once a second; one call at a time for each disk.
  virtual Task<Status> Tend(std::size_t disk, TimePoint now) = 0;

  /// From now on the disk of Disks() may use so much, without a restart; 0 = 80 % of its file
  /// system. It takes nothing beyond that any more; what is there already leaves with Shrink, and
  /// until then Disks() says the old capacity. kInvalid: its file system, its pinned blocks or a
  /// block and the index do not fit; nothing is changed then. Once and again is the same as once.
  virtual Task<Status> Resize(std::size_t disk, std::uint64_t capacity_bytes) = 0;
  /// A step towards the capacity of a disk that has more: evicts at most `blocks` of what is not
  /// pinned, of links of the lowest priority first and among them the longest unused. To be called
  /// now and then for each disk; does nothing on one that is not too full. One call at a time for
  /// each disk.
  virtual Task<Result<Evicted>> Shrink(std::size_t disk, std::size_t blocks) = 0;

  /// Notices disks that hang and gives up what waits for them. Does not block. To be called about
  /// every tenth of a second.
  virtual void Watch(TimePoint now) = 0;

  virtual bool Contains(const BlockId& block) const = 0;
  /// Of a cached block of the link; kCold when it is not here. Use is known as for Evict.
  virtual BlockHeat HeatOf(const Uuid& link, const BlockId& block) const = 0;

  /// Frees blocks: those listed (absent ones are skipped), or all of a link; pinned ones stay and
  /// are counted. Waits for readers of each block to finish. When a block was used last is known to
  /// the hour, and since the store was opened: before that, all count as used then.
  virtual Task<Result<Evicted>> Evict(std::vector<BlockId> blocks, EvictFilter filter) = 0;
  virtual Task<Result<Evicted>> EvictLink(Uuid link, EvictFilter filter) = 0;

  /// What holds from now on for all links; one that is not named has no quota and no new pins.
  /// True: a link has more than its quota here, which TrimToQuotas frees.
  virtual bool SetRules(const std::vector<LinkRule>& rules) = 0;
  /// Frees the oldest unpinned blocks of each link that is over its quota.
  virtual Task<Result<Evicted>> TrimToQuotas() = 0;

  /// Takes over the pins of blocks that are here already; of later ones the rules decide. Durable.
  /// Pinned blocks are only lost when they are damaged, when a smaller capacity leaves no room, or
  /// by Release.
  virtual Task<Status> TakePins(PinStep step) = 0;
  /// Here, and pinned: by itself or with its whole link. Does not block.
  virtual bool IsPinned(const BlockId& block) const = 0;
  /// A step of looking at all pinned blocks of a link: of its first segment at `from` or behind it
  /// those that nobody has used for so long, as Evict knows it.
  virtual Task<Result<PinnedPart>> PinnedAt(Uuid link, SegmentPlace from,
                                            std::chrono::hours unused_for) = 0;
  /// Frees these blocks, though they are pinned, unless they were used since. `keep` is asked of
  /// each when nobody finds it here any more: true, and it stays after all. Must not block.
  virtual Task<Result<Evicted>> Release(std::vector<BlockId> blocks, std::chrono::hours unused_for,
                                        std::function<bool(const BlockId&)> keep) = 0;
  /// The version of the last complete take-over by link, where all disks have it.
  virtual std::unordered_map<Uuid, std::uint64_t> PinsVersions() const = 0;

  virtual std::unordered_map<Uuid, LinkUsage> UsageByLink() const = 0;
  virtual std::vector<DiskUsage> Disks() const = 0;
  virtual std::uint64_t BlockCount() const = 0;
  /// Blocks that the program crashed on too often: never read from a disk nor admitted, until they
  /// are evicted one by one or a week has passed.
  virtual std::uint64_t SetAsideCount() const = 0;
  virtual bool IsSetAside(const BlockId& block) const = 0;

  /// Totals since Open, for metrics and heartbeats.
  struct Counters {
    std::atomic<std::uint64_t> reads_in_place{0};   ///< Out of memory, on the reader's thread.
    std::atomic<std::uint64_t> reads_elsewhere{0};  ///< On another thread: the disk was asked.
    std::atomic<std::uint64_t> places{0};           ///< Place had an answer.
    std::atomic<std::uint64_t> uses{0};             ///< Use was told of a read.
    std::atomic<std::uint64_t> lock_waits{0};       ///< Lookups that took the index's lock.
    std::atomic<std::uint64_t> reads_not_noted{0};  ///< NoteRead would have had to wait.
    std::atomic<std::uint64_t> admitted_blocks{0};
    std::atomic<std::uint64_t> admitted_bytes{0};
    std::atomic<std::uint64_t> refused_blocks{0};  ///< Admit answered kOverloaded.
    std::atomic<std::uint64_t> evicted_blocks{0};  ///< By the evictor, to make room.
    std::atomic<std::uint64_t> evicted_bytes{0};
    std::atomic<std::uint64_t> trimmed_bytes{0};   ///< Freed because a link was over its quota.
    std::atomic<std::uint64_t> released_bytes{0};  ///< Freed by Release.
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
  /// other call after it but the destructor. kTimeout: a disk still hangs at `deadline`; then the
  /// destructor would wait for it.
  virtual Status Close(Deadline deadline) = 0;
};

}  // namespace forebay
