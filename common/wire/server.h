#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "common/base/executors.h"
#include "common/base/result.h"
#include "common/wire/address.h"
#include "common/wire/handshake.h"
#include "common/wire/rpc.h"

namespace forebay {

/// What a server answers; who may ask for it stands in rpc_rules.h. A method that is not among a
/// server's does not exist there.
struct MethodEntry {
  Method method = Method::kNone;
  RpcHandler handler;
};

struct RpcServerOptions {
  std::vector<std::string>
      listen;  ///< "127.0.0.1:7441", "[::1]:0", "unix:/run/forebay/n1.sock" (0600).
  Reach reach = Reach::kThisMachine;  ///< Of `listen`; without certificates.
  Credentials credentials;
  /// Those whose handshake is under way included. One member has one of
  /// kMemberShares of them.
  std::size_t max_connections = kMaxConnections;
  std::size_t max_request_bytes = kMaxRequestBytes;  ///< Of requests in work, all connections.
  std::size_t max_answer_bytes = kMaxAnswerBytes;    ///< Of messages of answers, likewise.
  Duration handshake_timeout = kHandshakeTimeout;
  Duration first_frame_timeout = kFirstFrameTimeout;  ///< After the handshake.
  Duration end_timeout = kEndTimeout;  ///< From the end of a membership to that of the connection.
};

/// Accepts connections and dispatches their requests. Each connection stays on the io_context that
/// got it.
class RpcServer {
 public:
  /// `epoch` is read for every frame sent; `on_newer_epoch` is called (any thread) when a peer's is
  /// higher.
  RpcServer(IoPool& pool, RpcServerOptions options, std::vector<MethodEntry> methods,
            std::function<std::uint64_t()> epoch,
            std::function<void(std::uint64_t)> on_newer_epoch);
  ~RpcServer();
  RpcServer(const RpcServer&) = delete;
  RpcServer& operator=(const RpcServer&) = delete;

  /// Binds all addresses, or none: kInvalid (beyond `reach`, bad syntax), kInternal (in use, not
  /// permitted).
  Status Start();
  /// The addresses with their real ports, in the order of `listen`.
  const std::vector<std::string>& addresses() const;

  /// Stops accepting at once: when it returns nobody listens, and the addresses are free. Refuses
  /// new calls, lets those in flight end until `drain`, gives their answers a second to leave, and
  /// closes. Blocks, 2 s longer than `drain` at most; not from a pool thread. The pool runs.
  void Stop(Deadline drain);

  struct Counters {
    std::atomic<std::uint64_t> connections{0};  ///< Open now.
    std::atomic<std::uint64_t> accepted{0};
    std::atomic<std::uint64_t> handshakes_refused{0};
    std::atomic<std::uint64_t> calls{0};
    std::atomic<std::uint64_t> calls_in_flight{0};
    std::atomic<std::uint64_t> calls_denied{0};  ///< Method not allowed for the role, or unknown.
    /// Too many calls, or too large ones, waited for their answers.
    std::atomic<std::uint64_t> calls_overloaded{0};
    std::atomic<std::uint64_t> audited_done{0};  ///< Actions of administrators (audit.h).
    std::atomic<std::uint64_t> audited_failed{0};
    std::atomic<std::uint64_t> protocol_errors{0};  ///< Frames that closed their connection.
  };
  const Counters& counters() const;
  /// Of requests in work.
  std::size_t request_bytes() const;
  /// Of messages of answers that wait for their peers.
  std::size_t answer_bytes() const;

 private:
  class Impl;
  std::shared_ptr<Impl> impl_;
};

}  // namespace forebay
