#pragma once

#include "common/model/block_id.h"
#include "common/s3/object_store.h"

namespace forebay {

/// Takes a block that may come from another node, in parts of any order.
class PeerSink : public BodySink {
 public:
  /// From now on the block costs a GET, at whichever node. Called before the bytes come.
  virtual void MarkGet() = 0;
  /// The next attempts bring this part of the block: whole cells. Without it: all of the block.
  virtual void BeginPart(BlockRange part) = 0;
};

}  // namespace forebay
