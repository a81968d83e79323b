#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>

namespace forebay::testing {

/// The last blocks that were read: a READ of one of them belongs to the read before.
class Recent {
 public:
  bool Has(std::uint32_t block) {
    left_.reset();
    if (std::ranges::find(blocks_, block) != blocks_.end()) return true;
    blocks_.push_back(block);
    if (blocks_.size() > kMost) {
      left_ = blocks_.front();
      blocks_.pop_front();
    }
    return false;
  }
  /// The block that is none of them since the last call of Has.
  std::optional<std::uint32_t> Left() const { return left_; }

 private:
  /// Of the blocks in a row that a node's memory remembers.
  static constexpr std::size_t kMost = 16;
  std::deque<std::uint32_t> blocks_;
  std::optional<std::uint32_t> left_;
};

}  // namespace forebay::testing
