#include "common/base/result.h"

namespace forebay {

std::string_view CodeName(Code code) {
  switch (code) {
    case Code::kNotFound:
      return "NotFound";
    case Code::kStale:
      return "Stale";
    case Code::kUnavailable:
      return "Unavailable";
    case Code::kOverloaded:
      return "Overloaded";
    case Code::kTimeout:
      return "Timeout";
    case Code::kCorrupt:
      return "Corrupt";
    case Code::kDenied:
      return "Denied";
    case Code::kInvalid:
      return "Invalid";
    case Code::kInternal:
      return "Internal";
  }
  return "Unknown";
}

}  // namespace forebay
