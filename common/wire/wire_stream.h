#pragma once

#include <boost/asio/buffer.hpp>
#include <boost/system/error_code.hpp>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "common/base/asio.h"
#include "common/wire/tls_stream.h"

namespace forebay {

/// A connected socket, with TLS over it once it is secured. The socket is shared with whoever may
/// have to close it. All methods are called on its io_context, one read and one write at a time.
class WireStream {
 public:
  explicit WireStream(std::shared_ptr<StreamSocket> socket);

  StreamSocket& socket() { return *socket_; }

  /// From now on everything goes through `connection`, which is this stream's now; its handshake
  /// comes first.
  void Secure(ssl_st* connection, Side side) { tls_.emplace(*socket_, connection, side); }
  /// After a handshake that failed: the peer speaks no TLS, and is told so in plain.
  void GoPlain() { tls_.reset(); }
  bool secured() const { return tls_.has_value(); }

  Task<void> Handshake(boost::system::error_code* error);

  /// Waits for bytes, of which it takes at most `room`.
  Task<std::size_t> Read(asio::mutable_buffer room, boost::system::error_code* error);
  /// Waits until all of them have come, or are taken.
  Task<void> ReadAll(asio::mutable_buffer room, boost::system::error_code* error);
  Task<void> WriteAll(asio::const_buffer bytes, boost::system::error_code* error);

  /// How many of the first bytes of `buffers` the socket takes now: not all, however much it might
  /// take, so that others have their turn. After would_block the next call is to begin with the
  /// same bytes.
  std::size_t WriteNow(const std::vector<asio::const_buffer>& buffers,
                       boost::system::error_code& error);
  /// Written to the socket itself, a UNIX socket's alone.
  void NoteSent(std::size_t bytes) { sent_bytes_ += bytes; }
  /// Bytes that the socket has ever taken, as they went.
  std::uint64_t sent_bytes() const { return tls_ ? tls_->sent_bytes() : sent_bytes_; }

 private:
  Task<void> Wait(StreamSocket::wait_type what, boost::system::error_code* error);

  std::shared_ptr<StreamSocket> socket_;
  std::optional<TlsStream> tls_;  // refers to *socket_
  std::uint64_t sent_bytes_ = 0;  // without TLS
};

}  // namespace forebay
