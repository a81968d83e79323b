#include "common/snapshot/shard_snapshot.h"

#include <algorithm>
#include <compare>
#include <cstddef>
#include <limits>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "common/snapshot/carry.h"

namespace forebay {
namespace {

/// Places are counted by their first bits: the exact cuts are then looked for among a few.
constexpr int kBucketBits = 16;
constexpr std::size_t kBuckets = std::size_t{1} << kBucketBits;

std::size_t BucketOf(std::uint64_t place) {
  return static_cast<std::size_t>(place >> (64 - kBucketBits));
}

/// Where a file stands in the order that is dealt; of two with the same place the earlier row is
/// first.
struct Rank {
  std::uint64_t place = 0;
  std::uint32_t row = 0;
  auto operator<=>(const Rank&) const = default;
};

/// The files of a shard are those from `begin` to `end`, which is behind it.
class Cuts {
 public:
  static Result<Cuts> Find(const Snapshot& whole, std::uint32_t directory, const Shard& shard) {
    std::vector<std::uint64_t> counts(kBuckets, 0);
    std::uint64_t total = 0;
    Status walked = whole.ForEachFile(directory, [&](const SnapshotRow&, std::string_view path) {
      ++counts[BucketOf(shard.PlaceOf(path))];
      ++total;
      return true;
    });
    if (!walked) return Fail(walked.error());
    Wanted begin(counts, shard.Begin(total));
    Wanted end(counts, shard.End(total));
    walked = whole.ForEachFile(directory, [&](const SnapshotRow& row, std::string_view path) {
      const Rank rank{shard.PlaceOf(path), row.index};
      begin.Look(rank);
      end.Look(rank);
      return true;
    });
    if (!walked) return Fail(walked.error());
    return Cuts(begin.Take(), end.Take());
  }

  bool Has(const Rank& rank) const {
    return (!begin_ || rank >= *begin_) && (!end_ || rank < *end_);
  }

 private:
  /// Looks for the file that is number `wanted` in order.
  class Wanted {
   public:
    Wanted(const std::vector<std::uint64_t>& counts, std::uint64_t wanted) : left_(wanted) {
      while (bucket_ < kBuckets && left_ >= counts[bucket_]) left_ -= counts[bucket_++];
    }
    void Look(const Rank& rank) {
      if (BucketOf(rank.place) == bucket_) near_.push_back(rank);
    }
    /// Nothing when there are no more than `wanted` files.
    std::optional<Rank> Take() {
      if (left_ >= near_.size()) return std::nullopt;
      const auto at = near_.begin() + static_cast<std::ptrdiff_t>(left_);
      std::ranges::nth_element(near_, at);
      return *at;
    }

   private:
    std::uint64_t left_;
    std::size_t bucket_ = 0;
    std::vector<Rank> near_;
  };

  Cuts(std::optional<Rank> begin, std::optional<Rank> end) : begin_(begin), end_(end) {
    // No file is number `begin`: the shard is empty.
    if (!begin_)
      begin_ = Rank{std::numeric_limits<std::uint64_t>::max(),
                    std::numeric_limits<std::uint32_t>::max()};
  }

  std::optional<Rank> begin_;
  std::optional<Rank> end_;
};

}  // namespace

Result<FinishedSnapshot> BuildShard(const std::shared_ptr<const Snapshot>& whole,
                                    std::uint32_t directory, const Shard& shard, ShardDeal deal,
                                    const std::string& path) {
  std::optional<Cuts> cuts;
  if (deal == ShardDeal::kEqually) {
    Result<Cuts> found = Cuts::Find(*whole, directory, shard);
    if (!found) return Fail(found.error());
    cuts = *found;
  }
  const auto has = [&](const SnapshotRow& row, std::string_view file) {
    return cuts ? cuts->Has({shard.PlaceOf(file), row.index}) : shard.HasName(file);
  };
  SnapshotOptions options;
  options.id = whole->id();
  options.domain = whole->domain();
  options.endpoint = whole->source().endpoint;
  options.bucket = whole->source().bucket;
  options.prefix = whole->source().prefix;
  options.block_bytes = whole->block_bytes();
  options.listed_unix_s = whole->listed_unix_s();
  options.previous = whole;
  SnapshotBuilder builder(std::move(options), path);
  Status added;
  Status walked = whole->ForEachFile(directory, [&](const SnapshotRow& row, std::string_view path) {
    if (has(row, path)) added = AddFileOf(*whole, row, path, builder);
    return added.has_value();
  });
  const auto all = [](std::string_view) { return true; };
  if (walked && added) added = AddFoldersOf(*whole, all, builder);
  if (walked && added) added = AddHiddenOf(*whole, all, builder);
  if (!walked) return Fail(walked.error());
  if (!added) return Fail(added.error());
  return builder.Finish();
}

}  // namespace forebay
