#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <unordered_map>
#include <vector>

#include "cachenode/store/block_store.h"
#include "cachenode/store/disk.h"
#include "cachenode/store/eviction.h"
#include "cachenode/store/victim_choice.h"
#include "common/base/notifier.h"
#include "common/base/single_flight.h"

namespace forebay {

/// BlockStore over disks: chooses the disk of a new block and the victims that make room for it,
/// and reads a block where it lies. Built with BlockStore::Open.
class SegmentStore final : public BlockStore {
 public:
  static Result<std::unique_ptr<SegmentStore>> Open(const BlockStoreOptions& options,
                                                    const Uuid& cluster, Offload& offload);

  void NoteRead(const Uuid& link, const BlockId& block, std::string_view job) override;
  Task<Result<Cells>> Read(BlockId block, BlockRange range) override;
  Task<Status> Admit(Uuid link, BlockId block, Slice data, std::vector<std::uint64_t> checksums,
                     std::string path, Room room) override;
  bool HasFreeRoom(const Uuid& link, std::uint64_t bytes) const override;
  Task<Status> Verify(BlockId block) override;
  Task<Result<Scrubbed>> Scrub(std::size_t disk, std::uint64_t bytes) override;
  Task<Status> Tend(std::size_t disk, TimePoint now) override;
  bool Contains(const BlockId& block) const override;
  Task<Result<Evicted>> Evict(std::vector<BlockId> blocks, EvictFilter filter) override;
  Task<Result<Evicted>> EvictLink(Uuid link, EvictFilter filter) override;
  bool SetRules(const std::vector<LinkRule>& rules) override;
  Task<Result<Evicted>> TrimToQuotas() override;
  Task<Status> TakePins(PinStep step) override;
  std::unordered_map<Uuid, std::uint64_t> PinsVersions() const override;
  std::unordered_map<Uuid, LinkUsage> UsageByLink() const override;
  std::vector<DiskUsage> Disks() const override;
  std::uint64_t BlockCount() const override;
  const Counters& counters() const override { return parts_.counters; }
  std::unordered_map<Uuid, std::uint64_t> EvictedBytesByLink() const override;
  Status Close() override;

 private:
  /// An admission that others of the same block wait for.
  struct Flight {
    std::mutex mutex;
    std::optional<Status> landed;
    Notifier done;
  };
  class ReadPin;
  /// Blocks whose removal is one batch in the index.
  static constexpr std::size_t kRemoveAtOnce = 256;
  static constexpr int kRoomAttempts = 4;  ///< Others may take the room that was made.
  struct NewBlock {
    Uuid link;
    BlockId block;
    Slice data;
    std::vector<std::uint64_t> checksums;
    std::string path;
    Room room = Room::kMayEvict;
  };

  SegmentStore(const BlockStoreOptions& options, Offload& offload);

  // Reading.
  Result<Cells> ReadFromDisk(const BlockIndex::Found& found, BlockRange range,
                             std::unique_ptr<RecordReader> reader);
  Status VerifyNow(const BlockId& block);
  Status VerifyOnDisk(const BlockIndex::Found& found);
  RecordReader::Outcome ReadPastCache(const BlockIndex::Found& found);
  Scrubbed ScrubNow(Disk& disk, std::uint64_t bytes);
  void Drop(const BlockIndex::Found& found, RecordReader::Outcome outcome);
  Result<Cells> Absent(const BlockId& block) const;

  // Admitting; all of it blocks.
  Status AdmitNow(const NewBlock& block);
  Status AdmitWithinQuota(const NewBlock& block, const std::shared_ptr<LinkState>& link,
                          bool path_pinned);
  bool HoldRoom(LinkState& link, const BlockId& block, bool pinned);
  bool MakeRoomInQuota(LinkState& link, const BlockId& block);
  Status AdmitWithoutEvicting(const NewBlock& block, const std::shared_ptr<LinkState>& link,
                              bool path_pinned);
  bool MakeRoom(const LinkUse& newcomer, const BlockId& block);
  bool MakeRoomByWorth(const Uuid& link, const BlockId& block);
  std::optional<BlockIndex::Found> TakeVictim(const Uuid& link, const BlockId& block,
                                              const VictimChoice::Draw& draw);
  Result<Disk::Removal> Evict(Disk& disk, const std::vector<BlockIndex::Found>& leaving);
  bool MakeRoomOn(Disk& disk, const std::vector<Uuid>& victims, std::uint64_t bytes);
  void ForgetOnLostDisk(const BlockId& block);
  std::vector<Disk*> WritableDisks() const;

  // Evicting.
  using Waiting = std::vector<BlockPlace>;
  struct Removed {
    Evicted evicted;
    Waiting waiting;
  };
  Result<Removed> RemoveAll(const std::vector<BlockIndex::Found>& leaving, BlockLoss loss);
  /// What an eviction spares.
  BlockIndex::Spare SpareOf(const EvictFilter& filter) const;
  /// Adds what `removal` says to `taken` or to the sums; with dry_run it is only counted.
  static void Count(const BlockIndex::Removal& removal, bool dry_run,
                    std::vector<BlockIndex::Found>& taken, Evicted& sum);
  Result<Removed> RemoveBlocks(const std::vector<BlockId>& blocks, const EvictFilter& filter);
  Result<Removed> RemoveSegment(std::size_t disk, std::uint32_t segment, const EvictFilter& filter);
  Result<Evicted> TrimNow();
  std::uint64_t TrimOn(Disk& disk, LinkState& link, std::uint64_t bytes, Evicted& sum);

  // Pins.
  Status TakePinsNow(const PinStep& step);
  Status PinBlocks(const std::vector<BlockId>& blocks);
  Status SweepPins(LinkState& link, std::uint64_t version);

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
