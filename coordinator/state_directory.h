#pragma once

#include <string>

#include "common/base/result.h"

namespace forebay {

/// The folder of one coordinator process, for as long as this object lives: `<state-dir>/lock`
/// keeps a second process out.
class StateDirectory {
 public:
  /// Makes the directory (0700) when it is missing. kInvalid: another coordinator uses it, or it is
  /// no directory that this user can write. Blocks.
  static Result<StateDirectory> Open(const std::string& path);
  ~StateDirectory();
  StateDirectory(StateDirectory&& other) noexcept;
  StateDirectory& operator=(StateDirectory&&) = delete;
  StateDirectory(const StateDirectory&) = delete;
  StateDirectory& operator=(const StateDirectory&) = delete;

 private:
  explicit StateDirectory(int lock_fd) : lock_fd_(lock_fd) {}
  int lock_fd_;  // -1 = moved from
};

}  // namespace forebay
