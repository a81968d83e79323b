#pragma once

#include <cstddef>
#include <cstdint>
#include <unordered_map>
#include <vector>

#include "common/base/deadline.h"
#include "common/model/block_id.h"
#include "common/model/object_version.h"

namespace forebay {

/// Which blocks a job reads whole enough to count towards a background fill (read_through.h). What
/// is asked for twice counts once. Remembers the last minute or two, in bounded memory. Pure: time
/// is given. Not thread-safe.
class DenseReads {
 public:
  /// A READ wants `range` of `block`, of an object of so many bytes that is cut into blocks of
  /// `block_bytes`.
  void Note(const BlockId& block, BlockRange range, std::uint64_t object_bytes,
            std::uint64_t block_bytes, TimePoint now);

  /// Hashes of blocks that count and came within the last minute; the later ones of very many.
  std::vector<std::uint64_t> Recent(TimePoint now);
  std::size_t size() const { return counted_.size(); }
  /// The first `count` of the last Recent() need not be said again.
  void Drop(std::size_t count);
  void Clear();

  static constexpr std::size_t kMostCounted = 1000;
  /// Objects that are remembered at once, at most twice as many.
  static constexpr std::size_t kMostObjects = 2048;

 private:
  /// A block by 64 slices: a slice is read when its last byte was asked for, which many small reads
  /// at random places do as often as one that covers the same bytes.
  struct OpenBlock {
    std::uint64_t offset = 0;
    std::uint64_t slices = 0;
  };
  struct Counted {
    std::uint64_t hash = 0;  // of a block
    TimePoint at;
  };
  struct Object {
    std::vector<OpenBlock> open;  // the latest last
    std::vector<Counted> read;    // until enough of them are
    bool counts = false;
  };
  using Objects = std::unordered_map<std::uint64_t, Object>;

  static void Forget(std::vector<Counted>& blocks, TimePoint now);
  Object& Find(const ObjectVersion& version, TimePoint now);
  void Count(Object& object, std::uint64_t hash, std::uint64_t blocks_of_object, TimePoint now);
  void Add(const Counted& counted);

  // By half of the version, which is a hash. What was not read for a while is left behind in
  // `before_`, and then dropped.
  Objects objects_;
  Objects before_;
  TimePoint turned_;
  std::vector<Counted> counted_;
};

}  // namespace forebay
