#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>

#include "common/base/result.h"

namespace boost::asio {
class io_context;
}

namespace forebay {

struct HttpReply {
  unsigned status = 200;
  std::string content_type = "text/plain; charset=utf-8";
  std::string body;
};

/// A small HTTP/1.1 server for GET and HEAD on a few fixed paths: /metrics and health, never the
/// data path. Bounded: 64 connections, 8 KiB of header, no bodies, 5 s for a request or for
/// silence.
class HttpServer {
 public:
  using Handler = std::function<HttpReply()>;

  /// `routes`: path (without query) to handler. Handlers run on `context`'s thread, one at a time
  /// when it has one thread, and must not block.
  HttpServer(boost::asio::io_context& context, std::map<std::string, Handler> routes);
  /// Closes the listening socket. Before it, or after `context` has stopped; the connections end
  /// with `context`.
  ~HttpServer();
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  /// Binds and begins to accept at an IP address or "localhost", with port 0 for any: kInvalid
  /// otherwise; kInternal when it cannot be bound. Whoever reaches the address may ask.
  Status Listen(const std::string& address);

  /// "127.0.0.1:7450" with the real port; "" before Listen.
  const std::string& address() const;

 private:
  class Impl;
  std::shared_ptr<Impl> impl_;
};

}  // namespace forebay
