#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "cachenode/store/arrivals.h"
#include "cachenode/store/block_index.h"
#include "cachenode/store/block_store.h"
#include "cachenode/store/cache_directory.h"
#include "cachenode/store/disk_health.h"
#include "cachenode/store/disk_lane.h"
#include "cachenode/store/disk_probation.h"
#include "cachenode/store/eviction.h"
#include "cachenode/store/index_db.h"
#include "cachenode/store/record_reader.h"
#include "cachenode/store/segment_file.h"
#include "cachenode/store/store_parts.h"
#include "common/base/result.h"

namespace forebay {

/// One cache directory: its segments, their space, and the state of the disk below. All I/O blocks:
/// the store calls it on the disk's own lanes, except where said otherwise. No lock that a call
/// which does not block takes is held over I/O. Thread-safe.
class Disk {
 public:
  /// Recovers the directory. `number` names it in the index. kInvalid as BlockStore::Open.
  static Result<std::unique_ptr<Disk>> Open(const CacheDirOptions& options, const Uuid& cluster,
                                            std::uint8_t number, StoreParts& parts);

  // --- Admitting: data, durable index, then memory. From then on the block can be read.

  /// Adds a block; `own` was entered into arrivals(). What else waits there is added with it.
  /// kOverloaded: no room without evicting. kInternal: the disk refuses to write. kTimeout: it was
  /// given up meanwhile, and is not there.
  Status Admit(const std::shared_ptr<Arrival>& own);
  Arrivals& arrivals() { return arrivals_; }  ///< Does not block.

  // --- Removing. A block that is being read is removed at once and freed by its last reader.

  struct Removal {
    Evicted evicted;
    std::vector<BlockPlace> waiting;  ///< Not freed yet.
  };
  /// `leaving` come from BlockIndex::BeginRemove and lie on this disk.
  Result<Removal> Remove(const std::vector<BlockIndex::Found>& leaving, BlockLoss loss);
  /// Instead of Remove: they stay. Does not block.
  void CancelRemoval(const std::vector<BlockIndex::Found>& leaving);
  /// The oldest block of a link that can still be removed, and is not pinned; begins its removal.
  std::optional<BlockIndex::Found> BeginRemoveOldest(const Uuid& link);
  /// A block of a link that is not pinned, and that `random` (64 random bits) chooses: a segment,
  /// and one of its blocks. Empty when it meets a place without one.
  std::optional<BlockIndex::Found> Pick(const Uuid& link, std::uint64_t random) const;
  /// BeginRemoveOldest begins again at the first block: what it passed over is pinned no more.
  void LookAgain(const Uuid& link);
  /// A block's last reader has gone. Does not block; FreeReleased does the work.
  void Release(const BlockPlace& place, std::uint32_t length);
  void FreeReleased();
  bool IsFreed(const BlockPlace& place) const;
  /// Takes a leaving block out of the memory of a quarantined disk, which is not to be touched: its
  /// row and its space go when the disk comes back. False: the disk is back already, and the block
  /// is to be removed. Does not block.
  bool Forget(const BlockIndex::Found& leaving);

  // --- Looking through a link, segment by segment.

  std::vector<std::uint32_t> SegmentsOf(const Uuid& link) const;
  /// Every block that lies there; some handles may have gone on to other blocks.
  std::vector<BlockHandle> BlocksIn(std::uint32_t segment) const;
  /// Null when there is no such segment.
  std::shared_ptr<LinkState> LinkOf(std::uint32_t segment) const;

  // --- Pins: what BlockIndex says, made durable and counted.

  Status PutPins(const std::vector<BlockIndex::Found>& pinned);
  Status EndPins(const Uuid& link, std::uint64_t version,
                 const std::vector<BlockIndex::Found>& unpinned);
  /// Of the last complete take-over; 0 = there was none.
  std::uint64_t PinsVersion(const Uuid& link) const;
  std::vector<Uuid> LinksWithPinsVersion() const;

  // --- Reading.

  /// What the record at `found` must say. `link` is its segment's.
  ExpectedRecord Expect(const BlockIndex::Found& found, const Uuid& link) const;
  /// Opens the segment, or finds it open. Null: it cannot be opened.
  std::shared_ptr<const SegmentFile> OpenSegment(std::uint32_t segment);
  /// Counts a read that failed; one too many quarantines the disk. Does not block.
  void ReadFailed();

  // --- Its threads, and its health.

