#pragma once

#include <string_view>

#include "cli/console.h"
#include "cli/outcome.h"

namespace forebay {

/// What a user can do about an error of this code when nothing better is known.
std::string_view HintFor(Code code);

/// One line on stderr: "forebay: what, where; what to do", or with -o json
/// {"error":{"code","message","hint"}}.
void PrintFailure(const Console& console, const Failure& failure);

}  // namespace forebay
