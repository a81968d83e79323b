#pragma once

#include <string>

#include "cli/options.h"
#include "common/base/result.h"
#include "common/trust/join_token.h"
#include "common/trust/trust_folder.h"

namespace forebay {

/// FOREBAY_TRUST_DIR, else where the daemons look.
std::string TrustDirOfEnvironment();

/// `--trust-dir`.
void DeclareTrustDir(Options& options, std::string& out);

/// This machine's name as a member's id: what of the host's name fits; "" when nothing does.
std::string HostAsId();

/// A loopback address with this host's name instead: what other machines may be told.
std::string AsOthersReach(const std::string& address);

/// Asks the coordinator at `address` for a certificate with `token` and answers what to keep; the
/// key is made here. `role` "" = the token's. Changes nothing on this machine. kInvalid: a wrong
/// clock, id or role; kDenied: the token is not good, or that is another cluster.
Result<MemberProof> Join(const std::string& address, const JoinToken& token,
                         const std::string& role, const std::string& id);

/// Writes `forebay.toml` beside the trust folder, with where the coordinator is, unless there is
/// one; answers its path, or "" when it was there.
Result<std::string> WriteFirstConfig(const TrustFolder& folder, const std::string& coordinator);

}  // namespace forebay
