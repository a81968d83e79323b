#pragma once

#include <boost/asio/ssl/stream.hpp>
#include <memory>
#include <utility>

#include "common/wire/connection.h"

namespace forebay {

/// A connected socket, with TLS over it once it is secured. Reads and writes as Asio's streams do.
/// The socket is shared with whoever may have to close it.
class WireStream {
 public:
  using executor_type = StreamSocket::executor_type;

  explicit WireStream(std::shared_ptr<StreamSocket> socket) : socket_(std::move(socket)) {}

  StreamSocket& socket() { return *socket_; }
  executor_type get_executor() { return socket_->get_executor(); }

  /// From now on everything goes through `connection`, which is this stream's now; its handshake
  /// comes first.
  void Secure(SSL* connection) { tls_ = std::make_unique<Tls>(*socket_, connection); }
  /// After a handshake that failed: the peer speaks no TLS, and is told so in plain.
  void GoPlain() { tls_.reset(); }
  bool secured() const { return tls_ != nullptr; }

  template <typename Token>
  auto async_handshake(asio::ssl::stream_base::handshake_type side, Token&& token) {
    return tls_->async_handshake(side, std::forward<Token>(token));
  }

  template <typename Buffers, typename Token>
  auto async_read_some(const Buffers& buffers, Token&& token) {
    if (tls_) return tls_->async_read_some(buffers, std::forward<Token>(token));
    return socket_->async_read_some(buffers, std::forward<Token>(token));
  }

  template <typename Buffers, typename Token>
  auto async_write_some(const Buffers& buffers, Token&& token) {
    if (tls_) return tls_->async_write_some(buffers, std::forward<Token>(token));
    return socket_->async_write_some(buffers, std::forward<Token>(token));
  }

 private:
  using Tls = asio::ssl::stream<StreamSocket&>;

  std::shared_ptr<StreamSocket> socket_;
  std::unique_ptr<Tls> tls_;  // refers to *socket_
};

}  // namespace forebay
