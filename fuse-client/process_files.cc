#include "fuse-client/process_files.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <csignal>
#include <string_view>
#include <utility>

namespace forebay {

namespace {

/// A cgroup file of version 1 has a line for each of a dozen controllers; deeper nesting than this
/// is cut, and its reader counts to the mount's job.
constexpr std::size_t kMaxFileBytes = 16UL * 1024;

template <typename Number>
std::optional<Number> NumberAt(std::string_view text) {
  const std::size_t begin = std::min(text.find_first_not_of(" \t"), text.size());
  text.remove_prefix(begin);
  Number number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() ? std::optional(number) : std::nullopt;
}

}  // namespace

std::optional<std::string> ProcessFiles::Read(pid_t pid, const char* name) const {
  const std::string path = root_ + "/" + std::to_string(pid) + "/" + name;
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return std::nullopt;
  std::string text;
  std::array<char, 4096> piece{};
  ssize_t got = 0;
  while (text.size() < kMaxFileBytes && (got = ::read(fd, piece.data(), piece.size())) > 0) {
    text.append(piece.data(), static_cast<std::size_t>(got));
  }
  ::close(fd);
  if (got < 0) return std::nullopt;  // it ended meanwhile
  return text;
}

std::optional<std::uint64_t> ProcessFiles::StartOf(pid_t pid) const {
  const std::optional<std::string> text = Read(pid, "stat");
  if (!text) return std::nullopt;
  // The second field is the name in brackets, which may hold blanks and brackets itself; the 22nd
  // is the start.
  std::string_view rest(*text);
  const std::size_t name_end = rest.rfind(')');
  if (name_end == std::string_view::npos) return std::nullopt;
  rest.remove_prefix(name_end + 1);
  for (int field = 2; field < 22; ++field) {
    const std::size_t blank = rest.find(' ');
    if (blank == std::string_view::npos) return std::nullopt;
    rest.remove_prefix(blank + 1);
  }
  return NumberAt<std::uint64_t>(rest);
}

std::optional<pid_t> ProcessFiles::ProcessOf(pid_t thread) const {
  const std::optional<std::string> text = Read(thread, "status");
  if (!text) return std::nullopt;
  constexpr std::string_view kLine = "\nTgid:";
  const std::size_t line = text->find(kLine);
  if (line == std::string::npos) return std::nullopt;
  return NumberAt<pid_t>(std::string_view(*text).substr(line + kLine.size()));
}

bool ProcessFiles::IsDying(pid_t thread) const {
  const std::optional<std::string> text = Read(thread, "status");
  if (!text) return false;
  // Signals of the thread's own that wait, in hexadecimal: a signal that ends the process becomes
  // a SIGKILL of each of its threads (kernel/signal.c, complete_signal).
  constexpr std::string_view kLine = "\nSigPnd:\t";
  const std::size_t line = text->find(kLine);
  if (line == std::string::npos) return false;
  const char* const begin = text->data() + line + kLine.size();
  std::uint64_t pending = 0;
  std::from_chars(begin, text->data() + text->size(), pending, 16);
  return (pending & 1ULL << (SIGKILL - 1)) != 0;
}

std::optional<std::string> ProcessFiles::CgroupsOf(pid_t pid) const { return Read(pid, "cgroup"); }

}  // namespace forebay
