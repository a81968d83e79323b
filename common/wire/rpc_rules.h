#pragma once

#include <cstdint>
#include <initializer_list>
#include <span>
#include <string_view>

#include "common/wire/frame.h"
#include "proto/handshake.pb.h"

namespace forebay {

/// Some of the roles.
class Roles {
 public:
  constexpr Roles() = default;
  constexpr Roles(std::initializer_list<proto::Role> roles) {
    for (const proto::Role role : roles) bits_ |= Bit(role);
  }
  constexpr bool Has(proto::Role role) const { return (bits_ & Bit(role)) != 0; }

 private:
  static constexpr unsigned Bit(proto::Role role) {
    const auto bit = static_cast<unsigned>(role);
    return bit < 32 ? 1U << bit : 0;  // a number that this version does not know is nobody
  }
  unsigned bits_ = 0;
};

/// What a request leaves behind. What an administrator does is audited (audit.h) unless it only
/// looks; a handler that knows more than its request says may write the line itself.
enum class Effect : std::uint8_t { kChanges, kChangesAndSays, kLooks };

/// Who may ask what of whom (DESIGN section 10): a row of the table that every server consults for
/// every request, and every client that knows by a certificate whom it asks. docs/SECURITY.md
/// prints it.
struct RpcRule {
  Method method = Method::kNone;
  std::string_view name;
  Roles callers;
  Roles servers;  ///< Who answers it; from anybody else an answer is not believed.
  Effect effect = Effect::kChanges;
};

/// Whether `server` answers this to `caller`. A viewer asks coordinators alone, whatever the row
/// says of others: a node has nothing to show to it, and hears of no viewer that was revoked
/// (coordinator/trust_book.cc).
bool MayAsk(const RpcRule& rule, proto::Role caller, proto::Role server);

/// Null: there is no such request. A server does not start with a method that has no row.
const RpcRule* RuleOf(Method method);

/// All of them, in the order of the document.
std::span<const RpcRule> AllRules();

}  // namespace forebay
