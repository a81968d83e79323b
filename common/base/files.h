#pragma once

#include <string>
#include <string_view>

#include "common/base/result.h"

namespace forebay {

// Small files that must survive a power cut whole. Blocking: never on an event loop.

/// kNotFound: there is none. kInternal: it cannot be read.
Result<std::string> ReadWholeFile(const std::string& path);

/// The file is the old or the new one at any moment, also after a power cut: written beside it,
/// synced, renamed. kInternal with the path and what the system said.
Status WriteFileAtomically(const std::string& path, std::string_view bytes);

/// Syncs what was written to the file `temporary`, then renames it to `path` and syncs the folder.
Status CommitFile(const std::string& temporary, const std::string& path);

/// Renames it and syncs nothing: after a power cut there may be nothing at `path`, or less than was
/// written, which whoever reads it must find out. kInternal.
Status RenameFile(const std::string& temporary, const std::string& path);

/// A name beside `path` that no other process and no other call uses.
std::string TemporaryNameFor(const std::string& path);

/// Makes the folders above `path` that are missing, 0755 whatever the umask: programs of several
/// users have folders of their own in /var/lib/forebay, each private. kInternal.
Status MakeFoldersAbove(const std::string& path);

/// Makes the folder, 0700: listings tell the names of objects; and those above it. kInternal.
Status MakePrivateFolder(const std::string& path);

}  // namespace forebay
