#include "cachenode/link_rules.h"

namespace forebay {
namespace {

/// bytes * part / all, rounded down.
std::uint64_t ShareOf(std::uint64_t bytes, std::uint64_t part, std::uint64_t all) {
  if (all == 0 || part >= all) return bytes;
  using Wide = unsigned __int128;
  return static_cast<std::uint64_t>(Wide{bytes} * part / all);
}

}  // namespace

std::vector<LinkRule> RulesOf(const std::vector<std::shared_ptr<const LinkSpec>>& links,
                              const RingTable& ring, std::string_view self,
                              std::uint64_t capacity_bytes) {
  std::uint64_t own = capacity_bytes;
  std::uint64_t all = 0;
  if (const NodeInfo* node = ring.Find(self)) {
    own = node->capacity_bytes;
  } else {
    all = capacity_bytes;
  }
  for (const NodeInfo& node : ring.nodes()) all += node.capacity_bytes;
  std::vector<LinkRule> rules;
  rules.reserve(links.size());
  for (const auto& link : links) {
    LinkRule& rule = rules.emplace_back();
    rule.link = link->id;
    if (link->quota_bytes != 0) rule.max_bytes = ShareOf(link->quota_bytes, own, all);
    rule.pins = link->pins;
    rule.priority = link->priority;
  }
  return rules;
}

}  // namespace forebay
