#include "common/model/block_source.h"

#include <algorithm>

namespace forebay {

bool Cells::Verify() const {
  const ByteView all = bytes.bytes;
  if (checksums.size() != (all.size() + kCellBytes - 1) / kCellBytes) return false;
  for (std::size_t cell = 0; cell < checksums.size(); ++cell) {
    const std::size_t offset = cell * kCellBytes;
    const std::size_t size = std::min<std::size_t>(kCellBytes, all.size() - offset);
    if (CellChecksum(all.data() + offset, size) != checksums[cell]) return false;
  }
  return true;
}

}  // namespace forebay
