#include "fuse-client/known_places.h"

#include <algorithm>
#include <utility>

#include "common/model/limits.h"

namespace forebay {

KnownPlaces::Shard& KnownPlaces::ShardOf(const Key& key) {
  // Other bits than those that choose the bucket.
  return shards_[(Hash()(key) * 0x9E3779B97F4A7C15ULL) >> 58U];
}

PlaceTeller* KnownPlaces::Teller(std::uint64_t store, const std::string& node,
                                 const std::string& address) {
  const std::scoped_lock lock(tellers_mutex_);
  std::unique_ptr<PlaceTeller>& teller = tellers_[store];
  if (!teller) {
    teller = std::make_unique<PlaceTeller>();
    teller->store = store;
    teller->node = node;
    teller->address = address;
  }
  return teller.get();
}

void KnownPlaces::Erase(Shard& shard, const Key& key) {
  if (shard.entries.erase(key) > 0) shard.bytes -= BytesOf(key.block);
}

void KnownPlaces::MakeRoom(Shard& shard, std::uint64_t bytes) const {
  while (!shard.entries.empty() && shard.bytes + bytes > limit_) {
    shard.random = shard.random * 6364136223846793005ULL + 1442695040888963407ULL;
    const std::size_t buckets = shard.entries.bucket_count();
    std::size_t bucket = (shard.random >> 16U) % buckets;
    while (shard.entries.begin(bucket) == shard.entries.end(bucket))
      bucket = (bucket + 1) % buckets;
    const Key victim = shard.entries.begin(bucket)->first;
    Erase(shard, victim);
  }
}

void KnownPlaces::Remember(const Uuid& link, const BlockId& block, BlockRange cells,
                           PlaceTeller* teller, const Place& place) {
  const std::uint64_t bytes = BytesOf(block);
  const std::size_t first = cells.begin / kCellBytes;
  const std::uint32_t era = teller->era.load(std::memory_order_relaxed);
  const std::uint64_t position = place.position - cells.begin;
  if (bytes > limit_ || first + place.checksums.size() > block.cells()) return;
  const Key key{link, block};
  Shard& shard = ShardOf(key);
  const std::scoped_lock lock(shard.mutex);
  auto found = shard.entries.find(key);
  if (found == shard.entries.end()) {
    MakeRoom(shard, bytes);
    found = shard.entries.try_emplace(key).first;
    shard.bytes += bytes;
  }
  Entry& entry = found->second;
  const bool same = entry.teller == teller && entry.era == era && entry.segment == place.segment &&
                    entry.position == position;
  if (!same) {
    entry = {teller, era, place.segment, position, std::vector<std::uint64_t>(block.cells())};
  }
  std::ranges::copy(place.checksums, entry.checksums.begin() + static_cast<std::ptrdiff_t>(first));
}

std::optional<KnownPlaces::Known> KnownPlaces::Find(const Uuid& link, const BlockId& block,
                                                    BlockRange cells) {
  if (limit_ == 0) return std::nullopt;
  const Key key{link, block};
  Shard& shard = ShardOf(key);
  const std::scoped_lock lock(shard.mutex);
  const auto found = shard.entries.find(key);
  if (found == shard.entries.end()) return std::nullopt;
  const Entry& entry = found->second;
  if (entry.era != entry.teller->era.load(std::memory_order_relaxed)) {
    Erase(shard, key);
    return std::nullopt;
  }
  const auto first = entry.checksums.begin() + cells.begin / kCellBytes;
  const auto last = entry.checksums.begin() + (cells.end + kCellBytes - 1) / kCellBytes;
  if (std::find(first, last, 0U) != last) return std::nullopt;
  Known known;
  known.teller = entry.teller;
  known.segment = entry.segment;
  known.position = entry.position + cells.begin;
  known.checksums.assign(first, last);
  return known;
}

bool KnownPlaces::Lacks(const Uuid& link, const BlockId& block) {
  const Key key{link, block};
  const Shard& shard = ShardOf(key);
  const std::scoped_lock lock(shard.mutex);
  return shard.bytes + 2 * BytesOf(block) <= limit_ && !shard.entries.contains(key);
}

void KnownPlaces::Forget(const Uuid& link, const BlockId& block) {
  const Key key{link, block};
  Shard& shard = ShardOf(key);
  const std::scoped_lock lock(shard.mutex);
  Erase(shard, key);
}

std::size_t KnownPlaces::size() const {
  std::size_t sum = 0;
  for (const Shard& shard : shards_) {
    const std::scoped_lock lock(shard.mutex);
    sum += shard.entries.size();
  }
  return sum;
}

}  // namespace forebay
