#pragma once

#include <cstdint>
#include <string>

#include "common/base/result.h"
#include "common/base/secret.h"
#include "proto/coordinator.pb.h"
#include "proto/coordinator_state.pb.h"
#include "proto/handshake.pb.h"

namespace forebay {

/// What `forebay init` leaves in the trust folder for the coordinator: the record of its first
/// token.
inline constexpr const char* kFirstTokenFile = "first_token";

inline constexpr std::uint32_t kDefaultTokenUses = 16;
inline constexpr std::uint32_t kDefaultTokenSeconds = 24 * 60 * 60;
inline constexpr std::uint32_t kLongestTokenSeconds = 30 * 24 * 60 * 60;

/// Whether a machine becomes that with a token, and can be revoked.
bool Joins(proto::Role role);

struct NewToken {
  proto::TokenRecord record;  ///< For the coordinator to keep.
  Secret text;                ///< For the machine that joins.
};

/// kInvalid: a role that cannot join, no use or no time, or too much of it.
Result<NewToken> MakeJoinToken(const proto::CreateTokenRequest& request,
                               const std::string& authority_hash, std::int64_t now_unix_s);

}  // namespace forebay
