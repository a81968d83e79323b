#pragma once

#include <string>

#include "cli/completion.h"

namespace forebay {

/// What may stand where --help writes `value` (options.h), of the verb `verb`, and begins with
/// `begun` (others may come, too). Nothing for what cannot be listed: times, sizes, new names.
Completions NamesFor(const std::string& value, const std::string& verb, const std::string& begun,
                     Session& session);

}  // namespace forebay
