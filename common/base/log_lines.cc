#include "common/base/log_lines.h"

#include <spdlog/details/log_msg.h>
#include <spdlog/fmt/fmt.h>

#include <chrono>
#include <ctime>

namespace forebay {

namespace {

/// The length of the UTF-8 sequence that `text` begins with (Unicode 15, table 3-7), 0 if there is
/// none.
std::size_t Utf8Length(std::string_view text) {
  const auto byte = [text](std::size_t i) -> unsigned {
    return i < text.size() ? static_cast<unsigned char>(text[i]) : 0U;
  };
  const auto follows = [&byte](std::size_t i) { return (byte(i) & 0xc0U) == 0x80U; };
  const unsigned first = byte(0);
  if (first < 0x80) return 1;
  if (first >= 0xc2 && first <= 0xdf) return follows(1) ? 2 : 0;
  if (first >= 0xe0 && first <= 0xef) {
    const bool overlong = first == 0xe0 && byte(1) < 0xa0;
    const bool surrogate = first == 0xed && byte(1) > 0x9f;
    return follows(1) && follows(2) && !overlong && !surrogate ? 3 : 0;
  }
  if (first >= 0xf0 && first <= 0xf4) {
    const bool overlong = first == 0xf0 && byte(1) < 0x90;
    const bool too_large = first == 0xf4 && byte(1) > 0x8f;
    return follows(1) && follows(2) && follows(3) && !overlong && !too_large ? 4 : 0;
  }
  return 0;
}

bool IsControl(char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; }

std::string Timestamp(spdlog::log_clock::time_point when) {
  const auto since_epoch = when.time_since_epoch();
  const std::time_t seconds = std::chrono::duration_cast<std::chrono::seconds>(since_epoch).count();
  const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(since_epoch).count() % 1000;
  std::tm utc{};
  ::gmtime_r(&seconds, &utc);
  return fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{:03}Z", utc.tm_year + 1900,
                     utc.tm_mon + 1, utc.tm_mday, utc.tm_hour, utc.tm_min, utc.tm_sec, ms);
}

std::string_view LevelName(spdlog::level::level_enum level) {
  switch (level) {
    case spdlog::level::trace:
      return "trace";
    case spdlog::level::debug:
      return "debug";
    case spdlog::level::info:
      return "info";
    case spdlog::level::warn:
      return "warn";
    case spdlog::level::err:
      return "error";
    case spdlog::level::critical:
      return "critical";
    case spdlog::level::off:
    case spdlog::level::n_levels:
      break;
  }
  return "off";
}

}  // namespace

void AppendJsonEscaped(std::string_view text, std::string& out) {
  while (!text.empty()) {
    const char c = text.front();
    const std::size_t length = Utf8Length(text);
    if (length == 0) {
      out += "\\ufffd";
    } else if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (IsControl(c)) {
      out += fmt::format("\\u{:04x}", static_cast<unsigned char>(c));
    } else {
      out += text.substr(0, length);
    }
    text.remove_prefix(length == 0 ? 1 : length);
  }
}

void AppendPrintable(std::string_view text, std::string& out) {
  for (const char c : text) {
    if (IsControl(c)) {
      out += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
    } else {
      out += c;
    }
  }
}

void LogLines::format(const spdlog::details::log_msg& message, spdlog::memory_buf_t& out) {
  const std::string time = Timestamp(message.time);
  const std::string_view text(message.payload.data(), message.payload.size());
  std::string line;
  if (format_ == LogFormat::kJson) {
    line = fmt::format(R"({{"time":"{}","level":"{}","program":"{}","message":")", time,
                       LevelName(message.level), program_);
    AppendJsonEscaped(text, line);
    line += "\"}\n";
  } else {
    line = fmt::format("{} {:<5} ", time, LevelName(message.level));
    AppendPrintable(text, line);
    line += '\n';
  }
  out.append(line.data(), line.data() + line.size());
}

std::unique_ptr<spdlog::formatter> LogLines::clone() const {
  return std::make_unique<LogLines>(format_, program_);
}

}  // namespace forebay
