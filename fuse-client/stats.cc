#include "fuse-client/stats.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>
#include <cerrno>
#include <numeric>
#include <type_traits>
#include <utility>

#include "common/base/units.h"
#include "fuse-client/errno_map.h"
#include "fuse-client/kept_stats.h"

namespace forebay {

namespace {

constexpr std::array<int, StatsSnapshot::kErrnoSlots> kSlotErrnos = {
    0, ENOENT, ESTALE, EIO, EINVAL, ENOSYS, EROFS, ENODATA, ERANGE, ENOTDIR, ENAMETOOLONG, -1};

std::size_t SlotOf(int error_number) {
  const auto found = std::find(kSlotErrnos.begin(), kSlotErrnos.end() - 1, error_number);
  return static_cast<std::size_t>(found - kSlotErrnos.begin());
}

double SecondsOf(std::uint64_t nanoseconds) { return static_cast<double>(nanoseconds) / 1e9; }

std::uint64_t Load(const std::atomic<std::uint64_t>& counter) {
  return counter.load(std::memory_order_relaxed);
}

}  // namespace

int ErrnoOfSlot(std::size_t slot) { return kSlotErrnos[slot]; }

std::string_view FuseOpName(FuseOp op) {
  switch (op) {
    case FuseOp::kLookup:
      return "lookup";
    case FuseOp::kGetattr:
      return "getattr";
    case FuseOp::kRead:
      return "read";
    case FuseOp::kReaddir:
      return "readdir";
    case FuseOp::kReaddirplus:
      return "readdirplus";
    case FuseOp::kStatfs:
      return "statfs";
    case FuseOp::kGetxattr:
      return "getxattr";
    case FuseOp::kListxattr:
      return "listxattr";
    case FuseOp::kForget:
      return "forget";
    case FuseOp::kOpen:
      return "open";
    case FuseOp::kRelease:
      return "release";
    case FuseOp::kOpendir:
      return "opendir";
    case FuseOp::kFlush:
      return "flush";
    case FuseOp::kWrite:
      return "write";
  }
  return "unknown";
}

std::string_view HintedName(Hinted result) {
  switch (result) {
    case Hinted::kPushed:
      return "pushed";
    case Hinted::kFetched:
      return "fetched";
    case Hinted::kFailed:
      return "failed";
    case Hinted::kRefused:
      return "refused";
  }
  return "";
}

std::string_view TierName(Tier tier) {
  switch (tier) {
    case Tier::kPage:
      return "page";
    case Tier::kLocal:
      return "local";
    case Tier::kPeer:
      return "peer";
    case Tier::kS3:
      return "s3";
  }
  return "unknown";
}

std::string_view PlacedReadName(PlacedRead outcome) {
  switch (outcome) {
    case PlacedRead::kRead:
      return "read";
    case PlacedRead::kNoFile:
      return "no_file";
    case PlacedRead::kNotInMemory:
      return "not_in_memory";
    case PlacedRead::kGone:
      return "gone";
    case PlacedRead::kRemembered:
      return "remembered";
  }
  return "unknown";
}

std::uint64_t StatsSnapshot::OpTotal(FuseOp op) const {
  const auto& slots = ops[static_cast<std::size_t>(op)];
  return std::accumulate(slots.begin(), slots.end(), std::uint64_t{0});
}

std::uint64_t StatsSnapshot::Reads() const {
  return std::accumulate(read_buckets.begin(), read_buckets.end(), std::uint64_t{0});
}

double StatsSnapshot::ReadSecondsQuantile(double q) const { return QuantileOf(read_buckets, q); }

double QuantileOf(const ReadBuckets& buckets, double q) {
  const std::uint64_t reads = std::accumulate(buckets.begin(), buckets.end(), std::uint64_t{0});
  if (reads == 0) return 0;
  std::uint64_t seen = 0;
  for (std::size_t i = 0; i < kReadSecondsBounds.size(); ++i) {
    seen += buckets[i];
    if (static_cast<double>(seen) >= q * static_cast<double>(reads)) return kReadSecondsBounds[i];
  }
  return kReadSecondsBounds.back();
}

std::size_t ReadBucketOf(std::chrono::nanoseconds duration) {
  const double seconds = std::chrono::duration<double>(duration).count();
  const auto bound =
      std::lower_bound(kReadSecondsBounds.begin(), kReadSecondsBounds.end(), seconds);
  return static_cast<std::size_t>(bound - kReadSecondsBounds.begin());
}

std::string StatsSnapshot::TiersText() const {
  std::string text;
  for (const Tier tier : {Tier::kLocal, Tier::kPeer, Tier::kS3}) {
    const auto i = static_cast<std::size_t>(tier);
    text += fmt::format("{} from {} in {:.1f} s, ", HumanBytes(read_bytes[i]), TierName(tier),
                        SecondsOf(wait_nanoseconds[i]));
  }
  text += fmt::format("{:.1f} s for nodes that did not answer", SecondsOf(detour_nanoseconds));
  return text;
}

void WorkerStats::CountOp(FuseOp op, int error_number) {
  Add(ops_[static_cast<std::size_t>(op)][SlotOf(error_number)], 1);
}

void WorkerStats::CountRead(std::chrono::nanoseconds duration) {
  Add(read_buckets_[ReadBucketOf(duration)], 1);
  Add(read_nanoseconds_, static_cast<std::uint64_t>(duration.count()));
}

void WorkerStats::CountFailedRead(Code code) {
  Add(failed_reads_[static_cast<std::size_t>(code) % failed_reads_.size()], 1);
}

void WorkerStats::CountPrefetch(const Status& asked) {
  if (asked) return Add(prefetches_, 1);
  Add(asked.error().code == Code::kOverloaded ? prefetches_refused_ : prefetches_failed_, 1);
}

void WorkerStats::AddTo(StatsSnapshot& sum) const {
  for (std::size_t op = 0; op < kFuseOps; ++op) {
    for (std::size_t slot = 0; slot < StatsSnapshot::kErrnoSlots; ++slot) {
      sum.ops[op][slot] += Load(ops_[op][slot]);
    }
  }
  for (std::size_t i = 0; i < kTiers; ++i) sum.read_bytes[i] += Load(read_bytes_[i]);
  for (std::size_t i = 0; i < failed_reads_.size(); ++i) {
    sum.failed_reads[i] += Load(failed_reads_[i]);
  }
  for (std::size_t i = 0; i < read_buckets_.size(); ++i) {
    sum.read_buckets[i] += Load(read_buckets_[i]);
  }
  sum.read_nanoseconds += Load(read_nanoseconds_);
  sum.checksum_failures += Load(checksum_failures_);
  sum.owner_switches += Load(owner_switches_);
  sum.retry_rounds += Load(retry_rounds_);
  sum.cross_zone_bytes += Load(cross_zone_bytes_);
  sum.hedges += Load(hedges_);
  sum.hedges_won += Load(hedges_won_);
  sum.prefetches += Load(prefetches_);
  sum.prefetches_refused += Load(prefetches_refused_);
  sum.prefetches_failed += Load(prefetches_failed_);
  sum.memory_waits += Load(memory_waits_);
  for (std::size_t i = 0; i < kPlacedReads; ++i) sum.placed_reads[i] += Load(placed_reads_[i]);
  for (std::size_t i = 0; i < kTiers; ++i) {
    sum.wait_nanoseconds[i] += Load(wait_nanoseconds_[i]);
  }
  sum.detour_nanoseconds += Load(detour_nanoseconds_);
  for (std::size_t i = 0; i < hinted_.size(); ++i) sum.hinted[i] += Load(hinted_[i]);
  sum.stall_nanoseconds += Load(stall_nanoseconds_);
}

MountStats::MountStats(std::size_t workers) : started_(std::chrono::steady_clock::now()) {
  for (std::size_t i = 0; i < std::max<std::size_t>(workers, 1); ++i) {
    workers_.push_back(std::make_unique<WorkerStats>());
  }
}

namespace {

using Numbers = std::array<std::uint64_t, sizeof(StatsSnapshot) / sizeof(std::uint64_t)>;
static_assert(std::is_trivially_copyable_v<StatsSnapshot>);
static_assert(sizeof(Numbers) == sizeof(StatsSnapshot));

}  // namespace

void MountStats::AddTo(StatsSnapshot& sum) const {
  auto numbers = std::bit_cast<Numbers>(sum);
  const auto earlier = std::bit_cast<Numbers>(earlier_);
  for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i] += earlier[i];
  sum = std::bit_cast<StatsSnapshot>(numbers);
  for (const auto& worker : workers_) worker->AddTo(sum);
}

