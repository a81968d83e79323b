#include "fuse-client/link_sizes.h"

#include <optional>

#include "common/snapshot/snapshot.h"

namespace forebay {

namespace {

constexpr std::uint64_t kRowsLookedAt = 1'000'000;

std::uint64_t Scaled(std::uint64_t value, double share) {
  return static_cast<std::uint64_t>(static_cast<double>(value) * share);
}

}  // namespace

LinkSizes SizesOf(const Snapshot& snapshot) {
  const std::uint64_t block = snapshot.block_bytes();
  if (block == 0 || snapshot.rows() == 0) return {};
  const std::uint32_t step = static_cast<std::uint32_t>(snapshot.rows() / kRowsLookedAt + 1);
  std::uint64_t looked_at = 0;
  LinkSizes sizes;
  for (std::uint64_t row = 0; row < snapshot.rows(); row += step) {
    const std::optional<SnapshotRow> found = snapshot.RowAt(static_cast<std::uint32_t>(row));
    if (!found) continue;
    ++looked_at;
    sizes.blocks += (found->size + block - 1) / block;  // a directory's size is 0
    sizes.bytes += found->size;
    if (found->size >= LinkSizes::kLargeObject) sizes.large_bytes += found->size;
  }
  if (looked_at == 0 || step == 1) return sizes;
  const double share = static_cast<double>(snapshot.rows()) / static_cast<double>(looked_at);
  return {.blocks = Scaled(sizes.blocks, share),
          .bytes = Scaled(sizes.bytes, share),
          .large_bytes = Scaled(sizes.large_bytes, share)};
}

}  // namespace forebay