  DiskLane& reads() { return reads_; }  ///< For what a reader waits for.
  DiskLane& work() { return work_; }    ///< For all else, so that no reader waits behind a write.
  /// Gives up calls that take too long, and takes a disk that does not answer out of service: one
  /// that does not read is quarantined, one that does not write is as if read-only. Does not block;
  /// to be called every tenth of a second.
  void Watch(TimePoint now);
  /// Threads are in calls that were given up: the lanes cannot be joined.
  bool Hangs() const { return reads_.Hangs() || work_.Hangs(); }
  /// Quarantines a disk whose directory is not the one that was opened any more.
  void CheckPlace();
  // A disk that is out of service is probed, and comes back after enough clean probes
  // (DiskProbation). One user at a time.
  bool ProbeIsDue(TimePoint now);  ///< Does not block.
  /// A page is written, made durable and read back.
  Status Probe();
  /// True: ReturnToService. Does not block.
  bool Probed(bool clean, TimePoint now) { return probation_.Probed(clean, now); }
  void ReturnToService();

  // --- Scrubbing. One user at a time, but for CountScrubbed.

  /// The next block to be read and compared; goes on where it was before a restart. Empty: a pass
  /// over all segments has ended, and the next call begins another.
  std::optional<BlockId> NextToScrub();
  void CountScrubbed(std::uint64_t bytes) { scrubbed_.fetch_add(bytes, std::memory_order_relaxed); }
  /// For reading what the disk has, not the kernel's copy of it. Empty: errno says why; EINVAL: the
  /// file system cannot.
  FileDescriptor OpenPastCache(std::uint32_t segment) const;

  // --- Its size, changed while it serves. Only Resize, as BlockStore::Resize, blocks.

  Status Resize(std::uint64_t capacity_bytes);
  /// It was made smaller, and what is to leave has not left.
  bool IsShrinking() const { return announced_.load() != capacity_.load(); }
  std::uint64_t Surplus() const;  ///< What it holds beyond what it may.
  void EndShrinking();            ///< From now on Usage says the new capacity.

  // --- Space. Does not block.

  bool HasRoom(std::uint64_t bytes) const;
  bool CanHold(std::uint64_t bytes) const { return bytes <= Limit(); }  ///< Were all else evicted.
  std::shared_ptr<RoomClaim> Claim(std::uint64_t bytes);                ///< Null: no room.
  std::uint64_t FreeBytes() const;
  double FreeShare() const;  ///< The part of the capacity that is free, for choosing a disk.
  /// The links with blocks here.
  std::vector<LinkUse> Links() const;
  DiskState state() const { return state_.load(std::memory_order_relaxed); }
  DiskUsage Usage() const;
  std::uint8_t number() const { return number_; }

  /// Makes everything durable and closes. No other call after it but those of the lanes.
  Status Close();

 private:
  /// Where a new record goes.
  struct Place {
    std::shared_ptr<Segment> segment;
    std::uint64_t position = 0;
    std::uint64_t bytes = 0;
  };
  using Segments = std::map<std::uint32_t, std::shared_ptr<Segment>>;
  struct Freed {
    BlockPlace place;
    std::uint64_t bytes = 0;
  };
  /// A record that recovery keeps, by its segment.
  struct Kept {
    std::uint32_t unit = 0;
    std::uint32_t length = 0;
    BlockHandle handle = 0;
  };

  Disk(const CacheDirOptions& options, CacheDirectory directory, std::uint8_t number,
       StoreParts& parts);

  // disk_recovery.cc
  Status SetCapacity();
  Result<std::uint64_t> CheckedCapacity(std::uint64_t wanted) const;
  Status Recover();
  Status RecoverPins();
  void Adopt(const SegmentOnDisk& on_disk, std::vector<Kept>& records);
  /// Answers the bytes that could not be given back.
  std::uint64_t PunchGaps(const SegmentOnDisk& on_disk, const std::vector<Kept>& records);
  Status ShrinkToCapacity();
  Status ShrinkSegment(std::uint32_t number, bool pinned_too);

  // disk_admit.cc
  struct Landing;
  std::vector<Status> AdmitAll(std::span<const std::shared_ptr<Arrival>> arrivals);
  Landing Prepare(Arrival& arrival);
  void WriteAll(std::span<Landing> landings);
  void WriteRun(std::span<Landing> run);
  void GiveBack(std::span<Landing> landings, const Status& failed);
  void CommitAll(std::span<Landing> landings);
  static IndexedRecord RecordOf(const Landing& landing);
  Status Show(const Landing& landing);
  /// What was written there is no record. Its place stays empty for ever.
  void Abandon(const Place& place);

