#include "common/wire/address.h"

#include <sys/un.h>

#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <cstddef>
#include <cstring>
#include <memory>

#include "common/base/host_port.h"

namespace forebay {
namespace {

constexpr std::string_view kUnixScheme = "unix:";

Result<StreamEndpoint> UnixEndpoint(const std::string& path) {
  if (path.empty() || path.size() >= sizeof(sockaddr_un::sun_path)) {
    return Fail(Code::kInvalid, "'" + path + "' is no path for a UNIX socket: 1 to 107 bytes");
  }
  return StreamEndpoint(asio::local::stream_protocol::endpoint(path));
}

asio::ip::address LiteralOf(const std::string& host, boost::system::error_code& error) {
  return asio::ip::make_address(host == "localhost" ? std::string("127.0.0.1") : host, error);
}

}  // namespace

std::string UnixPathOf(std::string_view address) {
  return address.starts_with(kUnixScheme) ? std::string(address.substr(kUnixScheme.size()))
                                          : std::string();
}

Task<Result<std::vector<StreamEndpoint>>> ResolveAddress(std::string address, Deadline deadline) {
  std::vector<StreamEndpoint> endpoints;
  if (address.starts_with(kUnixScheme)) {
    Result<StreamEndpoint> endpoint = UnixEndpoint(UnixPathOf(address));
    if (!endpoint) co_return Fail(endpoint.error());
    endpoints.push_back(*endpoint);
    co_return endpoints;
  }
  Result<HostPort> place = HostPort::Parse(address);
  if (!place) co_return Fail(place.error());
  boost::system::error_code error;
  const asio::ip::address literal = LiteralOf(place->host, error);
  if (!error) {
    endpoints.emplace_back(asio::ip::tcp::endpoint(literal, place->port));
    co_return endpoints;
  }
  asio::any_io_executor executor = co_await asio::this_coro::executor;
  asio::ip::tcp::resolver resolver(executor);
  asio::steady_timer limit(executor, deadline.at());
  // Null once the answer is there: the timer's handler may be on its way by then.
  auto watched = std::make_shared<asio::ip::tcp::resolver*>(&resolver);
  limit.async_wait([watched](boost::system::error_code stopped) {
    if (!stopped && *watched != nullptr) (*watched)->cancel();
  });
  const std::string service = std::to_string(place->port);
  error.clear();
  auto results = co_await resolver.async_resolve(place->host, service,
                                                 asio::redirect_error(asio::use_awaitable, error));
  *watched = nullptr;
  if (error) {
    co_return Fail(Code::kUnavailable,
                   "the name '" + place->host + "' does not resolve: " + error.message());
  }
  for (const auto& result : results) endpoints.emplace_back(result.endpoint());
  co_return endpoints;
}

Result<StreamEndpoint> ListenEndpoint(std::string_view address, Reach reach) {
  if (address.starts_with(kUnixScheme)) return UnixEndpoint(UnixPathOf(address));
  Result<HostPort> place = HostPort::Parse(address);
  if (!place) return Fail(place.error());
  if (reach == Reach::kThisMachine && !place->IsLoopback()) {
    return Fail(Code::kInvalid, "cannot listen on " + std::string(address) +
                                    ": without certificates everybody on the network could read "
                                    "and change what goes over it; use 127.0.0.1");
  }
  boost::system::error_code error;
  const asio::ip::address literal = LiteralOf(place->host, error);
  if (error)
    return Fail(Code::kInvalid,
                "cannot listen on " + std::string(address) + ": write an IP address");
  return StreamEndpoint(asio::ip::tcp::endpoint(literal, place->port));
}

std::string DescribeEndpoint(const StreamEndpoint& endpoint) {
  if (endpoint.protocol().family() == AF_UNIX) {
    const auto* unix_address = reinterpret_cast<const sockaddr_un*>(endpoint.data());
    return std::string(kUnixScheme) + unix_address->sun_path;
  }
  asio::ip::tcp::endpoint tcp;
  tcp.resize(endpoint.size());
  std::memcpy(tcp.data(), endpoint.data(), endpoint.size());
  return HostPort{tcp.address().to_string(), tcp.port()}.ToString();
}

}  // namespace forebay
