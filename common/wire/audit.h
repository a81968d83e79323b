#pragma once

#include <string>
#include <string_view>

#include "common/base/result.h"
#include "common/wire/rpc.h"
#include "common/wire/rpc_rules.h"

namespace forebay {

/// Whether a line in the log says who made this request, and how it ended: all that an
/// administrator changes, and machines that ask to join. The server writes it, but for
/// Effect::kChangesAndSays.
bool IsAudited(const RpcRule& rule, proto::Role caller);

/// What `peer` asks, without its outcome: "admin 'admin' at 10.0.0.3:51234 (forebay 0.1.0): Unlink
/// name="data" evict=1". Values are printable and cut; what a request has of secrets is not in it.
std::string DescribeAudited(const RpcRule& rule, const PeerIdentity& peer,
                            std::string_view message);

/// The line: `what` and "done", or why not. Whatever the log level.
void LogAudited(const std::string& what, const Result<RpcReply>& outcome);

}  // namespace forebay
