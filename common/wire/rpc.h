#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "common/base/asio.h"
#include "common/base/buffer.h"
#include "common/base/deadline.h"
#include "common/base/result.h"
#include "common/model/fence.h"
#include "common/trust/tls.h"
#include "common/wire/frame.h"
#include "common/wire/passed_file.h"
#include "proto/handshake.pb.h"

namespace google::protobuf {
class MessageLite;
}

namespace forebay {

/// What a peer proved in its handshake.
struct PeerIdentity {
  proto::Role role = proto::ROLE_UNKNOWN;
  std::string id;       ///< Node or mount id: its certificate's, or as it says where it has none.
  std::string program;  ///< "forebay-mount 0.1.0".
  bool proved = false;  ///< Role and id come from a certificate.
  std::string channel = {};  ///< TlsChannelBinding of its connection; "" without TLS.
  PeerTerms terms = {};      ///< Of its certificate.
  std::string address = {};  ///< Where it connects from, at a server: "10.0.0.3:51234", "unix:".
  Fence fence = {};          ///< Of a coordinator, at a server; epoch 0 = it does not say it.
};

/// Whether this peer may have the link of that name: a certificate of a client can be good for some
/// links alone. Who may have a set may have its parts; `set` is the link's, "" = it is in none.
bool MayRead(const PeerIdentity& peer, std::string_view link, std::string_view set);

/// kDenied: the sentence for a peer that may not.
Error NotGranted(const PeerIdentity& peer, std::string_view link);

/// kDenied: the sentence for a viewer that asks for `what`, which administrators may.
Error OnlyLooks(const PeerIdentity& viewer, std::string_view what);

/// A request as a server's handler sees it.
struct RpcCall {
  Method method = Method::kNone;
  std::string message;  ///< Serialised protobuf.
  Deadline deadline = Deadline::After({});
  std::uint64_t ring_epoch = 0;  ///< The caller's.
  PeerIdentity peer;
  bool takes_files = false;  ///< Over a UNIX socket: its answer may bring a file.
};

/// An answer: at the handler on its way out, at the caller on its way in.
struct RpcReply {
  std::string message;  ///< Serialised protobuf.
  Slice payload;  ///< Empty, or at most kMaxPayloadBytes; kept alive until its last byte has left.
  std::uint64_t ring_epoch = 0;
  /// To a caller that takes files, who asked by ClientPool::CallForFile.
  PassedFile file = {};
};

/// Parses within the limits of DESIGN section 10: messages nest at most kMaxMessageNesting deep,
/// and no field comes more than kMaxRepeatedFields times. kInvalid otherwise.
Status ParseMessage(std::string_view bytes, google::protobuf::MessageLite& message);

/// A handler's answer; kInternal when it does not fit into a frame.
Result<RpcReply> ReplyWith(const google::protobuf::MessageLite& message, Slice payload = {});

/// A program's RPCs. Runs on the connection's io_context, many calls at a time. While a call has no
/// answer the server sends `pending` by itself (kPendingAfter, kPendingEvery); when the caller
/// cancels or its connection ends, the task is dropped at its next suspension, so work that others
/// wait for must not live in it.
using RpcHandler = std::function<Task<Result<RpcReply>>(RpcCall)>;

}  // namespace forebay