  // disk.cc
  Result<Place> Reserve(const Arrival& arrival);
  int OpenForWriting(const std::shared_ptr<LinkState>& link);
  void FinishWriter(const std::shared_ptr<Segment>& segment);
  void Seal(const std::shared_ptr<Segment>& segment);
  void WriteBackBehind(const Place& place);
  void CountWriteError(int error);
  Status WriteFailed(int error, const std::string& step);
  void IoFailed();
  void Quarantine(const std::string& why);
  void StopWriting(const std::string& why);

  // disk_return.cc
  void SealAll();
  Status ComeBack();
  bool Owe(std::span<const Freed> freed);

  // disk_resize.cc
  std::uint64_t PinnedBytes() const;
  std::uint64_t PinnedBytesIn(std::uint32_t segment) const;

  // disk_scrub.cc
  std::optional<std::uint32_t> SegmentFrom(std::uint64_t number) const;
  void NoteScrub(std::uint32_t segment);

  // disk_space.cc
  std::uint64_t LimitOf(std::uint64_t capacity) const;
  std::uint64_t Limit() const;
  std::uint64_t Taken() const;
  void MeasureIndex();
  void Squeeze();
  void Unsqueeze();
  void Free(std::span<const Freed> freed);
  void Uncount(const BlockIndex::Found& leaving);
  Status DeleteRows(const std::vector<BlockIndex::Found>& gone);
  bool Detach(const Freed& freed, std::shared_ptr<Segment>& segment);
  void FinishFreeing(const std::shared_ptr<Segment>& segment, std::uint64_t bytes, int error);
  void ForgetSegment(const Segment& segment);
  void Drop(const std::shared_ptr<Segment>& segment);
  void DropStaleHandles(Segment& segment) const;

  const std::string path_;
  const std::uint8_t number_;
  const CacheDirectory directory_;
  const std::uint64_t seed_;
  StoreParts& parts_;
  std::atomic<std::uint64_t> capacity_;      ///< What it keeps to.
  std::atomic<std::uint64_t> announced_{0};  ///< What it says: more, while it is shrinking.
  std::uint64_t write_buffer_ = 0;           ///< Of the index, as it was opened.
  std::unique_ptr<IndexDb> db_;

  std::atomic<DiskState> state_{DiskState::kOk};
  /// Records, slack and reservations; and of the rest what is claimed, which grows under mutex_.
  std::atomic<std::uint64_t> used_{0}, claimed_{0};
  std::atomic<std::uint64_t> index_bytes_{0}, written_since_measured_{0};
  /// When other users have filled the file system: what we may use at most.
  std::atomic<std::uint64_t> squeezed_to_{UINT64_MAX};
  std::atomic<Duration> unsqueeze_at_{};
  std::atomic<bool> sync_failed_{false};
  struct {
    std::atomic<std::uint64_t> read{0}, write{0}, full{0}, hang{0}, gone{0};
  } errors_;

  Arrivals arrivals_;

  /// Held while a segment is made, which is I/O; taken before mutex_.
  std::mutex making_mutex_;
  std::uint32_t next_segment_ = 0;  ///< Guarded by it.

  mutable std::mutex mutex_;
  DiskHealth health_;
  Segments segments_;
  std::unordered_map<Uuid, std::vector<std::uint32_t>> by_link_;  // segments in ascending order
  std::unordered_map<Uuid, std::shared_ptr<Segment>> open_;
  std::unordered_map<Uuid, std::uint64_t> pins_versions_;

  // NextToScrub's alone: the blocks of one segment, and which segments come after it.
  std::uint64_t scrub_from_ = 0;
  std::vector<BlockId> scrub_blocks_;
  std::size_t scrub_next_ = 0;
  std::atomic<std::uint64_t> scrubbed_{0};

  DiskProbation probation_;
  // What a disk out of service is owed. It comes back in the moment in which no row is owed any
  // more.
  std::mutex owed_mutex_;
  std::vector<BlockIndex::Found> owed_rows_;
  std::vector<Freed> owed_space_;

  mutable std::mutex release_mutex_;
  std::set<std::pair<std::uint32_t, std::uint32_t>> waiting_;  // (segment, unit) with readers
  std::vector<Freed> released_;

  // Last, so that their threads end first.
  DiskLane reads_;
  DiskLane work_;
};

}  // namespace forebay
