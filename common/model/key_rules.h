#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace forebay {

/// Why an S3 key has no file in the mount (DESIGN section 4, key rules). Values are stored in
/// snapshots and never change their meaning; all are below kHiddenReasonSlots.
enum class HiddenReason : std::uint8_t {
  kEmptyComponent = 1,  ///< "/a", "a//b", "a//": the kernel fails a directory with an empty name.
  kDotComponent = 2,    ///< A component is "." or "..".
  kNulByte = 3,         ///< A path cannot hold a NUL byte.
  kTooLong = 4,  ///< A component is longer than kMaxNameBytes, the whole key than kMaxKeyBytes.
  kReservedName = 5,         ///< ".forebay" at the link's root is ours.
  kShadowedByDirectory = 6,  ///< "a" beside "a/b": the directory is shown, the object is not.
  kMarkerWithBytes = 7,      ///< "dir/" holds data: the directory is shown, the data is not.
  /// Its size or ETag does not fit a snapshot (16 TiB, 255 bytes), or S3 listed it without a valid
  /// size, ETag or date.
  kOutOfRange = 8,
};
inline constexpr std::size_t kHiddenReasonSlots = 16;     ///< Counters per reason in a snapshot.
inline constexpr std::size_t kMaxListedKeyBytes = 65535;  ///< Of a key that is listed as hidden.

/// Name of the hidden control directory at the root of every link (INTERFACE, "In the mount").
inline constexpr std::string_view kControlDirectoryName = ".forebay";

/// One sentence part for people: "a component of the key is empty".
std::string_view HiddenReasonText(HiddenReason reason);

/// What a key becomes in the tree. The rules look at the key alone; what needs its neighbours or
/// attributes (kShadowedByDirectory, kMarkerWithBytes, kOutOfRange) is decided by the snapshot.
struct KeyVerdict {
  enum class Kind : std::uint8_t {
    kFile,             ///< `path` is the file's path.
    kDirectoryMarker,  ///< "dir/": `path` is the directory's path, without the slash.
    kRootMarker,       ///< The link's own prefix ("train/" of s3://b/train/): shows nothing.
    kHidden,           ///< Not shown; `reason` says why.
  };
  Kind kind = Kind::kHidden;
  HiddenReason reason = HiddenReason::kEmptyComponent;  ///< Meaningful for kHidden only.
  std::string_view path;  ///< A part of the argument: '/' between components, none at the ends.
};

/// Judges a key relative to the link's root (RelativeKey). Components are raw bytes: nothing is
/// decoded, folded or normalised. Pure; never allocates.
KeyVerdict JudgeKey(std::string_view relative);

/// True for a link to exactly one object: its prefix is neither empty nor ends with '/'.
bool IsSingleObjectPrefix(std::string_view prefix);

/// `key` relative to a link of `prefix`; nothing when it is not the link's. A prefix ending with
/// '/' takes what lies below it, an empty one everything, and any other exactly the one key that it
/// names, shown under its base name. So "pre" never takes "prefix2".
std::optional<std::string_view> RelativeKey(std::string_view prefix, std::string_view key);

/// The inverse of RelativeKey: the full S3 key of the file at `path`.
std::string KeyAtPath(std::string_view prefix, std::string_view path);

/// Orders paths as a walk of the tree meets them: component by component, each by its bytes, a
/// directory before what it holds. (S3 orders by plain bytes, where "a.b" comes before "a/b".)
/// Negative, zero or positive.
int ComparePaths(std::string_view a, std::string_view b);

}  // namespace forebay
