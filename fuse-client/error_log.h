#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <string>

#include "common/base/result.h"

namespace forebay {

/// The last failures that programs saw as EIO or ESTALE: `.forebay/errors`, and the one place where
/// they are logged. The same failure again only raises its count, so a loader that retries cannot
/// flood the log. Kept in a file over a restart. Thread-safe.
class ErrorLog {
 public:
  explicit ErrorLog(std::size_t limit = 100) : limit_(limit) {}

  /// `path` is the file as seen from the mount's root, raw bytes.
  void Add(const std::string& path, const Error& error);

  /// What is in `file`, from an earlier run, is shown before what is added. `on_change` is called
  /// by Add, on its thread, when there is something that Save has not written, once until it has.
  void KeepIn(std::string file, std::function<void()> on_change);
  /// Writes the file, unless it holds all, and makes its folder anew where it has gone; blocks.
  /// kInternal: no room.
  Status Save();

  /// One line each, oldest first: time, errno, path (quoted), times seen, cause and what to do.
  std::string Render() const;
  std::size_t size() const;  ///< Of this run.

 private:
  struct Entry {
    std::string path;
    Error error;
    std::int64_t last_unix_s = 0;
    std::uint64_t times = 0;
  };

  std::string Lines() const;
  bool NoteChange();

  const std::size_t limit_;
  mutable std::mutex mutex_;
  std::string file_;
  std::function<void()> on_change_;
  bool unsaved_ = false;
  std::deque<std::string> earlier_;  // lines of earlier runs, each with its end
  std::deque<Entry> entries_;
};

/// The file of a mount point, beside the listing of the link that it shows: several mounts of a
/// link share that folder.
std::string ErrorFileOf(const std::string& folder, const std::string& mountpoint);
bool IsErrorFile(const std::string& path);
/// Those in `folder` that nobody has written for a month, but `mine`: mount points that are no
/// longer used. True: there was one.
bool RemoveOldErrors(const std::string& folder, const std::string& mine);

}  // namespace forebay
