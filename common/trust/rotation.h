#pragma once

#include <cstdint>

#include "common/base/result.h"
#include "common/trust/trust_folder.h"

namespace forebay {

/// How far a cluster is on its way from one authority to the next. Members learn of each step when
/// they next ask the coordinator, within seconds; nothing stops.
enum class Rotation : std::uint8_t {
  kBegun,     ///< The new authority is believed; the old one issues.
  kSwitched,  ///< The new one issues, and everybody renews; the old one is believed.
  kEnded,     ///< The new one alone is believed.
};

/// Which step is the next one. Errors: as for taking it.
Result<Rotation> NextRotation(const TrustFolder& folder);

/// By what it is known that all members have heard of the step before.
enum class HeardBy : std::uint8_t {
  kTime,         ///< It is half a minute old.
  kCoordinator,  ///< The coordinator says so: of the last step that is enough.
};

/// Takes it, in the files of the coordinator's machine; the coordinator takes it up by itself.
/// kInvalid: it is too early for it, or this machine does not hold the authority's key; nothing is
/// changed then. The caller holds the folder's lock.
Result<Rotation> RotateAuthority(const TrustFolder& folder, std::int64_t now_unix_s,
                                 HeardBy heard_by = HeardBy::kTime);

}  // namespace forebay
