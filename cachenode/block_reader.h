#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>

#include "cachenode/block_history.h"
#include "cachenode/filler.h"
#include "cachenode/node_counters.h"
#include "cachenode/store/block_store.h"
#include "common/model/block_source.h"
#include "common/model/link.h"
#include "common/wire/reply_room.h"

namespace forebay {

/// A question that Service has checked: the link is known, the block is part of the object, the
/// range of the block.
struct CheckedRead {
  std::shared_ptr<const LinkSpec> link;
  BlockRequest request;
  std::uint32_t neighbours = 0;  ///< With by_place: of so many blocks behind it, too.
  ReplyRoom::Payer payer = 0;    ///< Who gets the bytes.
};

/// What came of a wish for a block that nobody waits for yet.
enum class Prefetched : std::uint8_t {
  kBegun,    ///< Its fill has begun.
  kHere,     ///< It is cached, or on its way already.
  kRefused,  ///< Demand takes all that S3 gives: ask again later.
};

/// Where a node's answers come from. Holds THE decision of the read path (DESIGN section 5, step
/// 7).
class BlockReader {
 public:
  BlockReader(BlockStore& store, Filler& filler, ReplyRoom& room, NodeCounters& counters,
              BlockHistory& history)
      : store_(store), filler_(filler), room_(room), counters_(counters), history_(history) {}

  /// Cells with their checksums, verified or just taken. Errors: as the fill's; kNotFound only for
  /// `peer_only`; kTimeout when the fill outlasts `deadline` (it goes on); kOverloaded when there
  /// is no room for the reply. The cells keep their place in the room. A reader that waits for a
  /// fill has none: hits go on while S3 does not answer.
  Task<Result<Cells>> Read(CheckedRead read, Deadline deadline);

  /// Where the cells lie in a file of the store, for a reader that can open it: a hit, counted as
  /// such. Nothing: Read.
  std::optional<CellPlace> Place(const CheckedRead& read);

  /// Counts a hit of a reader that knew the place from before: `read.request.range` is as long as
  /// what it has read. False: it is not to read there again.
  bool NotePlaced(const CheckedRead& read, std::uint64_t segment);

  /// Begins to fill a block that `job` will soon read, behind demand; for a reader who waits for it
  /// at another node (Urgency::kReader) as one that is read here, and whatever else there is to do.
  Prefetched Prefetch(const ColdBlock& cold, std::string_view job,
                      Urgency urgency = Urgency::kAsked);

 private:
  class Tally;
  /// Leaves `place` before it waits for a fill.
  Task<Result<Cells>> Decide(const CheckedRead& read, Tally& tally, ReplyRoom::Place* place,
                             Deadline deadline);
  ReplyRoom::Place TakePlace(const CheckedRead& read);

  BlockStore& store_;
  Filler& filler_;
  ReplyRoom& room_;
  NodeCounters& counters_;
  BlockHistory& history_;
};

}  // namespace forebay
