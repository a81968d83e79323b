#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace forebay {

/// `text` as one line that cannot command a terminal: control characters (also the 8-bit ones) and
/// bytes that are not UTF-8 become \n, \t or \xNN, a backslash is doubled.
std::string Escaped(std::string_view text);

/// As Escaped, for a sentence: its backslashes are meant, as in "write \\[", and stay single.
std::string EscapedSentence(std::string_view sentence);

/// `text` with U+FFFD in place of each byte that is not UTF-8.
std::string ValidUtf8(std::string_view text);

/// How many characters a terminal shows, each taken as one column wide.
std::size_t DisplayWidth(std::string_view text);

/// As DisplayWidth, without the colour sequences of Coloured.
std::size_t VisibleWidth(std::string_view text);

/// As much of the beginning as is `columns` wide; what is cut off shows as an ellipsis.
std::string FirstColumns(std::string_view text, std::size_t columns);

/// "2026-01-02T03:04:05Z", UTC.
std::string Rfc3339(std::int64_t unix_seconds);
/// "2026-01-02T03:04:05.678Z".
std::string Rfc3339Ms(std::int64_t unix_ms);

/// done / total as 0..1: nothing of nothing is all of it, and more than all (blocks of an earlier
/// generation) is all.
double Ratio(std::uint64_t done, std::uint64_t total);
/// hits / reads; 0 before the first read.
double HitRatio(std::uint64_t hits, std::uint64_t reads);

}  // namespace forebay
