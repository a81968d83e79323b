#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <unordered_map>
#include <vector>

#include "cachenode/store/arrivals.h"
#include "cachenode/store/block_store.h"
#include "cachenode/store/disk.h"
#include "cachenode/store/eviction.h"
#include "cachenode/store/leaving_blocks.h"
#include "cachenode/store/victim_choice.h"
#include "common/base/notifier.h"
#include "common/base/single_flight.h"

namespace forebay {

/// BlockStore over disks: chooses the disk of a new block and the victims that make room for it,
/// and reads a block where it lies. What touches a disk runs on that disk's lanes, so that one that
/// hangs holds up no other. Built with BlockStore::Open.
class SegmentStore final : public BlockStore {
 public:
  static Result<std::unique_ptr<SegmentStore>> Open(const BlockStoreOptions& options,
                                                    const Uuid& cluster, Offload& offload);
  ~SegmentStore() override;

  void NoteRead(const Uuid& link, const BlockId& block, std::string_view job) override;
  Task<Result<Cells>> Read(BlockId block, BlockRange range) override;
  std::optional<CellPlace> Place(const BlockId& block, BlockRange range) override;
  std::vector<PlacedBlock> PlacesBehind(const BlockId& block, std::size_t most) override;
  bool Use(const BlockId& block, std::uint64_t segment) override;
  std::optional<SegmentHandle> FileOf(const BlockId& block) override;
  Task<Status> Admit(Uuid link, BlockId block, Slice data, std::vector<std::uint64_t> checksums,
                     std::string path, Room room) override;
  bool HasFreeRoom(const Uuid& link, std::uint64_t bytes) const override;
  bool QuotaLeaves(const Uuid& link, std::uint64_t bytes) const override {
    return parts_.links.RoomLeft(link) >= bytes;
  }
  std::uint64_t RoomVersion() const override { return parts_.room_version.load(); }
  Task<Status> Verify(BlockId block) override;
  Task<Result<Scrubbed>> Scrub(std::size_t disk, std::uint64_t bytes) override;
  Task<Status> Tend(std::size_t disk, TimePoint now) override;
  Task<Status> Resize(std::size_t disk, std::uint64_t capacity_bytes) override;
  Task<Result<Evicted>> Shrink(std::size_t disk, std::size_t blocks) override;
  void Watch(TimePoint now) override;
  bool Contains(const BlockId& block) const override;
  BlockHeat HeatOf(const Uuid& link, const BlockId& block) const override;
  Task<Result<Evicted>> Evict(std::vector<BlockId> blocks, EvictFilter filter) override;
  Task<Result<Evicted>> EvictLink(Uuid link, EvictFilter filter) override;
  bool SetRules(const std::vector<LinkRule>& rules) override;
  Task<Result<Evicted>> TrimToQuotas() override;
  Task<Status> TakePins(PinStep step) override;
  bool IsPinned(const BlockId& block) const override;
  Task<Result<PinnedPart>> PinnedAt(Uuid link, SegmentPlace from,
                                    std::chrono::hours unused_for) override;
  Task<Result<Evicted>> Release(std::vector<BlockId> blocks, std::chrono::hours unused_for,
                                std::function<bool(const BlockId&)> keep) override;
  std::unordered_map<Uuid, std::uint64_t> PinsVersions() const override;
  std::unordered_map<Uuid, LinkUsage> UsageByLink() const override;
  std::vector<DiskUsage> Disks() const override;
  std::uint64_t BlockCount() const override;
  std::uint64_t SetAsideCount() const override { return parts_.crashes.size(); }
  bool IsSetAside(const BlockId& block) const override { return parts_.crashes.IsSetAside(block); }
  const Counters& counters() const override { return parts_.counters; }
  std::unordered_map<Uuid, std::uint64_t> EvictedBytesByLink() const override;
  Status Close(Deadline deadline) override;

 private:
  /// An admission that others of the same block wait for.
  struct Flight {
    std::mutex mutex;
    std::optional<Status> landed;
    Notifier done;
  };
  /// Blocks whose removal is one batch in the index.
  static constexpr std::size_t kRemoveAtOnce = 256;
  static constexpr int kRoomAttempts = 16;  ///< Others may take the room that was made.

  SegmentStore(const BlockStoreOptions& options, Offload& offload);
  static Status CheckBlock(const BlockId& block);

  // Reading. All but Absent blocks.
  struct DiskRead {
    RecordReader::Outcome outcome = RecordReader::Outcome::kIoError;
    Cells cells;
  };
  DiskRead ReadFromDisk(const BlockIndex::Found& found, BlockRange range,
                        std::unique_ptr<RecordReader> reader);
  Status VerifyNow(const BlockIndex::Found& found);
  Status VerifyOnDisk(const BlockIndex::Found& found);
  RecordReader::Outcome ReadPastCache(const BlockIndex::Found& found);
  Scrubbed ScrubNow(Disk& disk, std::uint64_t bytes);
  void NoteFailure(const BlockIndex::Found& found, RecordReader::Outcome outcome);
  void Drop(const BlockIndex::Found& found);
  Result<Cells> Absent(const BlockId& block) const;

