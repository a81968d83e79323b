#include "common/wire/tcp_options.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <chrono>

namespace forebay {
namespace {

#ifndef TCP_RTO_MAX_MS
#define TCP_RTO_MAX_MS 44  // linux/tcp.h of 6.15, which Debian's libc does not know
#endif

constexpr unsigned kLongestPauseMs = 1000;  // the least that the kernel takes

// A kernel that lacks an option costs seconds after a fault, nothing else.
void Set(int fd, int option, unsigned value) {
  ::setsockopt(fd, IPPROTO_TCP, option, &value, sizeof value);
}

}  // namespace

void SetTcpOptions(StreamSocket& socket, std::optional<Duration> lost_after) {
  const int fd = socket.native_handle();
  sockaddr_storage own{};
  socklen_t length = sizeof own;
  if (::getsockname(fd, reinterpret_cast<sockaddr*>(&own), &length) != 0) return;
  if (own.ss_family == AF_UNIX) return;
  Set(fd, TCP_NODELAY, 1);
  Set(fd, TCP_RTO_MAX_MS, kLongestPauseMs);
  if (!lost_after) return;
  const auto ms = std::chrono::ceil<std::chrono::milliseconds>(*lost_after).count();
  Set(fd, TCP_USER_TIMEOUT, static_cast<unsigned>(ms));
}

}  // namespace forebay
