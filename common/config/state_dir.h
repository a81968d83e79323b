#pragma once

#include <string>
#include <string_view>

#include "common/base/config_option.h"

namespace forebay {

/// Where a program keeps state when nothing else is said: /var/lib/forebay/`root_folder` for root,
/// else $XDG_STATE_HOME/forebay or ~/.local/state/forebay and `user_folder` below it (XDG Base
/// Directory Specification). "" when nothing says where.
std::string DefaultStateDir(const Environment& environment, std::string_view root_folder,
                            std::string_view user_folder);

}  // namespace forebay