  // Admitting. What is no Task blocks, on a lane of its disk.
  Task<Status> AdmitNow(Newcomer block);
  Task<Status> AdmitWithinQuota(Newcomer block);
  using Hold = std::shared_ptr<QuotaHold>;   // null: the quota has no room
  using Claim = std::shared_ptr<RoomClaim>;  // null: there is no room
  Task<Hold> MakeRoomToHold(Newcomer block, bool pinned);
  Task<Status> AdmitWithoutEvicting(Newcomer block, Hold hold, Claim claim);
  Task<Claim> MakeRoom(LinkUse newcomer, Newcomer block);
  /// Which links may make room on a disk: those of lower priority than the newcomer's, or all.
  enum class Ranks : std::uint8_t { kLower, kAll };
  Task<Claim> MakeRoomByLinks(LinkUse newcomer, std::uint64_t bytes, Ranks ranks);
  bool HasLowerLinks(LinkPriority priority) const;
  Task<Claim> MakeRoomByWorth(Newcomer block);
  Result<LeavingBlocks> ChooseByWorth(const LinkState& link, const BlockId& block);
  Task<bool> MakeRoomInQuota(Newcomer block);
  Task<bool> TrimForPinned(Newcomer block);
  Result<std::vector<LeavingBlocks>> ChooseInQuota(const LinkState& link, const BlockId& block);
  std::optional<BlockIndex::Found> TakeVictim(const Uuid& link, const BlockId& block,
                                              const VictimChoice::Draw& draw);
  Result<Disk::Removal> Evict(Disk& disk, const std::vector<BlockIndex::Found>& leaving);
  Claim MakeRoomOn(Disk& disk, const std::vector<Uuid>& victims, std::uint64_t bytes);
  Task<void> ForgetOnLostDisk(BlockId block);
  std::vector<Disk*> WritableDisks() const;
  Result<Evicted> ShrinkNow(Disk& disk, std::size_t blocks);

  // Evicting.
  using Waiting = std::vector<BlockPlace>;
  struct Removed {
    Evicted evicted;
    Waiting waiting;

    Removed& operator+=(const Removed& other) {
      evicted += other.evicted;
      waiting.insert(waiting.end(), other.waiting.begin(), other.waiting.end());
      return *this;
    }
  };
  /// What was chosen: which blocks go, each on its disk, and what else is to be counted.
  struct Chosen {
    std::vector<LeavingBlocks> leaving;
    Evicted counted;
  };
  Result<Removed> RemoveFrom(Disk& disk, const std::vector<BlockIndex::Found>& leaving,
                             BlockLoss loss);
  /// What an eviction spares.
  BlockIndex::Spare SpareOf(const EvictFilter& filter) const;
  /// Adds what `removal` says to `taken` or to the sums; with dry_run it is only counted.
  static void Count(const BlockIndex::Removal& removal, bool dry_run,
                    std::vector<BlockIndex::Found>& taken, Evicted& sum);
  Result<Chosen> ChooseBlocks(const std::vector<BlockId>& blocks, const EvictFilter& filter);
  std::vector<LeavingBlocks> ByDisk(const std::vector<BlockIndex::Found>& leaving) const;
  Task<Result<Removed>> RemoveChosen(std::vector<LeavingBlocks> leaving, BlockLoss loss);
  Result<Removed> RemoveSegment(std::size_t disk, std::uint32_t segment, const EvictFilter& filter);
  std::uint64_t TrimOn(Disk& disk, LinkState& link, std::uint64_t bytes, Evicted& sum);

  // Pins.
  Status UnmarkPins(const Uuid& link);
  Task<Status> PinBlocks(std::vector<BlockId> blocks);
  Task<Status> SweepPins(std::shared_ptr<LinkState> link, std::uint64_t version);
  Status SweepPinsOn(Disk& disk, const Uuid& link, std::uint64_t version);
  PinnedPart PinnedNow(const Uuid& link, SegmentPlace from, std::chrono::hours unused_for);
  Result<std::vector<LeavingBlocks>> ChooseReleased(
      const std::vector<BlockId>& blocks, std::chrono::hours unused_for,
      const std::function<bool(const BlockId&)>& keep);

  Task<Status> WaitUntilFreed(Waiting waiting);

  const BlockStoreOptions options_;
  Offload& offload_;
  StoreParts parts_;
  const std::unique_ptr<const EvictionPolicy> policy_;
  VictimChoice choice_{parts_.index, parts_.history};
  std::vector<std::unique_ptr<Disk>> disks_;
  SingleFlight<BlockId, Flight> admissions_;
};

}  // namespace forebay
