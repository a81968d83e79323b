#pragma once

#include <string>
#include <string_view>

#include "cli/outcome.h"

namespace forebay {

/// Where targets that are paths are looked up.
struct LocalView {
  std::string mount_table = "/proc/self/mountinfo";
};

/// What the coordinator is asked for: a TARGET as it is (NAME, NAME/sub/path, s3://…), or for a
/// path inside a mount of ours NAME/sub/path of what it shows. A relative word is only taken for a
/// path when it exists inside such a mount; one that begins with /, ./ or ../ is always a path, and
/// need not exist below the mount. Exit 2 when such a path lies in no mount of ours, exit 1 when
/// its mount is dead.
std::expected<std::string, Failure> ResolveTargetText(const std::string& text,
                                                      const LocalView& view);

}  // namespace forebay
