#include "fuse-client/error_log.h"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <string_view>
#include <system_error>
#include <utility>

#include "common/base/files.h"
#include "common/base/wall_clock.h"
#include "common/model/block_id.h"
#include "fuse-client/errno_map.h"

namespace forebay {

namespace fs = std::filesystem;

namespace {

constexpr std::string_view kErrorsPrefix = "errors-";
constexpr std::chrono::hours kErrorsKept{30 * 24};

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
  const std::int64_t now = UnixSeconds();
  bool changed = false;
  bool known = false;
  {
    std::scoped_lock lock(mutex_);
    const auto same = std::find_if(entries_.begin(), entries_.end(), [&](const Entry& entry) {
      return entry.path == path && entry.error == error;
    });
    known = same != entries_.end();
    if (known) {
      same->last_unix_s = now;
      ++same->times;
    } else {
      entries_.push_back(Entry{path, error, now, 1});
      if (entries_.size() > limit_) entries_.pop_front();
      if (entries_.size() + earlier_.size() > limit_ && !earlier_.empty()) earlier_.pop_front();
    }
    changed = NoteChange();
  }
  if (changed) on_change_();
  if (known) return;
  spdlog::error("{} for {}: {}", ErrnoName(ErrnoOf(error.code)), Quoted(path), error.message);
}

// True when somebody is to be told. With the lock held.
bool ErrorLog::NoteChange() {
  if (unsaved_ || !on_change_) return false;
  unsaved_ = true;
  return true;
}

void ErrorLog::KeepIn(std::string file, std::function<void()> on_change) {
  // Nothing there, or unreadable: then it begins anew.
  const std::string text = ReadWholeFile(file).value_or("");
  std::scoped_lock lock(mutex_);
  std::size_t begin = 0;
  for (std::size_t end = text.find('\n'); end != std::string::npos; end = text.find('\n', begin)) {
    earlier_.push_back(text.substr(begin, end + 1 - begin));
    if (earlier_.size() > limit_) earlier_.pop_front();
    begin = end + 1;
  }
  file_ = std::move(file);
  on_change_ = std::move(on_change);
}

Status ErrorLog::Save() {
  std::string file;
  std::string text;
  {
    std::scoped_lock lock(mutex_);
    if (!unsaved_) return {};
    unsaved_ = false;
    file = file_;
    text = Lines();
  }
  const Status folder = MakePrivateFolder(fs::path(file).parent_path().string());
  if (!folder) return folder;
  return WriteFileAtomically(file, text);
}

std::string ErrorLog::Lines() const {
  std::string out;
  for (const std::string& line : earlier_) out += line;
  for (const Entry& entry : entries_) {
    // A message of S3 may hold line ends.
    std::string message = entry.error.message;
    std::ranges::replace(message, '\n', ' ');
    out += fmt::format("{:%Y-%m-%dT%H:%M:%SZ} {} {} {}x {}: {}\n",
                       fmt::gmtime(static_cast<std::time_t>(entry.last_unix_s)),
                       ErrnoName(ErrnoOf(entry.error.code)), Quoted(entry.path), entry.times,
                       CodeName(entry.error.code), message);
  }
  return out;
}

std::string ErrorLog::Render() const {
  std::scoped_lock lock(mutex_);
  return Lines();
}

std::size_t ErrorLog::size() const {
  std::scoped_lock lock(mutex_);
  return entries_.size();
}

std::string ErrorFileOf(const std::string& folder, const std::string& mountpoint) {
  const std::uint64_t hash = CellChecksum(mountpoint.data(), mountpoint.size());
  return fmt::format("{}/{}{:016x}", folder, kErrorsPrefix, hash);
}

bool IsErrorFile(const std::string& path) {
  return fs::path(path).filename().string().starts_with(kErrorsPrefix);
}

bool RemoveOldErrors(const std::string& folder, const std::string& mine) {
  bool removed = false;
  std::error_code error;
  const auto now = fs::file_time_type::clock::now();
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, error)) {
    if (!IsErrorFile(entry.path().string()) || entry.path() == mine) continue;
    std::error_code gone;
    const auto written = entry.last_write_time(gone);
    if (!gone && now - written > kErrorsKept) removed |= fs::remove(entry.path(), gone);
  }
  return removed;
}

}  // namespace forebay
