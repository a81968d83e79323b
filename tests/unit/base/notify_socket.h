#pragma once

#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <string>

namespace forebay {

/// A datagram socket as systemd's.
class NotifySocket {
 public:
  /// `path` with '@' in front is an abstract address.
  explicit NotifySocket(const std::string& path) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::ranges::copy(path, address.sun_path);
    if (path.front() == '@') address.sun_path[0] = '\0';
    fd_ = ::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + path.size());
    bound_ = ::bind(fd_, reinterpret_cast<const sockaddr*>(&address), length) == 0;
  }
  ~NotifySocket() { ::close(fd_); }
  NotifySocket(const NotifySocket&) = delete;
  NotifySocket& operator=(const NotifySocket&) = delete;

  bool bound() const { return bound_; }

  /// Waits for a datagram for at most 20 s.
  std::string Wait() {
    pollfd look{.fd = fd_, .events = POLLIN, .revents = 0};
    return ::poll(&look, 1, 20'000) == 1 ? Receive() : "";
  }

  /// The next datagram; "" when there is none. Sending to a UNIX socket delivers at once.
  std::string Receive() {
    std::array<char, 256> text{};
    const ssize_t n = ::recv(fd_, text.data(), text.size(), 0);
    return n < 0 ? "" : std::string(text.data(), static_cast<std::size_t>(n));
  }

 private:
  int fd_ = -1;
  bool bound_ = false;
};

}  // namespace forebay
