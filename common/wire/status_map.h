#pragma once

#include <cstdint>

#include "common/base/result.h"

namespace forebay {

/// What a reply's frame says about its error: the Code's own number, never 0.
std::uint8_t WireCodeOf(Code code);

/// The reverse. A number that this version does not know comes from a newer peer: kInternal, this
/// one request fails.
Code CodeOfWire(std::uint8_t wire);

}  // namespace forebay
