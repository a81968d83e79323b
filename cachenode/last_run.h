#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "common/base/result.h"

namespace forebay {

/// How the run of a node before this one ended. On the wire (HeartbeatRequest) as these numbers.
enum class RunEnd : std::uint8_t {
  kStopped = 0,      ///< As it should, or there was none.
  kKilled = 1,       ///< It crashed, was killed, or the machine went down with it.
  kOutOfMemory = 2,  ///< Probably killed by the kernel, for want of memory.
};

/// What a run leaves for the next one: a small file that is there while the node runs. A process
/// that the kernel kills for want of memory can say nothing; but the kernel counts whom it kills,
/// and the count of the run's last look is in the file. Blocks. Not thread-safe.
class LastRun {
 public:
  /// `file` is the node's own; `proc` is /proc.
  LastRun(std::string file, std::string proc) : file_(std::move(file)), proc_(std::move(proc)) {}

  /// How the run before ended; from now on the file says that this one runs.
  Result<RunEnd> Begin();
  /// Somebody else was killed, if anybody was: known from now on. To be called every few seconds;
  /// writes only when the count has changed.
  Status Look();
  /// This run ends as it should.
  Status End();

 private:
  struct Mark {
    std::string boot;         ///< The machine's boot id.
    std::uint64_t kills = 0;  ///< For want of memory, since it booted.

    bool operator==(const Mark&) const = default;
  };
  Mark Now() const;
  static std::optional<Mark> Parse(std::string_view text);
  Status Write(const Mark& mark);

  const std::string file_;
  const std::string proc_;
  Mark written_;
};

}  // namespace forebay
