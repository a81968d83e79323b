#include "cachenode/store/eviction.h"

#include <algorithm>
#include <tuple>
#include <utility>

namespace forebay {

std::vector<Uuid> IdleLinksFirst::VictimLinks(const LinkUse& newcomer, std::vector<LinkUse> cached,
                                              TimePoint now) const {
  std::erase_if(cached, [&](const LinkUse& link) {
    if (link.pinned) return true;
    if (newcomer.pinned) return false;
    if (link.priority != newcomer.priority) return link.priority > newcomer.priority;
    const bool in_use = now - link.last_use < in_use_for_;
    // Two idle links never push each other out in turn: only the longer unused one gives way.
    return in_use || link.link == newcomer.link || link.last_use >= newcomer.last_use;
  });
  std::ranges::sort(cached, {}, [&](const LinkUse& link) {
    return std::tuple(link.priority, link.link == newcomer.link, link.last_use);
  });
  std::vector<Uuid> victims;
  victims.reserve(cached.size());
  for (const LinkUse& link : cached) victims.push_back(link.link);
  return victims;
}

}  // namespace forebay
