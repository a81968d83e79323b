#include "common/wire/wire_stream.h"

#include <boost/asio/error.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>

namespace forebay {

WireStream::WireStream(std::shared_ptr<StreamSocket> socket) : socket_(std::move(socket)) {
  boost::system::error_code impossible;
  socket_->non_blocking(true, impossible);  // for WriteNow
}

Task<void> WireStream::Wait(StreamSocket::wait_type what, boost::system::error_code* error) {
  co_await socket_->async_wait(what, asio::redirect_error(asio::use_awaitable, *error));
}

Task<void> WireStream::Handshake(boost::system::error_code* error) {
  for (;;) {
    const std::optional<StreamSocket::wait_type> wanted = tls_->Shake(*error);
    if (!wanted) co_return;
    co_await Wait(*wanted, error);
    if (*error) co_return;
  }
}

Task<std::size_t> WireStream::Read(asio::mutable_buffer room, boost::system::error_code* error) {
  if (!tls_) {
    co_return co_await socket_->async_read_some(room,
                                                asio::redirect_error(asio::use_awaitable, *error));
  }
  for (;;) {
    const std::size_t got = tls_->Read(room, *error);
    if (*error != asio::error::would_block) co_return got;
    co_await Wait(StreamSocket::wait_read, error);
    if (*error) co_return 0;
  }
}

Task<void> WireStream::ReadAll(asio::mutable_buffer room, boost::system::error_code* error) {
  while (room.size() > 0) {
    room += co_await Read(room, error);
    if (*error) co_return;
  }
}

std::size_t WireStream::WriteNow(const std::vector<asio::const_buffer>& buffers,
                                 boost::system::error_code& error) {
  if (tls_) return tls_->Write(buffers, error);
  const std::size_t taken = socket_->write_some(buffers, error);
  sent_bytes_ += taken;
  return taken;
}

Task<void> WireStream::WriteAll(asio::const_buffer bytes, boost::system::error_code* error) {
  while (bytes.size() > 0) {
    bytes += WriteNow({bytes}, *error);
    if (*error == asio::error::would_block) co_await Wait(StreamSocket::wait_write, error);
    if (*error) co_return;
  }
}

}  // namespace forebay
