#pragma once

#include <cstdint>

namespace forebay::fakes {

/// Mutexes and reader-writer locks that this thread has taken in a way that may wait (not those
/// that it tried), whoever's they are. Counted in the place of the C library, in the programs alone
/// that call this; not together with a sanitizer, which does the same.
std::uint64_t LocksTaken();

}  // namespace forebay::fakes
