#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "cachenode/store/block_store.h"
#include "common/model/link.h"
#include "common/ring/ring.h"

namespace forebay {

/// What the links' pins, quotas and priorities mean for the store of node `self` with
/// `capacity_bytes`: of a quota its part by capacity, so that all nodes' parts together are never
/// more than the quota. A node that is not in the ring (yet) counts itself in.
std::vector<LinkRule> RulesOf(const std::vector<std::shared_ptr<const LinkSpec>>& links,
                              const RingTable& ring, std::string_view self,
                              std::uint64_t capacity_bytes);

}  // namespace forebay
