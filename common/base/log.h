#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "common/base/result.h"

namespace forebay {

enum class LogLevel : std::uint8_t { kTrace, kDebug, kInfo, kWarn, kError };
enum class LogFormat : std::uint8_t { kText, kJson };

/// How a program logs. The members are documented in LogSection (common/config/log_config.cc).
struct LogOptions {
  LogLevel level = LogLevel::kInfo;
  LogFormat format = LogFormat::kText;
  std::string file;  ///< "" = standard error.
};

/// Writes `line` to the process's log, whatever the level that was asked for: an audit that a level
/// can switch off is none. `level` is what the line is marked with. Any thread.
void LogAlways(LogLevel level, std::string_view line);

/// The process's log: makes spdlog's default logger write one line for each message, to standard
/// error, to a file, or to the system's log. Keys of objects are raw bytes that a stranger chose:
/// control characters and, in JSON, invalid UTF-8 are escaped, so a message can never become two
/// lines. One per process, made before the threads that log.
class Log {
 public:
  /// `program` is in each JSON line, and the name in the system's log. `use_syslog` is for a
  /// program without a terminal, and is ignored when there is a file. kInternal when the file
  /// cannot be opened.
  static Result<std::unique_ptr<Log>> Start(const LogOptions& options, const std::string& program,
                                            bool use_syslog);
  virtual ~Log() = default;
  Log(const Log&) = delete;
  Log& operator=(const Log&) = delete;

  /// Opens the file anew, after something has renamed it; nothing without a file. When that fails
  /// the old file stays in use. Any thread.
  virtual Status Reopen() = 0;

 protected:
  Log() = default;
};

}  // namespace forebay
