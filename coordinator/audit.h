#pragma once

#include <string>

#include "common/wire/rpc.h"

namespace forebay {

/// Who asks, as the lines of the audit name him: "admin alice" where a certificate proves it, else
/// "admin alice (unproved)" with the name that the program gave, or "admin (unproved)".
std::string WhoAsks(const PeerIdentity& peer);

/// One line of the log for each action of an administrator that changed something or was refused:
/// "audit: admin alice: removes node n2: done, ring epoch 7".
void Audit(const PeerIdentity& peer, const std::string& what, const std::string& outcome);

}  // namespace forebay
