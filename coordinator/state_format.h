#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "common/base/result.h"

namespace forebay {

/// The key of the number that says which programs may serve a StateStore. It is raised when an
/// older coordinator would misread what a newer one has written there; a new kind of record, or a
/// field that an older one may ignore, does not raise it. A state without the row is of format 1.
inline constexpr const char* kStateFormatKey = "state/format";

/// What a new state gets.
std::string StateFormatRow();

/// kInvalid, with what to do: `row` is of a format that this program does not read. `what` is what
/// has it, as a sentence begins: "the coordinator's state".
Status CheckStateFormat(const std::optional<std::string>& row, std::string_view what);

}  // namespace forebay
