#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/result.h"

namespace forebay {

/// One pattern for keys below a link's prefix. `*` stands for any characters but '/', `**` for any,
/// `?` for one character but '/', `[a-z]` and `[!a-z]` for one of, or none of, those named, `{a,b}`
/// for any of its parts; `\` takes the next character as it is. A pattern that begins with '/' is
/// compared from the prefix on, any other one from the prefix or from behind any '/'. One that ends
/// with '/' means all below such a folder. Keys are bytes; what is no UTF-8 is a character per
/// byte.
class KeyGlob {
 public:
  /// Longer ones are nobody's.
  static constexpr std::size_t kMaxBytes = 1024;

  /// kInvalid says what is wrong with the pattern.
  static Result<KeyGlob> Parse(std::string_view pattern);

  /// `key` without the prefix.
  bool Matches(std::string_view key) const;

 private:
  enum class Kind : std::uint8_t { kCharacter, kOneOf, kNoneOf, kAnyOne, kStar, kStars };
  struct Token {
    Kind kind = Kind::kCharacter;
    std::u32string set = {};  // the character; or pairs of first and last
  };
  using Tokens = std::vector<Token>;

  static Result<Tokens> ParseTokens(std::u32string_view pattern);
  static Result<Token> ParseSet(std::u32string_view pattern, std::size_t& at);
  static bool Accepts(const Token& token, char32_t character);
  static bool MatchesTokens(const Tokens& tokens, std::u32string_view text, bool anywhere);

  bool anchored_ = false;
  std::vector<Tokens> alternatives_;
};

/// Which keys below a prefix a link shows: those that match one of `includes`, or all where there
/// is none, but for those that match one of `excludes`.
class KeyFilter {
 public:
  static constexpr std::size_t kMaxGlobs = 100;

  static Result<KeyFilter> Parse(const std::vector<std::string>& includes,
                                 const std::vector<std::string>& excludes);

  bool is_empty() const { return includes_.empty() && excludes_.empty(); }
  bool Shows(std::string_view key) const;

 private:
  std::vector<KeyGlob> includes_;
  std::vector<KeyGlob> excludes_;
};

}  // namespace forebay
