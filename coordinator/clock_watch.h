#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "common/base/deadline.h"
#include "common/trust/certificate.h"

namespace forebay {

/// The wall clocks of nodes, as their heartbeats have them, beside the coordinator's. Nothing of
/// the data path goes by them; certificates do. Pure: both times are given. Not thread-safe.
class ClockWatch {
 public:
  /// Further apart is wrong: from here on a certificate that one of the two machines has just got
  /// is not good yet for the other, and one that asks to join would be refused.
  static constexpr std::chrono::milliseconds kWrongFrom = kClockTolerance;
  /// Less than this is right again.
  static constexpr std::chrono::milliseconds kRightBelow = kWrongFrom / 2;
  /// A heartbeat may have lain somewhere: whatever lasts for so long is the clock.
  static constexpr Duration kBelievedAfter = std::chrono::seconds(3);
  /// A node that has not been heard for so long may have any clock.
  static constexpr Duration kHeldFor = std::chrono::minutes(1);

  /// A clock, in milliseconds since 1970, as it was sent and as this coordinator has it when that
  /// comes; 0 = a program that does not say. Answers a line for the log when the clock is found to
  /// be wrong or right again.
  std::optional<std::string> Note(const std::string& node, std::int64_t sent_unix_ms,
                                  std::int64_t own_unix_ms, TimePoint now);

  struct View {
    std::chrono::milliseconds ahead{};  ///< Of the coordinator's clock; below 0 it is behind.
    std::optional<Duration> wrong_for;  ///< Nothing: the clock is right.
  };
  /// Nothing: not known.
  std::optional<View> Of(const std::string& node, TimePoint now) const;

 private:
  struct Clocks {
    std::chrono::milliseconds ahead{};
    TimePoint heard;
    std::optional<TimePoint> off_since;  ///< Beyond kWrongFrom, or not yet below kRightBelow.
    bool told = false;
  };

  std::map<std::string, Clocks> clocks_;  // by node id
};

/// "60 min ahead of", "15 min behind": of a clock that is wrong.
std::string DescribeAhead(std::chrono::milliseconds ahead);

}  // namespace forebay
