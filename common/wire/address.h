#pragma once

#include <boost/asio/generic/stream_protocol.hpp>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/asio.h"
#include "common/base/deadline.h"
#include "common/base/result.h"

namespace forebay {

/// The path of "unix:/path", or "" when `address` is no UNIX socket.
std::string UnixPathOf(std::string_view address);

using StreamEndpoint = asio::generic::stream_protocol::endpoint;

/// What `address` ("host:port", "[v6]:port", "unix:/path") means here. Names are resolved without
/// blocking the caller; kInvalid for bad syntax, kUnavailable when a name does not resolve by the
/// deadline.
Task<Result<std::vector<StreamEndpoint>>> ResolveAddress(std::string address, Deadline deadline);

/// Who may reach an address that is listened on.
enum class Reach : std::uint8_t {
  kThisMachine,  ///< Loopback and UNIX sockets: the rule without certificates.
  kEveryone,     ///< The administrator accepted it.
};

/// The endpoint to listen on: an IP literal, "localhost" or a UNIX socket. kInvalid for bad syntax,
/// for names, and for addresses beyond `reach` (DESIGN section 2, promise 6).
Result<StreamEndpoint> ListenEndpoint(std::string_view address, Reach reach);

/// "127.0.0.1:7441" or "unix:/path".
std::string DescribeEndpoint(const StreamEndpoint& endpoint);

}  // namespace forebay
