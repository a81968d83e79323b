#include "fuse-client/supervisor/private_socket.h"

#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <system_error>
#include <utility>

namespace forebay {

namespace {

std::string ErrnoText() { return std::generic_category().message(errno); }

Result<sockaddr_un> AddressOf(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof address.sun_path) {
    return Fail(Code::kInvalid, "the path " + path + " is too long for a socket");
  }
  std::ranges::copy(path, address.sun_path);
  return address;
}

Result<OwnedFd> NewSocket() {
  OwnedFd made(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  if (!made) return Fail(Code::kInternal, "cannot make a socket: " + ErrnoText());
  return made;
}

/// How many may wait to be accepted.
constexpr int kBacklog = 64;

/// What comes with a message is taken by root and by this user alone, and given to no other.
bool IsTrusted(int socket, PrivateSocket::Of whose) {
  if (whose == PrivateSocket::Of::kAnyUser && ::geteuid() == 0) return true;
  ucred peer{};
  socklen_t size = sizeof peer;
  if (::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0) return false;
  return peer.uid == ::geteuid() || peer.uid == 0;
}

void SetTimeouts(int socket, Duration patience) {
  const auto us = std::chrono::duration_cast<std::chrono::microseconds>(patience).count();
  const timeval time{.tv_sec = us / 1'000'000, .tv_usec = us % 1'000'000};
  for (const int option : {SO_RCVTIMEO, SO_SNDTIMEO}) {
    ::setsockopt(socket, SOL_SOCKET, option, &time, sizeof time);
  }
}

}  // namespace

Result<PrivateSocket> PrivateSocket::Listen(const std::string& path) {
  const Result<sockaddr_un> address = AddressOf(path);
  if (!address) return Fail(address.error());
  Result<OwnedFd> made = NewSocket();
  if (!made) return Fail(made.error());
  ::unlink(path.c_str());
  // The process's umask keeps others out from the first moment on.
  if (::bind(made->get(), reinterpret_cast<const sockaddr*>(&*address), sizeof *address) != 0 ||
      ::chmod(path.c_str(), S_IRUSR | S_IWUSR) != 0 || ::listen(made->get(), kBacklog) != 0) {
    return Fail(Code::kInternal, "cannot listen at " + path + ": " + ErrnoText());
  }
  PrivateSocket out;
  out.socket_ = std::move(*made);
  out.path_ = path;
  return out;
}

Result<HandoverChannel> PrivateSocket::Connect(const std::string& path, Of whose,
                                               std::optional<Duration> patience) {
  const Result<sockaddr_un> address = AddressOf(path);
  if (!address) return Fail(address.error());
  Result<OwnedFd> made = NewSocket();
  if (!made) return Fail(made.error());
  // Also of the connect, when others wait to be accepted.
  if (patience) SetTimeouts(made->get(), *patience);
  if (::connect(made->get(), reinterpret_cast<const sockaddr*>(&*address), sizeof *address) != 0) {
    const Code code = errno == EAGAIN ? Code::kTimeout : Code::kUnavailable;
    return Fail(code, path + ": " + ErrnoText());
  }
  if (!IsTrusted(made->get(), whose)) {
    return Fail(Code::kDenied, path + " is the socket of another user");
  }
  HandoverChannel channel(std::move(*made));  // which has a patience of its own
  if (patience) SetPatience(channel, *patience);
  return channel;
}

PrivateSocket::PrivateSocket(PrivateSocket&& other) noexcept
    : socket_(std::move(other.socket_)), path_(std::exchange(other.path_, "")) {}

PrivateSocket& PrivateSocket::operator=(PrivateSocket&& other) noexcept {
  std::swap(socket_, other.socket_);
  std::swap(path_, other.path_);
  return *this;
}

PrivateSocket::~PrivateSocket() {
  if (!path_.empty()) ::unlink(path_.c_str());
}

std::optional<HandoverChannel> PrivateSocket::Accept() const {
  OwnedFd client(::accept4(socket_.get(), nullptr, nullptr, SOCK_CLOEXEC));
  if (!client || !IsTrusted(client.get(), Of::kThisUser)) return std::nullopt;
  return HandoverChannel(std::move(client));
}

void SetPatience(const HandoverChannel& channel, Duration patience) {
  SetTimeouts(channel.fd(), patience);
}

}  // namespace forebay
