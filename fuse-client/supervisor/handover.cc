#include "fuse-client/supervisor/handover.h"

#include <spdlog/spdlog.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/uio.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <system_error>
#include <vector>

namespace forebay {

namespace {

constexpr timeval kSendPatience{.tv_sec = 10, .tv_usec = 0};
constexpr std::uint32_t kMagic = 0x59425246;  // "FRBY"

struct Head {
  std::uint32_t magic;
  std::uint32_t kind;
  std::uint32_t key_bytes;
  std::uint32_t value_bytes;
};

std::string ErrnoText(int number) { return std::generic_category().message(number); }

/// Room for one descriptor beside a message.
union OneDescriptor {
  cmsghdr head;
  std::array<char, CMSG_SPACE(sizeof(int))> bytes;
};

OwnedFd DescriptorOf(msghdr& message) {
  for (cmsghdr* part = CMSG_FIRSTHDR(&message); part != nullptr;
       part = CMSG_NXTHDR(&message, part)) {
    if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS) continue;
    int fd = -1;
    std::memcpy(&fd, CMSG_DATA(part), sizeof fd);
    return OwnedFd(fd);
  }
  return {};
}

}  // namespace

HandoverChannel::HandoverChannel(OwnedFd socket) : socket_(std::move(socket)) {
  constexpr int kRoom = 4 * static_cast<int>(kBytesMax);
  ::setsockopt(socket_.get(), SOL_SOCKET, SO_SNDBUF, &kRoom, sizeof kRoom);
  ::setsockopt(socket_.get(), SOL_SOCKET, SO_SNDTIMEO, &kSendPatience, sizeof kSendPatience);
}

Result<std::pair<HandoverChannel, HandoverChannel>> HandoverChannel::Pair() {
  std::array<int, 2> ends{};
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()) != 0) {
    return Fail(Code::kInternal, "cannot make a pair of sockets: " + ErrnoText(errno));
  }
  return std::pair(HandoverChannel(OwnedFd(ends[0])), HandoverChannel(OwnedFd(ends[1])));
}

Status HandoverChannel::Send(HandoverKind kind, std::string_view key, std::string_view value,
                             int fd) const {
  if (key.size() + value.size() > kBytesMax) {
    return Fail(Code::kInvalid, "\"" + std::string(key) + "\" is too long for a hand-over");
  }
  Head head{kMagic, static_cast<std::uint32_t>(kind), static_cast<std::uint32_t>(key.size()),
            static_cast<std::uint32_t>(value.size())};
  std::array<iovec, 3> parts = {{{&head, sizeof head},
                                 {const_cast<char*>(key.data()), key.size()},
                                 {const_cast<char*>(value.data()), value.size()}}};
  msghdr message{};
  message.msg_iov = parts.data();
  message.msg_iovlen = parts.size();
  OneDescriptor control{};
  if (fd >= 0) {
    message.msg_control = control.bytes.data();
    message.msg_controllen = control.bytes.size();
    cmsghdr* part = CMSG_FIRSTHDR(&message);
    part->cmsg_level = SOL_SOCKET;
    part->cmsg_type = SCM_RIGHTS;
    part->cmsg_len = CMSG_LEN(sizeof(int));
    std::memcpy(CMSG_DATA(part), &fd, sizeof fd);
  }
  while (::sendmsg(socket_.get(), &message, MSG_NOSIGNAL) < 0) {
    if (errno == EINTR) continue;
    return Fail(Code::kUnavailable, "nobody takes the hand-over: " + ErrnoText(errno));
  }
  return {};
}

void HandoverChannel::Tell(HandoverKind kind, std::string_view key, std::string_view value,
                           int fd) const {
  const Status sent = Send(kind, key, value, fd);
  if (!sent) spdlog::debug("{}", sent.error().message);
}

Result<HandoverMessage> HandoverChannel::Receive(bool wait) const {
  std::vector<char> bytes(sizeof(Head) + kBytesMax);
  iovec part{bytes.data(), bytes.size()};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  OneDescriptor control{};
  message.msg_control = control.bytes.data();
  // Without what aligns it, where the kernel would put a second one, which nobody closes.
  message.msg_controllen = CMSG_LEN(sizeof(int));
  ssize_t n = 0;
  do {
    n = ::recvmsg(socket_.get(), &message, MSG_CMSG_CLOEXEC | (wait ? 0 : MSG_DONTWAIT));
  } while (n < 0 && errno == EINTR);
  if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
    return Fail(Code::kTimeout, "nothing has come");
  }
  if (n <= 0) return Fail(Code::kUnavailable, "the other process has gone");
  HandoverMessage out;
  out.fd = DescriptorOf(message);
  Head head{};
  const auto size = static_cast<std::size_t>(n);
  if (size >= sizeof head) std::memcpy(&head, bytes.data(), sizeof head);
  if (head.magic != kMagic || size != sizeof head + head.key_bytes + head.value_bytes) {
    return Fail(Code::kInvalid, "what came is no message of a hand-over");
  }
  out.kind = static_cast<HandoverKind>(head.kind);
  out.key.assign(bytes.data() + sizeof head, head.key_bytes);
  out.value.assign(bytes.data() + sizeof head + head.key_bytes, head.value_bytes);
  return out;
}

std::string ConnectionKey(std::uint32_t id) { return kConnections + std::to_string(id) + "/"; }

std::uint32_t ConnectionOfKey(std::string_view key) {
  const std::string_view prefix(kConnections);
  if (!key.starts_with(prefix) || !key.ends_with('/')) return 0;
  std::uint32_t id = 0;
  const char* end = key.data() + key.size() - 1;
  const auto parsed = std::from_chars(key.data() + prefix.size(), end, id);
  return parsed.ec == std::errc() && parsed.ptr == end ? id : 0;
}

}  // namespace forebay
