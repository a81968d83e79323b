#pragma once

#include <functional>
#include <memory>
#include <string>

#include "common/base/asio.h"
#include "common/base/deadline.h"
#include "common/base/result.h"
#include "common/wire/connection.h"
#include "common/wire/handshake.h"
#include "common/wire/rpc.h"

namespace forebay {

/// A socket whose two ends have proved who they are.
struct OpenedSocket {
  PeerIdentity peer;
  std::uint64_t peer_ring_epoch = 0;  ///< At the client: the server's.
};

/// Closes a socket when something takes too long. Ends with its scope; both on the socket's
/// io_context.
class SocketLimit {
 public:
  SocketLimit(StreamSocket& socket, Deadline deadline);
  ~SocketLimit() { *watched_ = nullptr; }
  SocketLimit(const SocketLimit&) = delete;
  SocketLimit& operator=(const SocketLimit&) = delete;

 private:
  // Null once the scope has ended: the timer's handler may be on its way by then.
  std::shared_ptr<StreamSocket*> watched_;
  asio::steady_timer timer_;
};

// The exchange of docs/WIRE.md, "Opening", over a connected socket: TLS where there are
// certificates, then who is who. The socket is closed at the deadline. kDenied: the other side does
// not hold the secret or no good certificate, is not what it says, belongs to another cluster, or
// refused us (its own sentence). A server asks `admit` (empty: everybody is) once the client has
// proved who it is; a client that it does not admit is told why, with its code.
using Admit = std::function<Status(const PeerIdentity&)>;
Task<Result<OpenedSocket>> OpenAsClient(WireStream& stream, Credentials credentials,
                                        Deadline deadline);
Task<Result<OpenedSocket>> OpenAsServer(WireStream& stream, Credentials credentials,
                                        std::uint64_t ring_epoch, Admit admit, Deadline deadline);

}  // namespace forebay
