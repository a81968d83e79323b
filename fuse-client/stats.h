#pragma once

#include <array>
#include <atomic>
#include <boost/json/array.hpp>
#include <boost/json/value.hpp>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/result.h"
#include "common/model/block_source.h"

namespace forebay {

/// What the kernel may ask; the label of forebay_fuse_ops_total.
enum class FuseOp : std::uint8_t {
  kLookup,
  kGetattr,
  kRead,
  kReaddir,
  kReaddirplus,
  kStatfs,
  kGetxattr,
  kListxattr,
  kForget,
  kOpen,
  kRelease,  ///< Of an opened file; one for each kOpen, after its last close.
  kOpendir,
  kFlush,
  kWrite,  ///< Everything that would change something.
};
inline constexpr std::size_t kFuseOps = 14;
std::string_view FuseOpName(FuseOp op);

/// What came of a read of which a node of this machine said, now or before, where its bytes lie
/// (LocalReads); the label of forebay_placed_reads_total.
enum class PlacedRead : std::uint8_t {
  kRead,         ///< By this process, out of the page cache.
  kNoFile,       ///< The segment's file was not here yet.
  kNotInMemory,  ///< The disk would have had to be asked.
  kGone,         ///< Evicted meanwhile, or damaged.
  kRemembered,   ///< By this process, at a place that it knew: the node was not asked.
};
inline constexpr std::size_t kPlacedReads = 5;
std::string_view PlacedReadName(PlacedRead outcome);
/// What became of a file that a job had announced.
enum class Hinted : std::uint8_t {
  kPushed,   ///< It is in the kernel's page cache.
  kFetched,  ///< A node caches it, or is about to.
  kFailed,   ///< Its reader will see why.
  kRefused,  ///< Nobody had begun to fetch it when the job came there: there was too much to do.
};
inline constexpr std::size_t kHintedResults = 4;
std::string_view HintedName(Hinted result);

inline constexpr std::size_t kTiers = 4;
std::string_view TierName(Tier tier);

/// Upper bounds of the read duration histogram, those of metric::kReadDuration; one more bucket
/// takes what is longer.
inline constexpr std::array<double, 21> kReadSecondsBounds = {
    0.00002, 0.00005, 0.0001, 0.0002, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05,
    0.1,     0.2,     0.5,    1,      2,      5,     10,    30,    100,  300};

/// Reads by how long they took.
using ReadBuckets = std::array<std::uint64_t, kReadSecondsBounds.size() + 1>;
std::size_t ReadBucketOf(std::chrono::nanoseconds duration);
/// The bound of the bucket that holds the q-th read (0 < q < 1), in seconds; 0 without reads.
double QuantileOf(const ReadBuckets& buckets, double q);

/// What reads that are under way take, of all mounts of the process; and inodes in the kernel.
struct MemoryUse {
  std::uint64_t limit = 0;
  std::uint64_t in_use = 0;
  std::uint64_t kernel_inodes = 0;         ///< Of this mount, about.
  std::uint64_t kernel_inodes_of_all = 0;  ///< Of all mounts of the process.
};

/// Sums over all workers, at one moment.
struct StatsSnapshot {
  static constexpr std::size_t kErrnoSlots = 12;
  std::array<std::array<std::uint64_t, kErrnoSlots>, kFuseOps> ops{};
  std::array<std::uint64_t, kTiers> read_bytes{};
  std::array<std::uint64_t, 10> failed_reads{};  ///< By Code.
  ReadBuckets read_buckets{};
  std::uint64_t read_nanoseconds = 0;
  std::uint64_t checksum_failures = 0;
  std::uint64_t owner_switches = 0;
  std::uint64_t retry_rounds = 0;
  std::uint64_t cross_zone_bytes = 0;
  std::uint64_t hedges = 0;
  std::uint64_t hedges_won = 0;          ///< Whose second answer was the one that the reader got.
  std::uint64_t prefetches = 0;          ///< Blocks that a node had, or began to fetch.
  std::uint64_t prefetches_refused = 0;  ///< Told to ask again later; each time counts.
  std::uint64_t prefetches_failed = 0;
  std::uint64_t memory_waits = 0;  ///< Reads that found the memory limit reached.
  std::array<std::uint64_t, kPlacedReads> placed_reads{};
  /// By what a read waited for; failed reads and detours (JobTotals::detour) are apart.
  std::array<std::uint64_t, kTiers> wait_nanoseconds{};
  std::uint64_t detour_nanoseconds = 0;
  std::array<std::uint64_t, kHintedResults> hinted{};
  std::uint64_t stall_nanoseconds = 0;  ///< JobTotals::Stalled, over all jobs.

