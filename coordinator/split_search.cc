#include "coordinator/split_search.h"

#include <algorithm>
#include <set>
#include <string_view>
#include <utility>

namespace forebay {
namespace {

unsigned char ByteAt(std::string_view text, std::size_t place) {
  return static_cast<unsigned char>(text[place]);
}

/// Bytes of the UTF-8 character that begins with this one; 1 where none does, 0 inside of one.
std::size_t CharacterBytes(unsigned char byte) {
  if (byte >= 0x80 && byte < 0xc0) return 0;
  if (byte < 0xc2 || byte > 0xf4) return 1;
  if (byte < 0xe0) return 2;
  return byte < 0xf0 ? 3 : 4;
}

constexpr unsigned char kLastByte = 0xf4;  // of any character

struct ByteRange {
  unsigned char first;
  unsigned char last;
};

/// Table 3-7 of the Unicode Standard, less the control characters (U+0080 to U+009F).
ByteRange SecondBytes(unsigned char lead) {
  switch (lead) {
    case 0xc2:
    case 0xe0:
      return {0xa0, 0xbf};
    case 0xed:
      return {0x80, 0x9f};  // no surrogates
    case 0xf0:
      return {0x90, 0xbf};
    case 0xf4:
      return {0x80, 0x8f};
    default:
      return {0x80, 0xbf};
  }
}

/// What goes on with the character that `stem` ends inside of. Nothing where it ends with a whole
/// one, or is no UTF-8 there.
std::optional<ByteRange> Continuation(std::string_view stem) {
  for (std::size_t back = 1; back <= std::min<std::size_t>(3, stem.size()); ++back) {
    const unsigned char lead = ByteAt(stem, stem.size() - back);
    const std::size_t bytes = CharacterBytes(lead);
    if (bytes == 0) continue;
    if (bytes <= back) return std::nullopt;
    if (back == 1) return SecondBytes(lead);
    const bool is_end = stem.ends_with("\xef\xbf");  // U+FFFE and U+FFFF are no characters
    return ByteRange{0x80, static_cast<unsigned char>(is_end ? 0xbd : 0xbf)};
  }
  return std::nullopt;
}

/// The bytes from `first` to `last` that a marker may have behind `stem`: of printable ASCII, or of
/// a longer character. Markers are valid UTF-8 wherever their key is.
std::vector<unsigned char> BytesBehind(std::string_view stem, unsigned first, unsigned last) {
  const std::optional<ByteRange> inside = Continuation(stem);
  std::vector<unsigned char> bytes;
  for (unsigned at = first; at <= last; ++at) {
    const auto byte = static_cast<unsigned char>(at);
    const bool begins = (byte >= 0x20 && byte < 0x7f) || CharacterBytes(byte) > 1;
    const bool goes_on = inside && byte >= inside->first && byte <= inside->last;
    if (inside ? goes_on : begins) bytes.push_back(byte);
  }
  return bytes;
}

std::size_t CommonPrefix(std::string_view a, std::string_view b) {
  const auto differs = std::ranges::mismatch(a, b);
  return static_cast<std::size_t>(differs.in1 - a.begin());
}

/// The first text that begins so and is a whole number of characters.
std::string Marker(std::string_view stem, unsigned char byte) {
  std::string marker(stem);
  marker.push_back(static_cast<char>(byte));
  while (const auto next = Continuation(marker)) marker.push_back(static_cast<char>(next->first));
  return marker;
}

/// `count` of the numbers in [begin, end), evenly, or all of them.
std::vector<std::size_t> Spread(std::size_t begin, std::size_t end, std::size_t count) {
  const std::size_t size = end - begin;
  std::vector<std::size_t> picks;
  const std::size_t parts = std::min(size, count);
  picks.reserve(parts);
  for (std::size_t i = 0; i < parts; ++i) {
    picks.push_back(size <= count ? begin + i : begin + size * (i + 1) / (count + 1));
  }
  return picks;
}

/// One search; a temporary of FindSplits.
class Search {
 public:
  Search(UnlistedRange range, std::size_t at_once, ProbeAll probe)
      : range_(std::move(range)), at_once_(at_once), probe_(std::move(probe)) {}

  /// The number of the first marker behind which there is a key, when markers with one follow
  /// those without. Keeps the keys that it met.
  Task<Result<std::optional<std::size_t>>> FirstWithKey(std::vector<std::string> markers) {
    std::size_t low = 0;
    std::size_t high = markers.size();
    while (low < high) {
      const std::vector<std::size_t> picks = Spread(low, high, at_once_);
      std::vector<std::string> chosen;
      chosen.reserve(picks.size());
      for (const std::size_t pick : picks) chosen.push_back(markers[pick]);
      Result<std::vector<std::optional<std::string>>> found = co_await probe_(std::move(chosen));
      if (!found) co_return Fail(found.error());
      for (const auto& key : *found) {
        if (key) met_.insert(*key);
      }
      const auto first =
          std::ranges::find_if(*found, [](const auto& key) { return key.has_value(); });
      const auto index = static_cast<std::size_t>(first - found->begin());
      if (index > 0) low = picks[index - 1] + 1;
      if (first != found->end()) high = picks[index];
    }
    co_return high == markers.size() ? std::optional<std::size_t>() : high;
  }

