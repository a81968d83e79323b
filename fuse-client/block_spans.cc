#include "fuse-client/block_spans.h"

#include <algorithm>

namespace forebay {

std::vector<BlockSpan> CutSpans(const ObjectVersion& version, std::uint64_t object_size,
                                std::uint64_t block_bytes, std::uint64_t offset,
                                std::uint64_t size) {
  std::vector<BlockSpan> spans;
  if (offset >= object_size) return spans;
  const std::uint64_t end = offset + std::min(size, object_size - offset);
  for (std::uint64_t at = offset; at < end;) {
    const BlockId block = BlockAt(version, object_size, block_bytes, at);
    const std::uint64_t stop = std::min<std::uint64_t>(end, block.offset + block.length);
    spans.push_back(BlockSpan{block,
                              {static_cast<std::uint32_t>(at - block.offset),
                               static_cast<std::uint32_t>(stop - block.offset)}});
    at = stop;
  }
  return spans;
}

}  // namespace forebay
