#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "common/base/result.h"

namespace forebay {

/// An address as people write it: "127.0.0.1:7440", "cache-3.local:7441", "[::1]:7440".
struct HostPort {
  std::string host;  ///< A name or an IP literal, without the brackets.
  std::uint16_t port = 0;

  /// kInvalid when the host is empty, an IPv6 literal has no brackets, or the port is missing or no
  /// number up to 65535. Names are not resolved.
  static Result<HostPort> Parse(std::string_view text);
  std::string ToString() const;
  /// 127.0.0.0/8, ::1 or "localhost": nobody outside this machine can reach it.
  bool IsLoopback() const;
  /// The host is an IP address or "localhost": to listen there no name is looked up.
  bool IsIp() const;

  bool operator==(const HostPort&) const = default;
};

}  // namespace forebay