  /// The shortest beginning of the position behind which there still are keys is where the rest of
  /// the range spreads out: so a prefix that all keys share costs two rounds, however long it is.
  Task<Result<std::optional<std::size_t>>> FindSpread() {
    const std::string& position = range_.position;
    const std::size_t from =
        range_.until ? CommonPrefix(position, *range_.until) : range_.prefix_bytes;
    std::vector<std::size_t> places;
    std::vector<std::string> markers;
    for (std::size_t i = from; i < position.size(); ++i) {
      const std::vector<unsigned char> larger = BytesBehind(Stem(i), Low(i) + 1U, kLastByte);
      if (larger.empty()) continue;
      places.push_back(i);
      markers.push_back(Marker(Stem(i), larger.front()));
    }
    Result<std::optional<std::size_t>> first = co_await FirstWithKey(std::move(markers));
    if (!first || !*first) co_return first;
    co_return places[**first];
  }

  /// The largest byte at `place` behind which there are keys, above the position's own.
  Task<Result<std::optional<unsigned char>>> FindTop(std::size_t place) {
    const std::string_view stem = Stem(place);
    unsigned char last = kLastByte;
    const std::optional<std::string>& until = range_.until;
    if (until && until->size() > place && until->starts_with(stem)) {
      last = std::min(last, ByteAt(*until, place));
    }
    std::vector<unsigned char> bytes = BytesBehind(stem, Low(place) + 1U, last);
    std::ranges::reverse(bytes);
    std::vector<std::string> markers;
    markers.reserve(bytes.size());
    for (const unsigned char byte : bytes) markers.push_back(Marker(stem, byte));
    Result<std::optional<std::size_t>> first = co_await FirstWithKey(std::move(markers));
    if (!first) co_return Fail(first.error());
    if (!*first) co_return std::optional<unsigned char>();
    co_return bytes[**first];
  }

  /// The first keys of bytes between the position's own and `top`, evenly spread.
  Task<Result<std::set<std::string>>> KeysUpTo(std::size_t place, unsigned char top,
                                               std::size_t wanted) {
    const std::vector<unsigned char> bytes = BytesBehind(Stem(place), Low(place) + 1U, top);
    std::vector<std::string> markers;
    for (const std::size_t pick : Spread(0, bytes.size(), wanted)) {
      markers.push_back(Marker(Stem(place), bytes[pick]));
    }
    Result<std::vector<std::optional<std::string>>> found = co_await probe_(std::move(markers));
    if (!found) co_return Fail(found.error());
    std::set<std::string> keys;
    for (const auto& key : *found) {
      if (key) keys.insert(*key);
    }
    co_return keys;
  }

  const std::set<std::string>& met() const { return met_; }

 private:
  std::string_view Stem(std::size_t place) const {
    return std::string_view(range_.position).substr(0, place);
  }
  unsigned char Low(std::size_t place) const { return ByteAt(range_.position, place); }

  const UnlistedRange range_;
  const std::size_t at_once_;
  const ProbeAll probe_;
  std::set<std::string> met_;
};

/// At most `wanted` of them, evenly.
std::vector<std::string> Some(const std::set<std::string>& keys, std::size_t wanted) {
  const std::vector<std::string> all(keys.begin(), keys.end());
  std::vector<std::string> some;
  for (const std::size_t pick : Spread(0, all.size(), wanted)) some.push_back(all[pick]);
  return some;
}

}  // namespace

Task<Result<std::vector<std::string>>> FindSplits(UnlistedRange range, std::size_t wanted,
                                                  std::size_t at_once, ProbeAll probe) {
  Search search(std::move(range), at_once, std::move(probe));
  Result<std::optional<std::size_t>> place = co_await search.FindSpread();
  if (!place) co_return Fail(place.error());
  if (!*place) co_return std::vector<std::string>();
  Result<std::optional<unsigned char>> top = co_await search.FindTop(**place);
  if (!top) co_return Fail(top.error());
  // The keys behind a long tail of the names alone: what the searches met is all there is.
  if (!*top) co_return Some(search.met(), wanted);
  Result<std::set<std::string>> keys = co_await search.KeysUpTo(**place, **top, wanted);
  if (!keys) co_return Fail(keys.error());
  co_return Some(keys->empty() ? search.met() : *keys, wanted);
}

}  // namespace forebay
