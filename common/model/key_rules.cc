#include "common/model/key_rules.h"

#include <algorithm>

#include "common/model/limits.h"

namespace forebay {
namespace {

KeyVerdict Hidden(HiddenReason reason) {
  return KeyVerdict{.kind = KeyVerdict::Kind::kHidden, .reason = reason, .path = {}};
}

std::optional<HiddenReason> JudgeComponent(std::string_view name) {
  if (name.empty()) return HiddenReason::kEmptyComponent;
  if (name == "." || name == "..") return HiddenReason::kDotComponent;
  if (name.size() > kMaxNameBytes) return HiddenReason::kTooLong;
  if (name.find('\0') != std::string_view::npos) return HiddenReason::kNulByte;
  return std::nullopt;
}

// '/' sorts before every byte that a name can hold.
int RankOf(char c) { return c == '/' ? -1 : static_cast<unsigned char>(c); }

}  // namespace

std::string_view HiddenReasonText(HiddenReason reason) {
  switch (reason) {
    case HiddenReason::kEmptyComponent:
      return "a component of the key is empty";
    case HiddenReason::kDotComponent:
      return "a component of the key is '.' or '..'";
    case HiddenReason::kNulByte:
      return "the key holds a NUL byte";
    case HiddenReason::kTooLong:
      return "a component of the key is longer than 255 bytes, or the key than 1,024";
    case HiddenReason::kReservedName:
      return "the name '.forebay' at the root of a link is reserved";
    case HiddenReason::kShadowedByDirectory:
      return "a directory has the same name";
    case HiddenReason::kMarkerWithBytes:
      return "the key ends with '/' but the object is not empty";
    case HiddenReason::kOutOfRange:
      return "S3 lists it without a valid size, ETag or date, or it is 16 TiB or larger";
  }
  return "unknown reason";
}

KeyVerdict JudgeKey(std::string_view relative) {
  if (relative.empty()) return {.kind = KeyVerdict::Kind::kRootMarker, .path = {}};
  if (relative.size() > kMaxListedKeyBytes) return Hidden(HiddenReason::kTooLong);
  const bool marker = relative.ends_with('/');
  const std::string_view path = relative.substr(0, relative.size() - (marker ? 1 : 0));
  for (std::size_t begin = 0; begin <= path.size();) {
    const std::size_t end = std::min(path.find('/', begin), path.size());
    const std::string_view component = path.substr(begin, end - begin);
    if (const auto reason = JudgeComponent(component)) return Hidden(*reason);
    if (begin == 0 && component == kControlDirectoryName) {
      return Hidden(HiddenReason::kReservedName);
    }
    begin = end + 1;
  }
  return {.kind = marker ? KeyVerdict::Kind::kDirectoryMarker : KeyVerdict::Kind::kFile,
          .path = path};
}

bool IsSingleObjectPrefix(std::string_view prefix) {
  return !prefix.empty() && !prefix.ends_with('/');
}

std::optional<std::string_view> RelativeKey(std::string_view prefix, std::string_view key) {
  if (!key.starts_with(prefix)) return std::nullopt;
  if (!IsSingleObjectPrefix(prefix)) return key.substr(prefix.size());
  if (key.size() != prefix.size()) return std::nullopt;
  const std::size_t slash = key.rfind('/');
  return slash == std::string_view::npos ? key : key.substr(slash + 1);
}

std::string KeyAtPath(std::string_view prefix, std::string_view path) {
  if (IsSingleObjectPrefix(prefix)) return std::string(prefix);
  std::string key;
  key.reserve(prefix.size() + path.size());
  key.append(prefix).append(path);
  return key;
}

int ComparePaths(std::string_view a, std::string_view b) {
  const auto [at_a, at_b] = std::ranges::mismatch(a, b);
  if (at_a == a.end() || at_b == b.end()) {
    return static_cast<int>(at_b == b.end()) - static_cast<int>(at_a == a.end());
  }
  return RankOf(*at_a) - RankOf(*at_b);
}

}  // namespace forebay
