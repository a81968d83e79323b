#pragma once

#include <cstdint>

#include "common/base/deadline.h"
#include "common/base/result.h"

namespace forebay {

/// The coordinator answered, and does not want this node as it is.
bool IsRefusal(const Status& status);

/// What a node's log says of how the coordinator takes its reports, of which there is one each
/// second: each change, and a refusal that lasts again now and then. Pure: time is given. Not
/// thread-safe.
class CoordinatorNews {
 public:
  enum class News : std::uint8_t { kNone, kAnswersAgain, kSilent, kRefuses };

  /// How a report ended.
  News Note(const Status& status, TimePoint now);

  /// Whoever looks at a log for what is wrong looks that far back.
  static constexpr Duration kSayRefusalEvery = std::chrono::minutes(10);

 private:
  bool alone_ = false;
  TimePoint say_refusal_at_;  // not earlier
};

}  // namespace forebay
