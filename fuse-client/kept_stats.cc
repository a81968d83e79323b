#include "fuse-client/kept_stats.h"

#include <fmt/format.h>

#include <cstdint>
#include <map>
#include <utility>

#include "common/wire/rpc.h"
#include "fuse-client/errno_map.h"
#include "proto/handover.pb.h"

namespace forebay {
namespace {

template <typename Counters, typename Call>
void EachTier(Counters& counters, std::string_view what, const Call& call) {
  for (std::size_t i = 0; i < kTiers; ++i)
    call(fmt::format("{}/{}", what, TierName(static_cast<Tier>(i))), counters[i]);
}

/// Calls `call` with each counter and its name. A name is for ever: a counter that comes to mean
/// something else gets another one.
template <typename Snapshot, typename Call>
void EachCounter(Snapshot& sum, const Call& call) {
  for (std::size_t op = 0; op < kFuseOps; ++op) {
    for (std::size_t slot = 0; slot < StatsSnapshot::kErrnoSlots; ++slot) {
      call(fmt::format("fuse_ops/{}/{}", FuseOpName(static_cast<FuseOp>(op)),
                       ErrnoName(ErrnoOfSlot(slot))),
           sum.ops[op][slot]);
    }
  }
  EachTier(sum.read_bytes, "read_bytes", call);
  EachTier(sum.wait_nanoseconds, "wait_nanoseconds", call);
  // No Code has the number 0.
  for (std::size_t i = 0; i < sum.failed_reads.size(); ++i)
    call(fmt::format("failed_reads/{}", i == 0 ? "" : CodeName(static_cast<Code>(i))),
         sum.failed_reads[i]);
  for (std::size_t i = 0; i < sum.read_buckets.size(); ++i) {
    const bool bounded = i < kReadSecondsBounds.size();
    call(bounded ? fmt::format("read_seconds/{}", kReadSecondsBounds[i]) : "read_seconds/longer",
         sum.read_buckets[i]);
  }
  for (std::size_t i = 0; i < kPlacedReads; ++i)
    call(fmt::format("placed_reads/{}", PlacedReadName(static_cast<PlacedRead>(i))),
         sum.placed_reads[i]);
  for (std::size_t i = 0; i < kHintedResults; ++i)
    call(fmt::format("hinted/{}", HintedName(static_cast<Hinted>(i))), sum.hinted[i]);
  call("read_nanoseconds", sum.read_nanoseconds);
  call("checksum_failures", sum.checksum_failures);
  call("owner_switches", sum.owner_switches);
  call("retry_rounds", sum.retry_rounds);
  call("cross_zone_bytes", sum.cross_zone_bytes);
  call("hedges", sum.hedges);
  call("hedges_won", sum.hedges_won);
  call("prefetches", sum.prefetches);
  call("prefetches_refused", sum.prefetches_refused);
  call("prefetches_failed", sum.prefetches_failed);
  call("memory_waits", sum.memory_waits);
  call("detour_nanoseconds", sum.detour_nanoseconds);
  call("stall_nanoseconds", sum.stall_nanoseconds);
}

}  // namespace

std::string SaveCounters(const StatsSnapshot& sum) {
  proto::KeptStats kept;
  EachCounter(sum, [&](std::string name, std::uint64_t value) {
    if (value == 0) return;
    proto::KeptCounter& counter = *kept.add_counters();
    counter.set_name(std::move(name));
    counter.set_value(value);
  });
  return kept.SerializeAsString();
}

StatsSnapshot CountersOf(std::string_view saved) {
  StatsSnapshot sum;
  proto::KeptStats kept;
  if (!ParseMessage(saved, kept)) return sum;
  std::map<std::string_view, std::uint64_t> values;
  for (const proto::KeptCounter& counter : kept.counters())
    values.emplace(counter.name(), counter.value());
  EachCounter(sum, [&](const std::string& name, std::uint64_t& counter) {
    const auto found = values.find(name);
    if (found != values.end()) counter = found->second;
  });
  return sum;
}

}  // namespace forebay
