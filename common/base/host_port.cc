#include "common/base/host_port.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <limits>

#include "common/base/units.h"

namespace forebay {

namespace {
constexpr std::string_view kHelp = "is not an address; write HOST:PORT, such as 127.0.0.1:7440";

std::unexpected<Error> Bad(std::string_view text) {
  return Fail(Code::kInvalid, "\"" + std::string(text) + "\" " + std::string(kHelp));
}
}  // namespace

Result<HostPort> HostPort::Parse(std::string_view text) {
  const std::size_t colon = text.rfind(':');
  if (colon == std::string_view::npos || colon == 0) return Bad(text);
  std::string_view name = text.substr(0, colon);
  if (name.front() == '[') {
    if (name.back() != ']') return Bad(text);
    name = name.substr(1, name.size() - 2);
    in6_addr parsed{};
    if (::inet_pton(AF_INET6, std::string(name).c_str(), &parsed) != 1) return Bad(text);
  } else if (name.find_first_of(":[]/ ,=") != std::string_view::npos) {
    return Bad(text);
  }
  const Result<std::uint64_t> number =
      ParseUint(text.substr(colon + 1), 0, std::numeric_limits<std::uint16_t>::max());
  if (!number || name.empty()) return Bad(text);
  return HostPort{std::string(name), static_cast<std::uint16_t>(*number)};
}

std::string HostPort::ToString() const {
  const bool v6 = host.find(':') != std::string::npos;
  return (v6 ? "[" + host + "]" : host) + ":" + std::to_string(port);
}

bool HostPort::IsLoopback() const {
  if (host == "localhost") return true;
  in_addr v4{};
  if (::inet_pton(AF_INET, host.c_str(), &v4) == 1) return (ntohl(v4.s_addr) >> 24) == 127;
  in6_addr v6{};
  return ::inet_pton(AF_INET6, host.c_str(), &v6) == 1 && IN6_IS_ADDR_LOOPBACK(&v6);
}

bool HostPort::IsIp() const {
  in6_addr parsed{};
  return host == "localhost" || ::inet_pton(AF_INET, host.c_str(), &parsed) == 1 ||
         ::inet_pton(AF_INET6, host.c_str(), &parsed) == 1;
}

}  // namespace forebay