  std::uint64_t OpTotal(FuseOp op) const;
  std::uint64_t Reads() const;
  double ReadSecondsQuantile(double q) const;
  /// For people: bytes and seconds waited, by tier.
  std::string TiersText() const;
};

/// The errno of a slot, for labels; the last slot is every other number.
int ErrnoOfSlot(std::size_t slot);

/// One worker's counters. Only its worker adds; anybody may read.
class alignas(64) WorkerStats {
 public:
  void CountOp(FuseOp op, int error_number);
  void CountRead(std::chrono::nanoseconds duration);
  void CountFailedRead(Code code);
  void CountBytes(Tier tier, std::uint64_t bytes) {
    Add(read_bytes_[static_cast<std::size_t>(tier)], bytes);
  }
  void CountChecksumFailure() { Add(checksum_failures_, 1); }
  void CountOwnerSwitch() { Add(owner_switches_, 1); }
  void CountRetryRound() { Add(retry_rounds_, 1); }
  void CountCrossZone(std::uint64_t bytes) { Add(cross_zone_bytes_, bytes); }
  void CountHedge() { Add(hedges_, 1); }
  void CountHedgeWon() { Add(hedges_won_, 1); }
  /// What BlockPrefetcher::Prefetch answered.
  void CountPrefetch(const Status& asked);
  void CountMemoryWait() { Add(memory_waits_, 1); }
  void CountPlacedRead(PlacedRead outcome) {
    Add(placed_reads_[static_cast<std::size_t>(outcome)], 1);
  }
  void CountHinted(Hinted result) { Add(hinted_[static_cast<std::size_t>(result)], 1); }
  void CountStall(std::chrono::nanoseconds duration) {
    if (duration.count() > 0) Add(stall_nanoseconds_, static_cast<std::uint64_t>(duration.count()));
  }

  void CountWait(Tier tier, std::chrono::nanoseconds waited, std::chrono::nanoseconds detour) {
    Add(wait_nanoseconds_[static_cast<std::size_t>(tier)],
        static_cast<std::uint64_t>(waited.count()));
    Add(detour_nanoseconds_, static_cast<std::uint64_t>(detour.count()));
  }

  void AddTo(StatsSnapshot& sum) const;

 private:
  using Counter = std::atomic<std::uint64_t>;
  static void Add(Counter& counter, std::uint64_t n) {
    counter.fetch_add(n, std::memory_order_relaxed);
  }

  std::array<std::array<Counter, StatsSnapshot::kErrnoSlots>, kFuseOps> ops_{};
  std::array<Counter, kTiers> read_bytes_{};
  std::array<Counter, 10> failed_reads_{};
  std::array<Counter, kReadSecondsBounds.size() + 1> read_buckets_{};
  Counter read_nanoseconds_{0};
  Counter checksum_failures_{0};
  Counter owner_switches_{0};
  Counter retry_rounds_{0};
  Counter cross_zone_bytes_{0};
  Counter hedges_{0};
  Counter hedges_won_{0};
  Counter prefetches_{0};
  Counter prefetches_refused_{0};
  Counter prefetches_failed_{0};
  Counter memory_waits_{0};
  std::array<Counter, kPlacedReads> placed_reads_{};
  std::array<Counter, kTiers> wait_nanoseconds_{};
  Counter detour_nanoseconds_{0};
  std::array<Counter, kHintedResults> hinted_{};
  Counter stall_nanoseconds_{0};
};

/// The counters of one mount: a set per worker, so that no two cores write one cache line.
class MountStats {
 public:
  explicit MountStats(std::size_t workers);

  WorkerStats& Worker(std::size_t i) { return *workers_[i % workers_.size()]; }
  StatsSnapshot Sum() const;
  void AddTo(StatsSnapshot& sum) const;
  /// `.forebay/stats`: one JSON object, ends with a newline. `jobs`, `orders` and `copies` (as
  /// local_copies) are members of it.
  std::string ToJson(boost::json::array jobs = {}, boost::json::array orders = {},
                     MemoryUse memory = {}, boost::json::value copies = nullptr) const;

  /// The sums, for Restore of another process, which goes on counting from them: proto::KeptStats.
  std::string Save() const;
  /// Before anybody counts. Of what another release saved, the counters that this one knows;
  /// nothing of what is no such message.
  void Restore(std::string_view saved);

 private:
  StatsSnapshot earlier_;  // what processes before this one counted
  std::vector<std::unique_ptr<WorkerStats>> workers_;
  std::chrono::steady_clock::time_point started_;
};

}  // namespace forebay
