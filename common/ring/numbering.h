#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <unordered_map>
#include <utility>
#include <vector>

namespace forebay {

/// Numbers keys in the order in which they are met first, from 0. For many looks of few keys: those
/// met last are found without a look into the map. `Words` u64 make a key.
template <std::size_t Words>
class Numbering {
 public:
  using Key = std::array<std::uint64_t, Words>;

  /// Its number, and whether it is met for the first time.
  std::pair<std::uint32_t, bool> Of(const Key& key) {
    Met& last = met_[Hash()(key) >> (64U - kMetBits)];
    if (last.is_there && last.key == key) return {last.number, false};
    const auto next = static_cast<std::uint32_t>(numbers_.size());
    const auto [number, is_new] = numbers_.try_emplace(key, next);
    last = {true, number->second, key};
    return {number->second, is_new};
  }

 private:
  static constexpr unsigned kMetBits = 10;
  struct Hash {
    std::size_t operator()(const Key& key) const {
      std::uint64_t hash = 0;
      for (const std::uint64_t word : key) hash = (hash ^ word) * 0x9E3779B97F4A7C15ULL;
      return hash;
    }
  };
  struct Met {
    bool is_there = false;
    std::uint32_t number = 0;
    Key key;
  };
  std::vector<Met> met_ = std::vector<Met>(1U << kMetBits);
  std::unordered_map<Key, std::uint32_t, Hash> numbers_;
};

}  // namespace forebay
