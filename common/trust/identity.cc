#include "common/trust/identity.h"

#include <algorithm>
#include <array>
#include <utility>

namespace forebay {
namespace {

constexpr std::string_view kScheme = "spiffe://";
constexpr std::size_t kLongestId = 63;

constexpr std::array<std::pair<proto::Role, std::string_view>, 5> kRoles = {{
    {proto::ROLE_CLIENT, "client"},
    {proto::ROLE_NODE, "node"},
    {proto::ROLE_COORDINATOR, "coordinator"},
    {proto::ROLE_ADMIN, "admin"},
    {proto::ROLE_VIEWER, "viewer"},
}};

}  // namespace

std::string_view RoleWord(proto::Role role) {
  for (const auto& [known, word] : kRoles) {
    if (known == role) return word;
  }
  return "unknown";
}

proto::Role RoleOfWord(std::string_view word) {
  for (const auto& [role, known] : kRoles) {
    if (known == word) return role;
  }
  return proto::ROLE_UNKNOWN;
}

bool IsOfCommand(proto::Role role) {
  return role == proto::ROLE_ADMIN || role == proto::ROLE_VIEWER;
}

Status CheckMemberId(std::string_view id) {
  const bool good = !id.empty() && id.size() <= kLongestId && std::ranges::all_of(id, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '_' || c == '.';
  });
  if (good) return {};
  return Fail(Code::kInvalid, "'" + std::string(id.substr(0, kLongestId)) +
                                  "' is no id: 1 to 63 letters, digits, '.', '_' or '-'");
}

std::string SpiffeIdOf(const Identity& identity) {
  std::string text(kScheme);
  text.append(identity.cluster.ToString()).append("/");
  text.append(RoleWord(identity.role)).append("/").append(identity.id);
  return text;
}

Result<Identity> ParseSpiffeId(std::string_view text) {
  Identity identity;
  const std::string_view rest = text.starts_with(kScheme) ? text.substr(kScheme.size()) : "";
  const std::size_t first = rest.find('/');
  const std::size_t second = first == rest.npos ? rest.npos : rest.find('/', first + 1);
  if (second != rest.npos) {
    identity.cluster = Uuid::Parse(rest.substr(0, first));
    identity.role = RoleOfWord(rest.substr(first + 1, second - first - 1));
    identity.id = std::string(rest.substr(second + 1));
  }
  // Compared with what it would be written as: there is one name for each member.
  const bool good = !identity.cluster.IsZero() && identity.role != proto::ROLE_UNKNOWN &&
                    CheckMemberId(identity.id) && SpiffeIdOf(identity) == text;
  if (!good) return Fail(Code::kInvalid, "the certificate names no member of a Forebay cluster");
  return identity;
}

std::string NameOf(const Identity& identity) {
  return std::string(RoleWord(identity.role)) + " " + identity.id;
}

}  // namespace forebay
