#include "common/base/http_server.h"

#include <spdlog/fmt/fmt.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/address.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http/empty_body.hpp>
#include <boost/beast/http/error.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/read.hpp>
#include <boost/beast/http/string_body.hpp>
#include <boost/beast/http/write.hpp>
#include <chrono>
#include <utility>

#include "common/base/executors.h"
#include "common/base/host_port.h"

namespace forebay {

namespace {

namespace http = boost::beast::http;
using boost::asio::ip::tcp;
using boost::system::error_code;
using Request = http::request<http::empty_body>;
using Response = http::response<http::string_body>;

constexpr std::size_t kMaxConnections = 64;
constexpr std::uint32_t kMaxHeaderBytes = 8 * 1024;
constexpr std::chrono::seconds kRequestTimeout{5};
constexpr std::chrono::milliseconds kAcceptRetry{100};

/// The status for a request that could not be read; 0 when there is nobody to tell.
unsigned StatusOfBadRequest(const error_code& error) {
  if (error == http::error::header_limit) return 431;
  if (error == http::error::body_limit || error == http::error::unexpected_body) return 413;
  const bool malformed =
      error.category() == http::make_error_code(http::error::bad_method).category();
  return malformed && error != http::error::end_of_stream && error != http::error::partial_message
             ? 400
             : 0;
}

Response Build(HttpReply reply, unsigned version, bool head, bool keep_alive) {
  Response response;
  response.version(version);
  response.result(reply.status);
  response.set(http::field::content_type, reply.content_type);
  response.set(http::field::cache_control, "no-store");
  if (reply.status == 405) response.set(http::field::allow, "GET, HEAD");
  response.keep_alive(keep_alive);
  response.content_length(reply.body.size());
  if (!head) response.body() = std::move(reply.body);
  return response;
}

}  // namespace

class HttpServer::Impl : public std::enable_shared_from_this<HttpServer::Impl> {
 public:
  Impl(asio::io_context& context, std::map<std::string, Handler> routes)
      : context_(context), acceptor_(context), routes_(std::move(routes)) {}

  Status Listen(const std::string& text) {
    Result<HostPort> wanted = HostPort::Parse(text);
    if (!wanted) return Fail(std::move(wanted.error()));
    if (!wanted->IsIp()) {
      return Fail(Code::kInvalid, fmt::format("\"{}\" names no IP address to listen on", text));
    }
    const std::string host = wanted->host == "localhost" ? "127.0.0.1" : wanted->host;
    const tcp::endpoint endpoint(asio::ip::make_address(host), wanted->port);
    error_code error;
    acceptor_.open(endpoint.protocol(), error);
    if (!error) acceptor_.set_option(tcp::acceptor::reuse_address(true), error);
    if (!error) acceptor_.bind(endpoint, error);
    if (!error) acceptor_.listen(tcp::acceptor::max_listen_connections, error);
    if (error) {
      return Fail(Code::kInternal,
                  fmt::format("cannot listen on {} for metrics: {}; choose another "
                              "address with --metrics-listen",
                              text, error.message()));
    }
    address_ = HostPort{host, acceptor_.local_endpoint().port()}.ToString();
    Spawn(context_, Accept(shared_from_this()));
    return {};
  }

  void Close() {
    error_code ignored;
    acceptor_.close(ignored);
  }

  const std::string& address() const { return address_; }

 private:
  static Task<void> Accept(std::shared_ptr<Impl> self) {
    for (;;) {
      error_code error;
      tcp::socket socket =
          co_await self->acceptor_.async_accept(asio::redirect_error(asio::use_awaitable, error));
      if (!self->acceptor_.is_open()) co_return;
      if (error) {
        // Out of descriptors, most likely: trying again at once would spin.
        co_await SleepFor(kAcceptRetry);
        continue;
      }
      if (self->connections_ >= kMaxConnections) continue;
      ++self->connections_;
      Spawn(self->context_, Serve(self, std::move(socket)));
    }
  }

  static Task<void> Serve(std::shared_ptr<Impl> self, tcp::socket socket) {
    boost::beast::tcp_stream stream(std::move(socket));
    boost::beast::flat_buffer buffer(2 * std::size_t{kMaxHeaderBytes});
    bool open = true;
    while (open) {
      stream.expires_after(kRequestTimeout);
      http::request_parser<http::empty_body> parser;
      parser.header_limit(kMaxHeaderBytes);
      parser.body_limit(0);
      error_code error;
      co_await http::async_read(stream, buffer, parser,
                                asio::redirect_error(asio::use_awaitable, error));
      Response response;
      if (error) {
        const unsigned status = StatusOfBadRequest(error);
        if (status == 0) break;
        HttpReply reply{.status = status, .body = "bad request\n"};
        response = Build(std::move(reply), 11, false, false);
      } else {
        response = self->Answer(parser.get());
      }
      open = response.keep_alive();
      stream.expires_after(kRequestTimeout);
      co_await http::async_write(stream, response,
                                 asio::redirect_error(asio::use_awaitable, error));
      if (error) break;
    }
    error_code ignored;
    stream.socket().shutdown(tcp::socket::shutdown_both, ignored);
    --self->connections_;
  }

  Response Answer(const Request& request) {
    const bool head = request.method() == http::verb::head;
    const std::string_view target(request.target().data(), request.target().size());
    const auto route = routes_.find(std::string(target.substr(0, target.find('?'))));
    HttpReply reply;
    if (route == routes_.end()) {
      reply = HttpReply{.status = 404, .body = "no such page; there are:\n"};
      for (const auto& [path, handler] : routes_) reply.body += path + "\n";
    } else if (!head && request.method() != http::verb::get) {
      reply = HttpReply{.status = 405, .body = "only GET and HEAD\n"};
    } else {
      reply = route->second();
    }
    return Build(std::move(reply), request.version(), head, request.keep_alive());
  }

  asio::io_context& context_;
  tcp::acceptor acceptor_;
  const std::map<std::string, Handler> routes_;
  std::string address_;
  std::size_t connections_ = 0;  // on context_ only
};

HttpServer::HttpServer(asio::io_context& context, std::map<std::string, Handler> routes)
    : impl_(std::make_shared<Impl>(context, std::move(routes))) {}

HttpServer::~HttpServer() { impl_->Close(); }

Status HttpServer::Listen(const std::string& address) { return impl_->Listen(address); }

const std::string& HttpServer::address() const { return impl_->address(); }

}  // namespace forebay
