#include "common/model/key_filter.h"

#include <algorithm>
#include <array>
#include <utility>

namespace forebay {
namespace {

/// `{a,b}{c,d}…` doubles with each: a pattern that stands for more is a mistake.
constexpr std::size_t kMaxAlternatives = 64;
/// Bytes that are no UTF-8 become characters that no UTF-8 has.
constexpr char32_t kRawByte = 0x110000;

/// How many bytes a character that begins with this one takes; 0 = none begins so.
std::size_t LengthBy(unsigned char first) {
  if (first < 0x80) return 1;
  if (first >= 0xC2 && first < 0xE0) return 2;
  if (first >= 0xE0 && first < 0xF0) return 3;
  return first >= 0xF0 && first < 0xF5 ? 4 : 0;
}

/// The first character of `text`, which is not empty; takes it off.
char32_t TakeCharacter(std::string_view& text) {
  static constexpr std::array<unsigned, 5> kMask = {0, 0x7F, 0x1F, 0x0F, 0x07};
  const auto first = static_cast<unsigned char>(text.front());
  const std::size_t length = LengthBy(first);
  char32_t character = first & kMask[length];
  bool valid = length > 0 && length <= text.size();
  for (std::size_t i = 1; valid && i < length; ++i) {
    const auto next = static_cast<unsigned char>(text[i]);
    valid = (next & 0xC0U) == 0x80U;
    character = (character << 6U) | (next & 0x3FU);
  }
  text.remove_prefix(valid ? length : 1);
  return valid ? character : kRawByte + first;
}

std::u32string Characters(std::string_view text) {
  std::u32string characters;
  characters.reserve(text.size());
  while (!text.empty()) characters.push_back(TakeCharacter(text));
  return characters;
}

/// The place of the '}' that closes the '{' at `open`, and the ',' between them; kInvalid: none.
struct Braces {
  std::vector<std::size_t> bounds;  // '{', each ',' and '}'
};
Result<Braces> FindBraces(std::u32string_view pattern, std::size_t open) {
  Braces braces;
  braces.bounds.push_back(open);
  int depth = 1;
  for (std::size_t i = open + 1; i < pattern.size(); ++i) {
    const char32_t character = pattern[i];
    if (character == U'\\') ++i;
    if (character == U'{') ++depth;
    if (character == U',' && depth == 1) braces.bounds.push_back(i);
    if (character != U'}' || --depth > 0) continue;
    braces.bounds.push_back(i);
    return braces;
  }
  return Fail(Code::kInvalid, "a '{' is not closed: write \\{ for the character itself");
}

std::size_t FindOpenBrace(std::u32string_view pattern) {
  bool in_set = false;
  for (std::size_t i = 0; i < pattern.size(); ++i) {
    const char32_t character = pattern[i];
    if (character == U'\\') {
      ++i;
    } else if (in_set) {
      in_set = character != U']';
    } else if (character == U'[') {
      in_set = true;
    } else if (character == U'{') {
      return i;
    }
  }
  return std::u32string_view::npos;
}

/// The patterns without braces that `pattern` stands for.
Result<std::vector<std::u32string>> Expand(std::u32string_view pattern) {
  std::vector<std::u32string> open = {std::u32string(pattern)};
  std::vector<std::u32string> expanded;
  while (!open.empty()) {
    const std::u32string next = std::move(open.back());
    open.pop_back();
    const std::size_t brace = FindOpenBrace(next);
    if (brace == std::u32string::npos) {
      expanded.push_back(next);
      continue;
    }
    const Result<Braces> braces = FindBraces(next, brace);
    if (!braces) return Fail(braces.error());
    const std::vector<std::size_t>& bounds = braces->bounds;
    for (std::size_t i = 0; i + 1 < bounds.size(); ++i) {
      open.push_back(next.substr(0, brace) +
                     next.substr(bounds[i] + 1, bounds[i + 1] - bounds[i] - 1) +
                     next.substr(bounds.back() + 1));
    }
    if (open.size() + expanded.size() > kMaxAlternatives)
      return Fail(Code::kInvalid, "its {a,b} stand for more than 64 patterns: give several globs");
  }
  return expanded;
}

}  // namespace

Result<KeyGlob> KeyGlob::Parse(std::string_view pattern) {
  const auto refuse = [&](std::string_view why) {
    return Fail(Code::kInvalid, "glob '" + std::string(pattern) + "': " + std::string(why));
  };
  if (pattern.empty() || pattern == "/") return refuse("it matches nothing: write ** for all");
  if (pattern.size() > kMaxBytes) return refuse("it is longer than 1024 bytes");
  KeyGlob glob;
  glob.anchored_ = pattern.starts_with('/');
  std::u32string characters = Characters(pattern.substr(glob.anchored_ ? 1 : 0));
  if (characters.ends_with(U'/')) characters += U"**";
  const Result<std::vector<std::u32string>> expanded = Expand(characters);
  if (!expanded) return refuse(expanded.error().message);
  for (const std::u32string& one : *expanded) {
    Result<Tokens> tokens = ParseTokens(one);
    if (!tokens) return refuse(tokens.error().message);
    glob.alternatives_.push_back(std::move(*tokens));
  }
  return glob;
}

Result<KeyGlob::Tokens> KeyGlob::ParseTokens(std::u32string_view pattern) {
  Tokens tokens;
  for (std::size_t i = 0; i < pattern.size(); ++i) {
    switch (pattern[i]) {
      case U'*': {
        std::size_t stars = 1;
        while (i + 1 < pattern.size() && pattern[i + 1] == U'*') {
          ++stars;
          ++i;
        }
        tokens.push_back({.kind = stars > 1 ? Kind::kStars : Kind::kStar});
        break;
      }
      case U'?':
        tokens.push_back({.kind = Kind::kAnyOne});
        break;
      case U'[': {
        Result<Token> set = ParseSet(pattern, i);
        if (!set) return Fail(set.error());
        tokens.push_back(std::move(*set));
        break;
      }
      case U'\\':
        if (++i == pattern.size())
          return Fail(Code::kInvalid, "nothing follows its last \\: write \\\\ for the character");
        [[fallthrough]];
      default:
        tokens.push_back({.kind = Kind::kCharacter, .set = {pattern[i]}});
    }
  }
  return tokens;
}

/// `at` is at the '[', and then at the ']'. A ']' that comes first is one of the characters.
Result<KeyGlob::Token> KeyGlob::ParseSet(std::u32string_view pattern, std::size_t& at) {
  Token token{.kind = Kind::kOneOf};
  std::size_t i = at + 1;
  if (i < pattern.size() && (pattern[i] == U'!' || pattern[i] == U'^')) {
    token.kind = Kind::kNoneOf;
    ++i;
  }
  const auto take = [&]() -> char32_t {
    if (pattern[i] == U'\\' && i + 1 < pattern.size()) ++i;
    return pattern[i++];
  };
  for (bool first = true; i < pattern.size() && (first || pattern[i] != U']'); first = false) {
    const char32_t from = take();
    char32_t to = from;
    if (i + 1 < pattern.size() && pattern[i] == U'-' && pattern[i + 1] != U']') {
      ++i;
      to = take();
    }
    if (to < from) return Fail(Code::kInvalid, "a range of its [...] ends before it begins");
    token.set += {from, to};
  }
  if (i >= pattern.size())
    return Fail(Code::kInvalid, "a '[' is not closed: write \\[ for the character itself");
  at = i;
  return token;
}

bool KeyGlob::Accepts(const Token& token, char32_t character) {
  switch (token.kind) {
    case Kind::kCharacter:
      return token.set.front() == character;
    case Kind::kStars:
      return true;
    case Kind::kStar:
    case Kind::kAnyOne:
      return character != U'/';
    case Kind::kOneOf:
    case Kind::kNoneOf:
      break;
  }
  if (character == U'/') return false;
  bool named = false;
  for (std::size_t i = 0; i + 1 < token.set.size(); i += 2)
    named |= token.set[i] <= character && character <= token.set[i + 1];
  return named == (token.kind == Kind::kOneOf);
}

/// All places of the pattern that the text so far may have come to, at once: no pattern takes
/// longer than its length times the text's. `anywhere`: it may begin behind any '/'.
bool KeyGlob::MatchesTokens(const Tokens& tokens, std::u32string_view text, bool anywhere) {
  std::vector<bool> now(tokens.size() + 1);
  std::vector<bool> next(tokens.size() + 1);
  const auto is_star = [&](std::size_t place) {
    return tokens[place].kind == Kind::kStar || tokens[place].kind == Kind::kStars;
  };
  // A star may stand for nothing.
  const auto reach = [&](std::vector<bool>& places, std::size_t place) {
    places[place] = true;
    while (place < tokens.size() && is_star(place)) places[++place] = true;
  };
  reach(now, 0);
  for (const char32_t character : text) {
    std::fill(next.begin(), next.end(), false);
    for (std::size_t place = 0; place < tokens.size(); ++place) {
      if (now[place] && Accepts(tokens[place], character))
        reach(next, is_star(place) ? place : place + 1);
    }
    if (anywhere && character == U'/') reach(next, 0);
    std::swap(now, next);
  }
  return now[tokens.size()];
}

bool KeyGlob::Matches(std::string_view key) const {
  const std::u32string text = Characters(key);
  return std::ranges::any_of(
      alternatives_, [&](const Tokens& tokens) { return MatchesTokens(tokens, text, !anchored_); });
}

Result<KeyFilter> KeyFilter::Parse(const std::vector<std::string>& includes,
                                   const std::vector<std::string>& excludes) {
  KeyFilter filter;
  if (includes.size() + excludes.size() > kMaxGlobs)
    return Fail(Code::kInvalid, "a link takes 100 globs at most");
  for (const std::string& text : includes) {
    Result<KeyGlob> glob = KeyGlob::Parse(text);
    if (!glob) return Fail(glob.error());
    filter.includes_.push_back(std::move(*glob));
  }
  for (const std::string& text : excludes) {
    Result<KeyGlob> glob = KeyGlob::Parse(text);
    if (!glob) return Fail(glob.error());
    filter.excludes_.push_back(std::move(*glob));
  }
  return filter;
}

bool KeyFilter::Shows(std::string_view key) const {
  const auto matches = [&](const KeyGlob& glob) { return glob.Matches(key); };
  if (!includes_.empty() && std::ranges::none_of(includes_, matches)) return false;
  return std::ranges::none_of(excludes_, matches);
}

}  // namespace forebay
