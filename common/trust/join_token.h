#pragma once

#include <string>
#include <string_view>

#include "common/base/result.h"
#include "common/base/secret.h"

namespace forebay {

/// What an administrator hands to a new machine (DESIGN section 10): `id.secret.hash`, in hex. The
/// hash is that of the authority's key, so that the machine knows the cluster when it meets it; the
/// secret never travels, only proofs of it.
struct JoinToken {
  std::string id;              ///< 12 hex digits; not secret.
  Secret secret;               ///< 32 bytes.
  std::string authority_hash;  ///< Certificate::KeyHash of the authority.

  static JoinToken New(std::string authority_hash);
  /// kInvalid; the message quotes nothing of it.
  static Result<JoinToken> Parse(std::string_view text);
  Secret ToText() const;
};

/// Proof of holding `secret`, good for one request for a certificate over one TLS connection.
/// `channel` is TlsChannelBinding of that connection.
std::string JoinProof(const Secret& secret, std::string_view channel, std::string_view request);

/// Takes as long whatever differs.
bool SameProof(std::string_view one, std::string_view other);

}  // namespace forebay
