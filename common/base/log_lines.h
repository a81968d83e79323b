#pragma once

#include <spdlog/formatter.h>

#include <memory>
#include <string>
#include <string_view>

#include "common/base/log.h"

namespace forebay {

/// Appends `text` as the inside of a JSON string; bytes that are not UTF-8 become U+FFFD.
void AppendJsonEscaped(std::string_view text, std::string& out);

/// Appends `text` with control characters as \xNN.
void AppendPrintable(std::string_view text, std::string& out);

/// One line for each message, times in UTC:
///     2026-01-31T12:00:00.123Z info  link imagenet: generation 3 is published
///     {"time":"2026-01-31T12:00:00.123Z","level":"info","program":"forebay-node","message":"…"}
class LogLines : public spdlog::formatter {
 public:
  LogLines(LogFormat format, std::string program) : format_(format), program_(std::move(program)) {}

  void format(const spdlog::details::log_msg& message, spdlog::memory_buf_t& out) override;
  std::unique_ptr<spdlog::formatter> clone() const override;

 private:
  const LogFormat format_;
  const std::string program_;
};

}  // namespace forebay
