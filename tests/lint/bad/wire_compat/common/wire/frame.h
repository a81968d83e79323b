#pragma once

enum class Method : unsigned short {
  kReadBlock = 1,
  kFillBlocks = 3,  // was kEvictBlocks; kCheckBlocks is gone
};
inline constexpr unsigned kWireVersion = 2;
