#include "fuse-client/dense_reads.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "common/model/read_through.h"

namespace forebay {
namespace {

constexpr std::uint64_t kSlices = 64;

/// Blocks of one object that are read in part. More than a few are random reads, of which the
/// oldest is forgotten.
constexpr std::size_t kMostOpen = 64;

/// A version is a hash; this mixes in the offset.
std::uint64_t HashOf(const BlockId& block) {
  return block.version.low ^ (block.offset * 0x9E3779B97F4A7C15ULL);
}

/// The slices whose last byte lies in `range`.
std::uint64_t SlicesIn(BlockRange range, std::uint32_t length, std::uint64_t slice) {
  const std::uint64_t first = range.begin / slice;
  std::uint64_t end = range.end / slice;
  if (range.end == length && range.end % slice != 0) ++end;
  if (end <= first) return 0;
  const std::uint64_t below_end = end >= kSlices ? ~0ULL : (1ULL << end) - 1;
  return below_end & ~((1ULL << first) - 1);
}

}  // namespace

DenseReads::Object& DenseReads::Find(const ObjectVersion& version, TimePoint now) {
  if (objects_.size() >= kMostObjects || now - turned_ >= kReadThroughWindow) {
    before_ = std::exchange(objects_, {});
    turned_ = now;
  }
  const auto [object, is_new] = objects_.try_emplace(version.low);
  if (is_new) {
    const auto earlier = before_.find(version.low);
    if (earlier != before_.end()) object->second = std::move(earlier->second);
  }
  return object->second;
}

void DenseReads::Note(const BlockId& block, BlockRange range, std::uint64_t object_bytes,
                      std::uint64_t block_bytes, TimePoint now) {
  if (block.length == 0 || block_bytes == 0) return;
  const std::uint64_t slice = std::max<std::uint64_t>(kCellBytes, block_bytes / kSlices);
  const std::uint64_t all = (block.length + slice - 1) / slice;
  const std::uint64_t read = SlicesIn(range, block.length, slice);
  if (read == 0) return;
  Object& object = Find(block.version, now);
  auto open = std::ranges::find(object.open, block.offset, &OpenBlock::offset);
  if (open == object.open.end()) {
    if (object.open.size() >= kMostOpen) object.open.erase(object.open.begin());
    open = object.open.insert(object.open.end(), OpenBlock{.offset = block.offset});
  }
  const bool counted = 2 * static_cast<std::uint64_t>(std::popcount(open->slices)) >= all;
  open->slices |= read;
  if (counted || 2 * static_cast<std::uint64_t>(std::popcount(open->slices)) < all) return;
  Count(object, HashOf(block), (object_bytes + block_bytes - 1) / block_bytes, now);
}

void DenseReads::Forget(std::vector<Counted>& blocks, TimePoint now) {
  std::erase_if(blocks, [&](const Counted& block) { return now - block.at > kReadThroughWindow; });
}

void DenseReads::Count(Object& object, std::uint64_t hash, std::uint64_t blocks_of_object,
                       TimePoint now) {
  if (object.counts) {
    Add({hash, now});
    return;
  }
  Forget(object.read, now);
  object.read.push_back({hash, now});
  const std::uint64_t enough = (blocks_of_object + kObjectPart - 1) / kObjectPart;
  // So many trigger a fill by themselves.
  object.counts = object.read.size() >= std::min<std::uint64_t>(enough, kMostCounted);
  if (!object.counts) return;
  for (const Counted& block : object.read) Add(block);
  object.read = {};
}

void DenseReads::Add(const Counted& counted) {
  if (counted_.size() >= 2 * kMostCounted) {
    counted_.erase(counted_.begin(), counted_.end() - static_cast<std::ptrdiff_t>(kMostCounted));
  }
  counted_.push_back(counted);
}

std::vector<std::uint64_t> DenseReads::Recent(TimePoint now) {
  Forget(counted_, now);
  if (counted_.size() > kMostCounted) {
    counted_.erase(counted_.begin(), counted_.end() - static_cast<std::ptrdiff_t>(kMostCounted));
  }
  std::vector<std::uint64_t> hashes;
  hashes.reserve(counted_.size());
  for (const Counted& counted : counted_) hashes.push_back(counted.hash);
  return hashes;
}

void DenseReads::Drop(std::size_t count) {
  counted_.erase(counted_.begin(),
                 counted_.begin() + static_cast<std::ptrdiff_t>(std::min(count, counted_.size())));
}

void DenseReads::Clear() { *this = {}; }

}  // namespace forebay
