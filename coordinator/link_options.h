#pragma once

#include <cstdint>
#include <optional>

#include "common/base/result.h"
#include "common/model/link.h"
#include "proto/coordinator.pb.h"

namespace forebay {

/// What a kLink request asks for, with the defaults filled in. The origin is still incomplete and
/// the ids are zero.
struct LinkOptions {
  LinkSpec spec;
  std::optional<bool> path_style;  ///< Nothing = decide by the endpoint.
};

/// How many copies a request means; 0 = the default. kInvalid: more than there are owners.
Result<std::uint32_t> ReplicasOf(std::uint32_t asked);

/// kInvalid: the quota is less than a block, which is probably a unit that was forgotten: it would
/// evict all that is cached. 0 is none.
Status CheckLinkQuota(std::uint64_t quota_bytes, std::uint64_t block_bytes);

/// kInvalid says which option is wrong and what it may be. What this version does not do is
/// refused rather than ignored.
Result<LinkOptions> ValidateLinkRequest(const proto::LinkRequest& request);

}  // namespace forebay
