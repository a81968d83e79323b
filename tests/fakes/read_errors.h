#pragma once

#include <cstdint>

namespace forebay::fakes {

/// While it lives, preadv2(2) of the descriptor fails with EIO, as of a file whose disk has gone.
/// In the place of the C library, in the programs alone that use this; one at a time.
class ReadErrors {
 public:
  explicit ReadErrors(int descriptor);
  ~ReadErrors();
  ReadErrors(const ReadErrors&) = delete;
  ReadErrors& operator=(const ReadErrors&) = delete;

  std::uint64_t seen() const;
};

}  // namespace forebay::fakes
