#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>

namespace forebay {

/// What the kernel tells of processes in /proc (proc(5)). Every call reads small files that the
/// kernel makes up in memory, some microseconds each; nothing is remembered. Thread-safe.
class ProcessFiles {
 public:
  explicit ProcessFiles(std::string root = "/proc") : root_(std::move(root)) {}

  /// When the thread or process began, in clock ticks since boot: with its number it names it for
  /// ever. Nothing when it is gone, or hidden from this user.
  std::optional<std::uint64_t> StartOf(pid_t pid) const;
  /// The process of a thread: a file system is told of readers by their threads' numbers.
  std::optional<pid_t> ProcessOf(pid_t thread) const;
  /// Whether the thread ends as soon as it leaves the kernel: it was killed, by SIGKILL or by any
  /// signal that ends its process without a core. False when it is hidden from this user.
  bool IsDying(pid_t thread) const;
  /// The text of its cgroup file.
  std::optional<std::string> CgroupsOf(pid_t pid) const;

 private:
  std::optional<std::string> Read(pid_t pid, const char* name) const;

  std::string root_;
};

}  // namespace forebay
