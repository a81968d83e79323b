#include "fuse-client/block_spans.h"

#include <algorithm>

#include "common/model/limits.h"

namespace forebay {

std::vector<BlockSpan> CutSpans(const ObjectVersion& version, std::uint64_t object_size,
                                std::uint64_t block_bytes, std::uint64_t offset,
                                std::uint64_t size) {
  std::vector<BlockSpan> spans;
  if (offset >= object_size) return spans;
  const std::uint64_t end = offset + std::min(size, object_size - offset);
  for (std::uint64_t at = offset; at < end;) {
    const BlockId block = BlockAt(version, object_size, block_bytes, at);
    // Parts begin where cells do, so that none reaches into the next.
    const std::uint64_t parts = (at - block.offset) / kBlockPartBytes + 1;
    const std::uint64_t part_ends = block.offset + parts * kBlockPartBytes;
    const std::uint64_t stop = std::min({end, block.offset + block.length, part_ends});
    spans.push_back(BlockSpan{block,
                              {static_cast<std::uint32_t>(at - block.offset),
                               static_cast<std::uint32_t>(stop - block.offset)}});
    at = stop;
  }
  return spans;
}

}  // namespace forebay
