#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "cachenode/store/block_store.h"

namespace forebay::fakes {

/// A block store in memory, for tests of what stands on BlockStore. Every call yields to its
/// executor once, so that calls that run at once interleave. Thread-safe.
class MemoryBlockStore final : public BlockStore {
 public:
  /// From now on Admit answers `why` and keeps nothing; nothing = it keeps again.
  void RefuseAdmissions(std::optional<Error> why);
  /// From now on Read answers `why`, also for blocks that Contains knows: a disk that has failed.
  void RefuseReads(std::optional<Error> why);
  /// From now on so many bytes of blocks fit; where more are to be kept, others count as evicted.
  void LimitRoom(std::uint64_t bytes) { room_ = bytes; }
  std::uint64_t admissions() const { return counters_.admitted_blocks; }
  std::uint64_t refused() const { return counters_.refused_blocks; }

  /// Of all jobs; it evicts nothing by them.
  void NoteRead(const Uuid& /*link*/, const BlockId& block, std::string_view job) override;
  std::vector<std::pair<std::string, BlockId>> noted_reads() const;

  Task<Result<Cells>> Read(BlockId block, BlockRange range) override;
  /// It has no files.
  std::optional<CellPlace> Place(const BlockId&, BlockRange) override { return {}; }
  std::vector<PlacedBlock> PlacesBehind(const BlockId&, std::size_t) override { return {}; }
  bool Use(const BlockId&, std::uint64_t) override { return false; }
  std::optional<SegmentHandle> FileOf(const BlockId&) override { return {}; }
  Task<Status> Admit(Uuid link, BlockId block, Slice data, std::vector<std::uint64_t> checksums,
                     std::string path, Room room) override;
  bool HasFreeRoom(const Uuid& link, std::uint64_t bytes) const override;
  bool QuotaLeaves(const Uuid&, std::uint64_t) const override { return true; }
  std::uint64_t RoomVersion() const override { return room_version_; }
  void MakeRoom() { ++room_version_; }
  Task<Status> Verify(BlockId block) override;
  /// It has no disk to look after.
  Task<Result<Scrubbed>> Scrub(std::size_t disk, std::uint64_t bytes) override;
  Task<Status> Tend(std::size_t disk, TimePoint now) override;
  Task<Status> Resize(std::size_t disk, std::uint64_t capacity_bytes) override;
  Task<Result<Evicted>> Shrink(std::size_t disk, std::size_t blocks) override;
  void Watch(TimePoint /*now*/) override {}
  bool Contains(const BlockId& block) const override;
  /// Wanted when a read of it was noted.
  BlockHeat HeatOf(const Uuid& link, const BlockId& block) const override;
  Task<Result<Evicted>> Evict(std::vector<BlockId> blocks, EvictFilter filter) override;
  Task<Result<Evicted>> EvictLink(Uuid link, EvictFilter filter) override;
  /// It has no quotas.
  bool SetRules(const std::vector<LinkRule>& /*rules*/) override { return false; }
  Task<Result<Evicted>> TrimToQuotas() override;
  Task<Status> TakePins(PinStep step) override;
  /// From now on all blocks are pinned, and nobody has used them for long. `on_release` is told of
  /// each that Release frees, before it is gone.
  void PinAll(std::function<void(const BlockId&)> on_release);
  bool IsPinned(const BlockId& block) const override;
  Task<Result<PinnedPart>> PinnedAt(Uuid link, SegmentPlace from,
                                    std::chrono::hours unused_for) override;
  Task<Result<Evicted>> Release(std::vector<BlockId> blocks, std::chrono::hours unused_for,
                                std::function<bool(const BlockId&)> keep) override;
  std::unordered_map<Uuid, std::uint64_t> PinsVersions() const override;
  std::unordered_map<Uuid, LinkUsage> UsageByLink() const override;
  std::vector<DiskUsage> Disks() const override;
  std::uint64_t BlockCount() const override;
  std::uint64_t SetAsideCount() const override { return 0; }
  bool IsSetAside(const BlockId&) const override { return false; }
  const Counters& counters() const override { return counters_; }
  std::unordered_map<Uuid, std::uint64_t> EvictedBytesByLink() const override { return {}; }
  Status Close(Deadline /*deadline*/) override { return {}; }

 private:
  struct Kept {
    Uuid link;
    std::vector<std::byte> bytes;
    std::vector<std::uint64_t> checksums;
  };
  Result<Cells> Find(const BlockId& block, BlockRange range) const;
  bool Fits(std::uint64_t bytes) const;  // under the mutex

  std::atomic<std::uint64_t> room_{UINT64_MAX};
  std::atomic<std::uint64_t> room_version_{0};

  mutable std::mutex mutex_;
  std::unordered_map<BlockId, Kept> blocks_;
  std::unordered_map<Uuid, std::uint64_t> pins_versions_;
  std::function<void(const BlockId&)> on_release_;  // null: nothing is pinned
  std::vector<std::pair<std::string, BlockId>> noted_reads_;
  std::optional<Error> no_admissions_;
  std::optional<Error> no_reads_;
  Counters counters_;
};

}  // namespace forebay::fakes
