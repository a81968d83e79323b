#pragma once

#include <string>
#include <vector>

#include "common/base/result.h"
#include "common/trust/certificate.h"
#include "common/trust/rotation.h"
#include "proto/coordinator.pb.h"

namespace forebay {

/// Whether a change of the authority can take `step` without locking anybody out who runs, by what
/// the coordinator that leads says of its members: before the new authority issues all believe it,
/// and before the old one is believed no more all have certificates of the new one. `believed` and
/// `present`, the authority that issues, are what the folder says in which the step is taken.
/// Answers who is away and has not followed, some of many: they have to join again. kInvalid: a
/// sentence that says who has not followed, or why that is not known.
Result<std::string> CheckFollowers(const proto::ListMembersReply& reply, Rotation step,
                                   const std::vector<Certificate>& believed,
                                   const Certificate& present);

}  // namespace forebay
