#pragma once

#include <chrono>
#include <vector>

#include "common/base/deadline.h"
#include "common/model/link.h"
#include "common/model/object_version.h"

namespace forebay {

/// A link as the choice of victims sees it.
struct LinkUse {
  Uuid link;
  TimePoint last_use;   ///< Its last read or admission.
  bool pinned = false;  ///< All of it; of the newcomer: the block.
  LinkPriority priority = LinkPriority::kNormal;
};

/// Who gives way when a disk is full. Pure: time and facts come from the caller.
class EvictionPolicy {
 public:
  virtual ~EvictionPolicy() = default;

  /// The links among `cached` whose blocks, oldest first, may make room for a block of `newcomer`;
  /// best victims first. Empty: the block is not worth keeping.
  virtual std::vector<Uuid> VictimLinks(const LinkUse& newcomer, std::vector<LinkUse> cached,
                                        TimePoint now) const = 0;
};

/// Links of lower priority than the newcomer's go first, the lowest before the others, whether
/// they are in use or not; those of higher priority never make way, however idle. Among equals,
/// links that nobody uses go first, the longest unused one before the others. Nothing that is in
/// use is replaced, and a link never replaces blocks of its own: when every epoch is a new
/// permutation, keeping what is there hits best (DESIGN 6.7). A pinned link gives no block away.
/// For a pinned block any other may go, of any priority, the lowest first; among equals in the same
/// order, those of links in use behind the idle ones and the newcomer's own link's last: that a pin
/// covers what is cached later is a promise.
class IdleLinksFirst final : public EvictionPolicy {
 public:
  /// A link is in use for this long after its last use.
  explicit IdleLinksFirst(std::chrono::seconds in_use_for) : in_use_for_(in_use_for) {}

  std::vector<Uuid> VictimLinks(const LinkUse& newcomer, std::vector<LinkUse> cached,
                                TimePoint now) const override;

 private:
  std::chrono::seconds in_use_for_;
};

}  // namespace forebay
