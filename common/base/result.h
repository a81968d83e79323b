#pragma once

#include <cstdint>
#include <expected>
#include <string>
#include <string_view>
#include <utility>

namespace forebay {

/// What the caller does next. Ten codes at most (DESIGN section 9); a new one needs a new next
/// step, not a new cause. The values travel on the wire (common/wire/status_map) and never change
/// their meaning.
enum class Code : std::uint8_t {
  kNotFound = 1,  ///< It does not exist, says a complete listing or a signed answer: answer that.
  kStale = 2,     ///< The object is no longer this version: look it up again.
  kUnavailable = 3,  ///< This peer or origin cannot answer now: ask the next owner, or retry.
  kOverloaded = 4,   ///< It can, but not now: back off, then the same place again.
  kTimeout = 5,      ///< The deadline passed; whether the work was done is unknown.
  kCorrupt = 6,      ///< A checksum or identity did not match: drop it and fetch it again.
  kDenied = 7,       ///< Credentials or role do not allow it: do not retry, tell the user.
  kInvalid = 8,      ///< The request itself is wrong: do not retry, tell the caller.
  kInternal =
      9,  ///< A bug or an unusable host (a full or broken disk): log it, fail this one request.
};

/// The code's name without the `k`, for logs and metrics ("NotFound").
std::string_view CodeName(Code code);

/// A failure: what to do next, and one sentence for a human: what, where, and what to do about it.
struct Error {
  Code code = Code::kInternal;
  std::string message;

  /// The same failure seen from one layer further up: "reading train/a.jpg: S3 answered 503".
  Error Within(std::string_view context) const {
    std::string text(context);
    text.append(": ").append(message);
    return Error{code, std::move(text)};
  }

  bool operator==(const Error&) const = default;
};

template <typename T>
using Result = std::expected<T, Error>;
using Status = std::expected<void, Error>;

/// `return Fail(Code::kInvalid, "…")` from any function that returns a Result.
inline std::unexpected<Error> Fail(Code code, std::string message) {
  return std::unexpected<Error>(Error{code, std::move(message)});
}
inline std::unexpected<Error> Fail(Error error) { return std::unexpected<Error>(std::move(error)); }

}  // namespace forebay
