#pragma once

#include <optional>
#include <string>
#include <vector>

#include "common/base/result.h"
#include "common/model/object_version.h"

namespace forebay {

/// What the nodes of a machine remember of their cache directories, kept outside of them: a
/// directory whose disk is not mounted looks like a new one, and would be filled on the disk below.
/// One small file for each directory, named by its uuid; nodes may share the folder. Blocks. Not
/// thread-safe.
class KnownDirectories {
 public:
  /// Reads what is in `folder`, which is made. kCorrupt: one of its files is damaged; kInternal.
  static Result<KnownDirectories> Open(const std::string& folder);

  /// Why the cache directory at `path` must not be written to, in one sentence that says what to do
  /// about it: it was known under this path, or on another file system, and is not that now. Empty:
  /// it is the one that is known, or nothing is known of it. Errors as CacheDirectory::Inspect.
  Result<std::optional<std::string>> Objection(const std::string& path) const;

  /// What is at `path` is right as it is, or empty: forgets what speaks against it.
  Status Accept(const std::string& path);

  /// The cache directory at `path` was opened: remembers it.
  Status Remember(const std::string& path);

 private:
  struct Record {
    Uuid directory;
    std::string path;         ///< Without a slash at the end.
    std::string file_system;  ///< FileSystemOf.
  };

  explicit KnownDirectories(std::string folder) : folder_(std::move(folder)) {}
  Status Read();
  static std::optional<Record> Parse(const std::string& name, const std::string& text);
  const Record* Find(const Uuid& directory) const;
  const Record* FindAt(const std::string& path) const;

  std::string folder_;
  std::vector<Record> records_;
};

/// The file system that holds `path`, TYPE:ID in hexadecimal, the same after a reboot and on
/// another machine. ID is "-" where the kernel has none that lasts. Empty: `path` is not there.
std::string FileSystemOf(const std::string& path);

/// Both say the same, as far as both say something.
bool MayBeSameFileSystem(const std::string& a, const std::string& b);

}  // namespace forebay
