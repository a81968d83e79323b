#pragma once

#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

#include "common/base/deadline.h"

namespace forebay {

/// What a log says of connections for which there was no room: one line at first, and then at most
/// one a minute, which says how many there were since the one before. Thread-safe.
class TurnedAway {
 public:
  /// One more, for the reason `why`. Answers the line that is due.
  std::optional<std::string> Note(std::string_view why, TimePoint now);

 private:
  std::mutex mutex_;
  // Below: guarded by mutex_.
  std::uint64_t count_ = 0;
  TimePoint due_;
};

}  // namespace forebay
