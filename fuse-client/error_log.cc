#include "fuse-client/error_log.h"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <chrono>
#include <string_view>

#include "fuse-client/errno_map.h"

namespace forebay {

namespace {

// Paths are raw bytes; a line of this file must stay a line.
std::string Quoted(std::string_view path) {
  std::string out = "\"";
  for (const char c : path) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out.push_back('\\');
      out.push_back(c);
    } else if (byte < 0x20 || byte == 0x7f) {
      out += fmt::format("\\x{:02x}", byte);
    } else {
      out.push_back(c);
    }
  }
  out.push_back('"');
  return out;
}

}  // namespace

void ErrorLog::Add(const std::string& path, const Error& error) {
  const auto now = std::chrono::duration_cast<std::chrono::seconds>(
                       std::chrono::system_clock::now().time_since_epoch())
                       .count();
  {
    std::scoped_lock lock(mutex_);
    const auto same = std::find_if(entries_.begin(), entries_.end(), [&](const Entry& entry) {
      return entry.path == path && entry.error == error;
    });
    if (same != entries_.end()) {
      same->last_unix_s = now;
      ++same->times;
      return;
    }
    entries_.push_back(Entry{path, error, now, 1});
    if (entries_.size() > limit_) entries_.pop_front();
  }
  spdlog::error("{} for {}: {}", ErrnoName(ErrnoOf(error.code)), Quoted(path), error.message);
}

std::string ErrorLog::Render() const {
  std::scoped_lock lock(mutex_);
  std::string out;
  for (const Entry& entry : entries_) {
    out += fmt::format("{:%Y-%m-%dT%H:%M:%SZ} {} {} {}x {}: {}\n",
                       fmt::gmtime(static_cast<std::time_t>(entry.last_unix_s)),
                       ErrnoName(ErrnoOf(entry.error.code)), Quoted(entry.path), entry.times,
                       CodeName(entry.error.code), entry.error.message);
  }
  return out;
}

std::size_t ErrorLog::size() const {
  std::scoped_lock lock(mutex_);
  return entries_.size();
}

}  // namespace forebay
