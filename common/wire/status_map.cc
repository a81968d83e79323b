#include "common/wire/status_map.h"

namespace forebay {

std::uint8_t WireCodeOf(Code code) {
  switch (code) {
    case Code::kNotFound:
      return 1;
    case Code::kStale:
      return 2;
    case Code::kUnavailable:
      return 3;
    case Code::kOverloaded:
      return 4;
    case Code::kTimeout:
      return 5;
    case Code::kCorrupt:
      return 6;
    case Code::kDenied:
      return 7;
    case Code::kInvalid:
      return 8;
    case Code::kInternal:
      return 9;
  }
  return 9;
}

Code CodeOfWire(std::uint8_t wire) {
  switch (wire) {
    case 1:
      return Code::kNotFound;
    case 2:
      return Code::kStale;
    case 3:
      return Code::kUnavailable;
    case 4:
      return Code::kOverloaded;
    case 5:
      return Code::kTimeout;
    case 6:
      return Code::kCorrupt;
    case 7:
      return Code::kDenied;
    case 8:
      return Code::kInvalid;
    case 9:
    default:
      return Code::kInternal;
  }
}

}  // namespace forebay