StatsSnapshot MountStats::Sum() const {
  StatsSnapshot sum;
  AddTo(sum);
  return sum;
}

std::string MountStats::Save() const { return SaveCounters(Sum()); }

void MountStats::Restore(std::string_view saved) { earlier_ = CountersOf(saved); }

std::string MountStats::ToJson(boost::json::array jobs, boost::json::array orders, MemoryUse memory,
                               boost::json::value copies) const {
  const StatsSnapshot sum = Sum();
  boost::json::object ops;
  for (std::size_t i = 0; i < kFuseOps; ++i) {
    boost::json::object by_errno;
    for (std::size_t slot = 0; slot < StatsSnapshot::kErrnoSlots; ++slot) {
      if (sum.ops[i][slot] != 0) by_errno[ErrnoName(ErrnoOfSlot(slot))] = sum.ops[i][slot];
    }
    if (!by_errno.empty()) ops[FuseOpName(static_cast<FuseOp>(i))] = std::move(by_errno);
  }
  boost::json::object bytes;
  for (std::size_t i = 0; i < kTiers; ++i) {
    // The page cache answers without asking us, so its bytes cannot be counted here.
    if (static_cast<Tier>(i) != Tier::kPage) {
      bytes[TierName(static_cast<Tier>(i))] = sum.read_bytes[i];
    }
  }
  boost::json::object failed;
  for (std::size_t i = 1; i < sum.failed_reads.size(); ++i) {
    failed[CodeName(static_cast<Code>(i))] = sum.failed_reads[i];
  }
  boost::json::object placed;
  for (std::size_t i = 0; i < kPlacedReads; ++i) {
    placed[PlacedReadName(static_cast<PlacedRead>(i))] = sum.placed_reads[i];
  }
  boost::json::object waits;
  for (const Tier tier : {Tier::kLocal, Tier::kPeer, Tier::kS3}) {
    waits[TierName(tier)] = SecondsOf(sum.wait_nanoseconds[static_cast<std::size_t>(tier)]);
  }
  waits["detour"] = SecondsOf(sum.detour_nanoseconds);
  const auto uptime = std::chrono::steady_clock::now() - started_;
  boost::json::object all;
  all["schema_version"] = 1;
  all["uptime_seconds"] = std::chrono::duration<double>(uptime).count();
  all["fuse_ops"] = std::move(ops);
  all["reads"] = sum.Reads();
  all["read_bytes"] = std::move(bytes);
  all["read_seconds"] = {{"sum", static_cast<double>(sum.read_nanoseconds) / 1e9},
                         {"p50", sum.ReadSecondsQuantile(0.5)},
                         {"p99", sum.ReadSecondsQuantile(0.99)}};
  all["wait_seconds"] = std::move(waits);
  all["failed_reads"] = std::move(failed);
  all["checksum_failures"] = sum.checksum_failures;
  all["owner_switches"] = sum.owner_switches;
  all["retry_rounds"] = sum.retry_rounds;
  all["cross_zone_bytes"] = sum.cross_zone_bytes;
  all["hedges"] = sum.hedges;
  all["hedges_won"] = sum.hedges_won;
  all["prefetches"] = sum.prefetches;
  all["prefetches_refused"] = sum.prefetches_refused;
  all["prefetches_failed"] = sum.prefetches_failed;
  all["memory"] = {
      {"limit_bytes", memory.limit}, {"in_use_bytes", memory.in_use}, {"waits", sum.memory_waits}};
  all["kernel_inodes"] = {{"mount", memory.kernel_inodes},
                          {"process", memory.kernel_inodes_of_all}};
  all["placed_reads"] = std::move(placed);
  boost::json::object hinted;
  for (std::size_t i = 0; i < sum.hinted.size(); ++i) {
    hinted[HintedName(static_cast<Hinted>(i))] = sum.hinted[i];
  }
  all["hinted"] = std::move(hinted);
  all["stall_seconds"] = static_cast<double>(sum.stall_nanoseconds) / 1e9;
  all["jobs"] = std::move(jobs);
  all["orders"] = std::move(orders);
  all["local_copies"] = std::move(copies);
  return boost::json::serialize(all) + "\n";
}

}  // namespace forebay
