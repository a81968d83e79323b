#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "common/base/result.h"

namespace forebay {

/// One of `count` parts of a link's objects, as the machines of a training job divide them among
/// each other (SageMaker's ShardedByS3Key). Objects are put in the order of a hash of their paths,
/// and each shard has its run of that order: so every object is in exactly one shard, sizes differ
/// by one object at most, and an object that comes or goes moves at most one other between any two
/// neighbours. With a seed the order is another one for each seed and epoch.
///
/// The parts of a set (link_set.h) are dealt by name: the order has no ends to be counted, but each
/// shard has the same share of all places there are, and the place is that of the path without its
/// ending. So images/1.jpg of one part and labels/1.txt of another one are in the same shard
/// whatever else the parts have, and sizes differ as chance has it.
struct Shard {
  std::uint32_t index = 0;  ///< From 0.
  std::uint32_t count = 1;  ///< 1 = all objects.
  std::optional<std::uint64_t> seed = std::nullopt;
  std::uint64_t epoch = 0;  ///< 0 without a seed.

  static constexpr std::uint32_t kMaxCount = 1'000'000;

  /// "I/N[,seed=S[,epoch=E]]". kInvalid says what is wrong with the text.
  static Result<Shard> Parse(std::string_view text);
  std::string ToString() const;

  bool is_all() const { return count == 1; }
  /// The place of the object at `path`, from the link's root, in the order that is dealt.
  std::uint64_t PlaceOf(std::string_view path) const;
  /// Of `total` objects in order, the shard has those from Begin to End, this one not.
  std::uint64_t Begin(std::uint64_t total) const { return Cut(total, index); }
  std::uint64_t End(std::uint64_t total) const { return Cut(total, std::uint64_t{index} + 1); }

  /// Dealt by name: the shard has the object at `path`.
  bool HasName(std::string_view path) const;

  bool operator==(const Shard&) const = default;

 private:
  std::uint64_t Cut(std::uint64_t total, std::uint64_t of) const;
};

/// `path` up to the last dot of its last component, unless that begins with its only dots: "a/1"
/// of "a/1.jpg", "a/1.tar" of "a/1.tar.gz", all of "a.d/1" and ".hidden".
std::string_view WithoutEnding(std::string_view path);

}  // namespace forebay
