#include "common/wire/tls_opening.h"

#include <sys/socket.h>

#include <array>
#include <boost/asio/buffer.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <utility>

namespace forebay {
namespace {

/// An alert must not be lost under what the peer has sent meanwhile: a socket that is closed with
/// bytes unread resets the connection. Ends when the peer has closed, or the caller the socket.
Task<void> LetThePeerRead(StreamSocket& socket) {
  boost::system::error_code error;
  socket.shutdown(asio::socket_base::shutdown_send, error);
  std::array<char, 512> unread{};
  while (!error) {
    const asio::mutable_buffer room(unread.data(), unread.size());
    co_await socket.async_read_some(room, asio::redirect_error(asio::use_awaitable, error));
  }
}

}  // namespace

Error StreamFailure(const boost::system::error_code& error) {
  if (error.category() == TlsCategory()) {
    return Error{Code::kDenied,
                 "the other side does not accept this program's certificate, or it has none; its "
                 "log says why: " +
                     error.message()};
  }
  return Error{Code::kUnavailable, "the connection was lost in the handshake: " + error.message()};
}

Task<Result<SecuredStream>> SecureAs(Side side, WireStream& stream, Credentials credentials) {
  SecuredStream secured;
  boost::system::error_code error;
  const bool local = stream.socket().local_endpoint(error).protocol().family() == AF_UNIX;
  if (!credentials.trust || local) co_return secured;
  const std::shared_ptr<const TlsContext> context = credentials.trust->Current();
  ssl_st* connection = side == Side::kClient ? context->NewClient() : context->NewServer();
  if (connection == nullptr) co_return Fail(Code::kInternal, "there is no memory for TLS");
  stream.Secure(connection, side);
  error.clear();
  co_await stream.Handshake(&error);
  if (error) {
    if (error.category() != TlsCategory()) co_return Fail(StreamFailure(error));
    const auto code = static_cast<unsigned long>(error.value());
    const Error why = TlsFailure(connection, code);
    if (SpeaksNoTls(code)) {
      stream.GoPlain();
    } else {
      co_await LetThePeerRead(stream.socket());
    }
    co_return Fail(why);
  }
  secured.tls = true;
  secured.member = PeerOf(connection);
  secured.terms = TermsOf(connection);
  secured.binding = TlsChannelBinding(connection);
  if (secured.binding.empty()) co_return Fail(Code::kInternal, "TLS gives no channel binding");
  co_return secured;
}

}  // namespace forebay
