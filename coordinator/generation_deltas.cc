#include "coordinator/generation_deltas.h"

#include <spdlog/spdlog.h>

#include <cstdint>

#include "common/snapshot/delta.h"

namespace forebay {
namespace {

/// Each costs a mount that follows it a build of the whole file: of more than some in a row,
/// fetching that is cheaper.
constexpr int kDeltasKept = 8;
/// Of the snapshot. A difference makes whoever follows it read both; of much larger ones the whole
/// file is no dearer.
constexpr std::uint64_t kLargestPart = 4;
constexpr std::uint64_t kAllPart = 2;

Result<WrittenDelta> Write(const NamespaceIndex& index, const Uuid& link,
                           const proto::GenerationInfo& before,
                           const proto::GenerationInfo& after) {
  const auto then = index.Find(link, before.generation());
  const auto now = index.Find(link, after.generation());
  if (!then || !now) return WrittenDelta{.why_none = "a generation is not open"};
  const DeltaEnds ends{.link = link,
                       .before = before.generation(),
                       .after = after.generation(),
                       .before_digest = {.high = before.digest_high(), .low = before.digest_low()},
                       .after_digest = {.high = after.digest_high(), .low = after.digest_low()}};
  return WriteDelta(*then->snapshot(), *now->snapshot(), ends,
                    after.snapshot_bytes() / kLargestPart,
                    index.DeltaPathOf(link, ends.before, ends.after));
}

}  // namespace

void AddDelta(const NamespaceIndex& index, const Uuid& link, const proto::GenerationInfo& before,
              proto::GenerationInfo& after) {
  const Result<WrittenDelta> written = Write(index, link, before, after);
  if (!written) spdlog::warn("no difference was made: {}", written.error().message);
  if (!written || written->bytes == 0) return;
  proto::GenerationDelta delta;
  delta.set_before(before.generation());
  delta.set_after(after.generation());
  delta.set_bytes(written->bytes);
  delta.set_digest_high(written->digest.high);
  delta.set_digest_low(written->digest.low);
  delta.set_after_digest_high(after.digest_high());
  delta.set_after_digest_low(after.digest_low());
  *after.mutable_deltas() = before.deltas();
  *after.add_deltas() = delta;
  std::uint64_t bytes = 0;
  int kept = 0;
  for (int i = after.deltas_size(); i > 0; --i) {
    bytes += after.deltas(i - 1).bytes();
    if (kept == kDeltasKept || (kept > 0 && bytes > after.snapshot_bytes() / kAllPart)) break;
    ++kept;
  }
  after.mutable_deltas()->DeleteSubrange(0, after.deltas_size() - kept);
}

}  // namespace forebay
