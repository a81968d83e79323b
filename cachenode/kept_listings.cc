#include "cachenode/kept_listings.h"

#include <cstddef>

#include "common/model/system_link.h"

namespace forebay {
namespace {

/// The coordinator serves as many whole snapshots.
constexpr std::size_t kGenerations = 2;

}  // namespace

std::vector<BlockId> KeptListings::Add(const Uuid& system_link, std::string_view key,
                                       const BlockId& block) {
  std::vector<BlockId> old;
  const auto object = ParseSnapshotKey(key);
  if (!object) return old;
  const std::scoped_lock lock(mutex_);
  auto& generations = by_generation_[system_link];
  generations[object->generation].push_back(block);
  while (generations.size() > kGenerations) {
    const auto oldest = generations.begin();
    old.insert(old.end(), oldest->second.begin(), oldest->second.end());
    generations.erase(oldest);
  }
  return old;
}

}  // namespace forebay
