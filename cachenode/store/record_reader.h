#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "cachenode/store/segment_format.h"
#include "common/base/buffer.h"
#include "common/model/block_id.h"
#include "common/model/block_source.h"
#include "common/model/object_version.h"

namespace forebay {

/// What the record of a block must say, and where it must lie.
struct ExpectedRecord {
  Uuid cluster;  ///< Records from before the directory was claimed carry the zero uuid instead.
  Uuid link;
  BlockId block;
  std::uint32_t segment = 0;
  std::uint64_t position = 0;
  std::uint64_t seed = 0;
};

/// Reads and verifies cells of one record: header checksum, identity and place, then each cell.
/// Used by one thread at a time.
class RecordReader {
 public:
  enum class Outcome : std::uint8_t {
    kOk,
    kNotInMemory,  ///< Only with nowait: ask again without it, where blocking is allowed.
    kMismatch,     ///< The bytes are not this block's.
    kIoError,
  };

  /// `range` is not empty and lies inside the block.
  RecordReader(const ExpectedRecord& expected, BlockRange range);

  /// May be called again after any answer but kOk.
  Outcome Read(int fd, bool nowait);

  /// Looks, without waiting for a disk, where the cells lie: kOk when the header matches and the
  /// last byte of `range` is in memory. Then TakeChecksums, once, and position().
  Outcome Find(int fd);

  /// Reads the whole record from a file that is open for direct reads; `range` is the whole block.
  Outcome ReadDirect(int fd);

  /// Asks the kernel to forget its copy, so that the next Read asks the disk.
  void DropFromMemory(int fd) const;

  /// After kOk, once.
  Cells Take();
  std::vector<std::uint64_t> TakeChecksums() { return std::move(checksums_); }
  /// Of the first cell, in the file.
  std::uint64_t position() const { return expected_.position + header_.size() + cells_.begin; }

 private:
  Outcome Judge(int error);
  bool HeaderMatches();

  const ExpectedRecord expected_;
  const BlockRange range_;
  const BlockRange cells_;
  std::vector<std::byte> header_;
  std::shared_ptr<Buffer> data_;  // from the first read on
  std::vector<std::uint64_t> checksums_;
};

}  // namespace forebay
