#pragma once

#include <expected>
#include <string>

#include "cli/console.h"
#include "cli/outcome.h"
#include "cli/session.h"

namespace forebay {

/// Brings a list of names, one on a line, to the coordinator, in parts: a file, or "-" for the
/// console's input. Answers what the coordinator calls it. Exit 2: it cannot be read, or it is
/// empty.
std::expected<std::string, Failure> UploadNames(Session& session, const Console& console,
                                                const std::string& path);

/// As UploadNames, for any file; `hint` says what to name instead of one that cannot be read.
std::expected<std::string, Failure> UploadFile(Session& session, const Console& console,
                                               const std::string& path, const std::string& hint);

}  // namespace forebay
