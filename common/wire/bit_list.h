#pragma once

#include <cstddef>
#include <string>
#include <string_view>

// Answers of yes or no about each of many blocks: bit i, least significant first, is of the i-th.
namespace forebay {

/// Bits that a list leaves out are not set.
inline bool IsMarked(std::string_view bits, std::size_t i) {
  return i / 8 < bits.size() && (static_cast<unsigned char>(bits[i / 8]) >> (i % 8) & 1U) != 0;
}

/// `bits` has one for i.
inline void Mark(std::string& bits, std::size_t i) {
  bits[i / 8] = static_cast<char>(static_cast<unsigned char>(bits[i / 8]) | (1U << (i % 8)));
}

}  // namespace forebay
