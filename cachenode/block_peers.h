#pragma once

#include "cachenode/cold_block.h"
#include "cachenode/peer_sink.h"
#include "common/base/asio.h"
#include "common/base/deadline.h"
#include "common/base/result.h"
#include "common/model/block_id.h"

namespace forebay {

/// What the other nodes had to say to a cold block.
struct PeerFind {
  bool found = false;  ///< The whole block is in the sink, verified.
  /// False: an earlier owner keeps it, this node need not, unless it is asked to (`spread`).
  bool keep = true;
  /// What this node keeps of it is a further copy: this node is an owner behind the first, of a
  /// link with replicas.
  bool copy = false;
};

/// The other nodes, who are asked for a cold block before S3 is (DESIGN section 5, "One filler").
class BlockPeers {
 public:
  virtual ~BlockPeers() = default;

  /// False: nobody else is to be asked, S3 is next. Cheap; any thread.
  virtual bool MayHave(const ColdBlock& cold) const = 0;

  /// Streams the block into `sink`, which lives until the task is done, and marks it when an
  /// earlier owner asks S3 because of this question. Not found: this node is the one to ask S3.
  /// Errors are an earlier owner's verdict on S3, which asking S3 again would not change: kStale,
  /// kTimeout. Any executor.
  virtual Task<Result<PeerFind>> Get(ColdBlock cold, PeerSink& sink, Deadline deadline) = 0;

  /// Whether another node might ask S3 in this one's place. Cheap; any thread.
  virtual bool MayStandIn(const ColdBlock& cold) const = 0;

  /// Has other owners of the block ask S3 for it, one after the other, and streams it into `sink`
  /// like Get. Not found: S3 serves none of them either. kStale: it has this version no more. While
  /// it runs, nobody may wait for this node's own fill of the block (Fill::AskOthers). Any
  /// executor.
  virtual Task<Result<PeerFind>> GetByStandIn(ColdBlock cold, PeerSink& sink,
                                              Deadline deadline) = 0;

  /// S3 has refused this node: readers go to the owners behind it, who may fill in its place from
  /// now on. Cheap; any thread.
  virtual void NoteRefused() = 0;
};

}  // namespace forebay
