#pragma once

#include "common/s3/object_store.h"

namespace forebay {

/// Takes a block that may come from another node.
class PeerSink : public BodySink {
 public:
  /// From now on the block costs a GET, at whichever node. Called before the bytes come.
  virtual void MarkGet() = 0;
};

}  // namespace forebay
