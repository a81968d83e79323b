#include "coordinator/audit.h"

#include <fmt/format.h>

#include "common/base/log.h"
#include "common/s3/list_parser.h"

namespace forebay {
namespace {

std::string RoleName(proto::Role role) {
  switch (role) {
    case proto::ROLE_ADMIN:
      return "admin";
    case proto::ROLE_COORDINATOR:
      return "coordinator";
    case proto::ROLE_NODE:
      return "node";
    case proto::ROLE_CLIENT:
      return "client";
    case proto::ROLE_VIEWER:
      return "viewer";
    default:
      return "somebody";
  }
}

}  // namespace

std::string WhoAsks(const PeerIdentity& peer) {
  std::string who = RoleName(peer.role);
  if (!peer.id.empty()) who += " " + Printable(peer.id);
  return peer.proved ? who : who + " (unproved)";
}

void Audit(const PeerIdentity& peer, const std::string& what, const std::string& outcome) {
  LogAlways(LogLevel::kInfo, fmt::format("audit: {}: {}: {}", WhoAsks(peer), what, outcome));
}

}  // namespace forebay
