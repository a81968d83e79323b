#pragma once

#include <string>
#include <string_view>

#include "common/base/result.h"
#include "common/model/object_version.h"
#include "proto/handshake.pb.h"

namespace forebay {

/// Who a certificate names: its only subject alternative name is
/// `spiffe://<cluster uuid>/<role>/<id>` (DESIGN section 10).
struct Identity {
  Uuid cluster;
  proto::Role role = proto::ROLE_UNKNOWN;
  std::string id;

  bool operator==(const Identity&) const = default;
};

/// "client", "node", "coordinator", "admin", "viewer"; also the names of a program's files in the
/// trust folder.
std::string_view RoleWord(proto::Role role);
/// ROLE_UNKNOWN for any other word.
proto::Role RoleOfWord(std::string_view word);

/// Whether a user of the command is that, and no program that runs on.
bool IsOfCommand(proto::Role role);

/// kInvalid unless it is 1 to 63 letters, digits, '.', '_' or '-'.
Status CheckMemberId(std::string_view id);

std::string SpiffeIdOf(const Identity& identity);
/// kInvalid when it is not exactly what SpiffeIdOf writes.
Result<Identity> ParseSpiffeId(std::string_view text);

/// "node n1", for messages.
std::string NameOf(const Identity& identity);

}  // namespace forebay
