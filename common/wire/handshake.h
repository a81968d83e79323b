#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

#include "common/base/result.h"
#include "common/base/secret.h"
#include "common/model/fence.h"
#include "common/model/object_version.h"
#include "common/trust/tls.h"
#include "proto/handshake.pb.h"

namespace forebay {

/// What one program says of itself when a connection opens, and what it proves.
struct Credentials {
  proto::Role role = proto::ROLE_UNKNOWN;
  std::string id;       ///< Node id, mount id; for the peer's logs.
  std::string program;  ///< "forebay-node 0.1.0".
  Uuid cluster;         ///< Zero = not known yet: any cluster is accepted.
  /// That both sides prove to hold, where there is no TLS: 32 bytes, see LoadOrCreateSecret.
  Secret secret;
  /// Null: TCP without certificates. UNIX sockets never have TLS.
  std::shared_ptr<const Trust> trust = nullptr;
  /// Of a coordinator that asks: nodes that have heard of a newer one refuse its requests.
  Fence fence = {};
};

/// Where this user's programs meet before `init`: $FOREBAY_RUNTIME_DIR, else /run/forebay for root,
/// else $XDG_RUNTIME_DIR/forebay. kInvalid when there is none.
Result<std::string> RuntimeDir();

/// The per-user secret (DESIGN section 10): RuntimeDir()/secret, 0600 in a 0700 directory, made on
/// first use; two programs that start at once agree on one. Root uses that of the service's user
/// when root has given it the directory. kDenied when somebody else owns the file or may read it.
Result<Secret> LoadOrCreateSecret();

// The pure half of the handshake; Connection and RpcServer carry the messages (docs/WIRE.md).
std::string NewNonce();
std::string ServerProof(const Credentials& credentials, const proto::ClientHello& hello,
                        const proto::ServerHello& answer);
std::string ClientProof(const Credentials& credentials, const proto::ClientHello& hello,
                        const proto::ServerHello& answer);
/// Constant-time comparison.
bool ProofMatches(std::string_view expected, std::string_view given);

}  // namespace forebay
