#pragma once

#include <optional>
#include <string>

#include "common/base/asio.h"
#include "common/base/result.h"
#include "common/trust/identity.h"
#include "common/wire/handshake.h"
#include "common/wire/wire_stream.h"

namespace forebay {

/// What a TLS handshake proved.
struct SecuredStream {
  bool tls = false;                ///< False: a UNIX socket, or there are no certificates.
  std::optional<Identity> member;  ///< Nothing: the peer has no certificate, and only joins.
  PeerTerms terms = {};            ///< Of its certificate.
  std::string binding;             ///< TlsChannelBinding.
};

/// The TLS handshake, where the connection has one: with certificates, and not over a UNIX socket,
/// whose file mode says who may connect. The caller closes the socket when it takes too long.
/// kDenied says who is not believed, and why; when it speaks no TLS at all, the stream is plain
/// then. kUnavailable: the connection ended.
Task<Result<SecuredStream>> SecureAs(Side side, WireStream& stream, Credentials credentials);

/// Why a read or write of a stream failed; with TLS it may be the peer's word that it does not
/// believe us, which a client learns only then.
Error StreamFailure(const boost::system::error_code& error);

}  // namespace forebay
