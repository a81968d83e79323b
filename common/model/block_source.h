#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "common/base/asio.h"
#include "common/base/buffer.h"
#include "common/base/deadline.h"
#include "common/base/result.h"
#include "common/model/block_id.h"
#include "common/model/object_version.h"

namespace forebay {

/// Where a byte came from, as counted in forebay_read_bytes_total{tier}.
enum class Tier : std::uint8_t { kPage = 0, kLocal = 1, kPeer = 2, kS3 = 3 };

/// The object that a block is cut from, as much of it as a cold fill needs: a node keeps no
/// namespace (DESIGN section 5).
struct ObjectRef {
  std::string key;   ///< Full S3 key, raw bytes.
  std::string etag;  ///< Without quotes.
  std::uint64_t size = 0;
};

/// A question for bytes of a block.
struct BlockRequest {
  Uuid link;
  BlockId block;
  BlockRange range;  ///< Not empty, inside the block.
  ObjectRef object;
  std::string job;  ///< "" = unknown.
  bool peer_only =
      false;  ///< Answer from the store or by joining a running fill; never start a GET (no loops).
  bool passed_over = false;  ///< The reader had no answer from an earlier owner of the block.
  /// With passed_over: how long the reader has waited already.
  std::chrono::milliseconds waited{};
  bool stand_in = false;    ///< The block is the asking node's own, whom S3 does not serve.
  bool spread = false;      ///< An earlier owner is slow: what comes from it is worth keeping.
  bool by_place = false;    ///< The reader can read a segment itself.
  bool may_go_on = false;   ///< The reader would rather ask the next owner than wait with many.
  bool counted = false;     ///< This read was counted when it was told a place.
  bool cross_zone = false;  ///< The reader lies in another zone than the node that it asks.
};

/// The answer: whole cells that enclose the asked-for range, verified or verifiable with
/// `checksums`.
struct Cells {
  std::uint32_t begin = 0;  ///< Offset of the first byte in the block, a multiple of kCellBytes.
  Slice bytes;              ///< Whole cells; the block's last cell may be short.
  std::vector<std::uint64_t>
      checksums;  ///< One CellChecksum per cell in `bytes`, taken when the block was filled.
  Tier tier =
      Tier::kLocal;  ///< kS3: this request waited for a fill; kLocal: from the node's store.

  // What a mount knows of its question; of a block of this process's own store they are empty.
  std::string node = {};  ///< Whose answer it is.
  bool fetched = false;   ///< The node had to get it first, from S3 or another node.
  Duration took{};        ///< From the question to that answer.
  Duration detour{};      ///< Before it: other owners that did not answer, and pauses.

  /// True when every cell of `bytes` matches its checksum, and their count is right.
  bool Verify() const;
  /// The part of `bytes` that `range` asks for; `range` must lie inside.
  ByteView Part(BlockRange range) const {
    return bytes.bytes.subspan(range.begin - begin, range.size());
  }
};

/// A place that blocks come from: a node's store and fills (BlockReader), or the owners across the
/// wire (BlockClient). Errors: kStale the object changed; kUnavailable try another place;
/// kOverloaded back off; kTimeout; kDenied; kNotFound only from a source that was asked
/// `peer_only`. Thread rules are each implementation's own.
class BlockSource {
 public:
  virtual ~BlockSource() = default;
  virtual Task<Result<Cells>> Read(BlockRequest request, Deadline deadline) = 0;
};

}  // namespace forebay
