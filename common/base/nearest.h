#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace forebay {

/// How many letters must be inserted, dropped, changed or swapped with their neighbour to make `b`
/// of `a`; `-` and `_` count as the same, and so do capitals.
std::size_t EditDistance(std::string_view a, std::string_view b);

/// The candidate that `word` was probably meant to be: the nearest one, or "" when none has half of
/// its letters right.
std::string Nearest(std::string_view word, const std::vector<std::string>& candidates);

/// "did you mean listen?", or "known are a, b and c" when nothing is near. For the end of an error
/// message.
std::string Suggest(std::string_view word, const std::vector<std::string>& candidates);

}  // namespace forebay
