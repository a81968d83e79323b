#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <mutex>
#include <string>

#include "common/base/result.h"

namespace forebay {

/// The last failures that programs saw as EIO or ESTALE: `.forebay/errors`, and the one place where
/// they are logged. The same failure again only raises its count, so a loader that retries cannot
/// flood the log. Thread-safe.
class ErrorLog {
 public:
  explicit ErrorLog(std::size_t limit = 100) : limit_(limit) {}

  /// `path` is the file as seen from the mount's root, raw bytes.
  void Add(const std::string& path, const Error& error);

  /// One line each, oldest first: time, errno, path (quoted), times seen, cause and what to do.
  std::string Render() const;
  std::size_t size() const;

 private:
  struct Entry {
    std::string path;
    Error error;
    std::int64_t last_unix_s = 0;
    std::uint64_t times = 0;
  };

  const std::size_t limit_;
  mutable std::mutex mutex_;
  std::deque<Entry> entries_;
};

}  // namespace forebay
