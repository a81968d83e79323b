#pragma once

#include <string>

namespace forebay {

/// While it lives, a crash of this process (a signal that ends it with a core dump, not SIGKILL)
/// first takes the mount point out of the tree, and with it what is mounted below: a dead mount
/// answers every program with ENOTCONN until somebody removes it. At most one at a time.
class CrashGuard {
 public:
  explicit CrashGuard(const std::string& mountpoint);
  ~CrashGuard();
  CrashGuard(const CrashGuard&) = delete;
  CrashGuard& operator=(const CrashGuard&) = delete;
};

}  // namespace forebay
