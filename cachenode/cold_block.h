#pragma once

#include <memory>

#include "cachenode/urgency.h"
#include "common/base/deadline.h"
#include "common/model/block_id.h"
#include "common/model/block_source.h"
#include "common/model/link.h"

namespace forebay {

/// What a cold block needs: whose it is, and which object it is cut from.
struct ColdBlock {
  std::shared_ptr<const LinkSpec> link;
  ObjectRef object;
  BlockId block;
  /// The reader had no answer from an earlier owner of the block.
  bool passed_over = false;
  Urgency urgency = Urgency::kReader;
  /// From another node or not at all, unless a reader comes to wait for it.
  bool peers_only = false;
  /// An earlier owner is slow: its block is kept here, too, where there is room that is free.
  bool spread = false;

  /// With passed_over: how long the reader has waited already.
  Duration waited = {};
  /// Another node, whose block it is, has asked for it, since S3 does not serve that one: it is
  /// fetched from S3 or not at all, and kept there.
  bool stand_in = false;
  /// Asked for as a further copy (LinkSpec::replicas), which drives nothing out that is in use.
  bool copy = false;

  /// What the reader wants of it, or empty: nobody in particular. Says where the fill begins
  /// (fill_order.h), never what it brings.
  BlockRange wanted = {};

  /// Nobody waits for it yet.
  bool in_background() const { return urgency != Urgency::kReader; }
};

}  // namespace forebay
