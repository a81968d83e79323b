#pragma once

#include <string_view>

namespace forebay {

/// "0.1.0".
std::string_view Version();

/// The commit that was built, 12 hex digits, or "unknown".
std::string_view Commit();

}  // namespace forebay
