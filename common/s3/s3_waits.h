#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <mutex>
#include <string>
#include <vector>

#include "common/base/deadline.h"
#include "common/model/link.h"

namespace forebay {

/// Calls to one place that S3 has not answered yet: each has had an attempt that failed.
struct UnansweredPlace {
  std::string endpoint;
  std::string bucket;
  std::string prefix;       ///< Raw bytes.
  Duration longest{};       ///< Since the oldest of them began.
  std::uint64_t calls = 0;  ///< How many.
  std::string why = {};     ///< What became of the oldest one's last attempt.
};

/// Which calls of an S3 client wait because S3 does not answer, or because its keys cannot be had.
/// What it throttles is not among them: that is an answer. Thread-safe.
class S3Waits {
  struct Call {
    UnansweredPlace place;  // `longest` and `calls` are not used
    TimePoint began;
  };

 public:
  /// One call's place, from its first failed attempt to its end.
  class Place {
   public:
    Place(S3Waits& waits, const LinkOrigin& origin, TimePoint began);
    ~Place();
    Place(const Place&) = delete;
    Place& operator=(const Place&) = delete;
    /// What became of its last attempt.
    void Note(const std::string& why);

   private:
    S3Waits& waits_;
    std::list<Call>::iterator call_;
  };

  /// By place, the one that waits longest first; at most `most`.
  std::vector<UnansweredPlace> All(TimePoint now, std::size_t most) const;

 private:
  mutable std::mutex mutex_;
  std::list<Call> calls_;  // in no order
};

}  // namespace forebay
