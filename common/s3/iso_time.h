#pragma once

#include <chrono>
#include <optional>
#include <string_view>

namespace forebay {

/// "2026-11-21T14:05:00Z", with or without a fraction or an offset. Nothing for any other form.
std::optional<std::chrono::sys_seconds> ParseIsoTime(std::string_view text);

}  // namespace forebay
