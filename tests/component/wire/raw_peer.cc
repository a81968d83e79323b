#include "tests/component/wire/raw_peer.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <stdexcept>
#include <utility>

#include "common/wire/rpc.h"

namespace forebay {
namespace {

constexpr int kPatienceMs = 20'000;

bool WaitFor(int fd, short events) {
  pollfd entry{.fd = fd, .events = events, .revents = 0};
  return poll(&entry, 1, kPatienceMs) == 1;
}

sockaddr_in Loopback(std::uint16_t port) {
  sockaddr_in place{};
  place.sin_family = AF_INET;
  place.sin_port = htons(port);
  place.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return place;
}

}  // namespace

std::string FrameBytes(FrameHeader header, std::string_view message, std::string_view payload) {
  header.payload_bytes = static_cast<std::uint32_t>(payload.size());
  const auto fixed = EncodeFrameHeader(header, message);
  std::string bytes(reinterpret_cast<const char*>(fixed.data()), fixed.size());
  bytes.append(message);
  bytes.append(payload);
  return bytes;
}

FrameHeader HeaderOf(FrameKind kind, std::uint64_t request_id, Method method) {
  FrameHeader header;
  header.kind = kind;
  header.request_id = request_id;
  header.method = method;
  header.deadline_ms = kind == FrameKind::kRequest ? 20'000 : 0;
  return header;
}

RawPeer::~RawPeer() {
  if (fd_ >= 0) close(fd_);
}

RawPeer RawPeer::ConnectTo(const std::string& address) {
  const auto port = static_cast<std::uint16_t>(std::stoi(address.substr(address.rfind(':') + 1)));
  const sockaddr_in place = Loopback(port);
  RawPeer peer(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const auto* raw = reinterpret_cast<const sockaddr*>(&place);
  if (peer.fd_ >= 0 && connect(peer.fd_, raw, sizeof place) != 0)
    close(std::exchange(peer.fd_, -1));
  return peer;
}

RawPeer RawPeer::ConnectFrom(std::uint8_t number, const std::string& address) {
  const auto port = static_cast<std::uint16_t>(std::stoi(address.substr(address.rfind(':') + 1)));
  const sockaddr_in place = Loopback(port);
  sockaddr_in source = Loopback(0);
  source.sin_addr.s_addr = htonl(0x7F000100U | number);
  RawPeer peer(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const auto* from = reinterpret_cast<const sockaddr*>(&source);
  const auto* to = reinterpret_cast<const sockaddr*>(&place);
  const bool done = peer.fd_ >= 0 && bind(peer.fd_, from, sizeof source) == 0 &&
                    connect(peer.fd_, to, sizeof place) == 0;
  if (!done && peer.fd_ >= 0) close(std::exchange(peer.fd_, -1));
  return peer;
}

bool RawPeer::Send(std::string_view bytes) const {
  while (!bytes.empty()) {
    if (!WaitFor(fd_, POLLOUT)) return false;
    const ssize_t sent = send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0 && errno == EAGAIN) continue;
    if (sent <= 0) return false;
    bytes.remove_prefix(static_cast<std::size_t>(sent));
  }
  return true;
}

bool RawPeer::ReadBytes(char* to, std::size_t count) const {
  while (count > 0) {
    if (!WaitFor(fd_, POLLIN)) return false;
    const ssize_t got = recv(fd_, to, count, 0);
    if (got <= 0) return false;
    to += got;
    count -= static_cast<std::size_t>(got);
  }
  return true;
}

std::optional<RawFrame> RawPeer::Read() const {
  std::array<std::byte, kFrameHeaderBytes> fixed;
  if (!ReadBytes(reinterpret_cast<char*>(fixed.data()), fixed.size())) return std::nullopt;
  const Result<FrameHeader> header = DecodeFrameHeader(fixed);
  if (!header) return std::nullopt;
  RawFrame frame{*header, std::string(header->message_bytes, '\0'),
                 std::string(header->payload_bytes, '\0')};
  if (!ReadBytes(frame.message.data(), frame.message.size())) return std::nullopt;
  if (!ReadBytes(frame.payload.data(), frame.payload.size())) return std::nullopt;
  return frame;
}

bool RawPeer::Ends() const {
  std::array<char, 65536> ignored;
  while (WaitFor(fd_, POLLIN)) {
    if (recv(fd_, ignored.data(), ignored.size(), 0) <= 0) return true;
  }
  return false;
}

bool RawPeer::IsOpen() const {
  char byte = 0;
  const ssize_t got = recv(fd_, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
  return got > 0 || (got < 0 && errno == EAGAIN);
}

void RawPeer::Reset() {
  const linger at_once{.l_onoff = 1, .l_linger = 0};
  setsockopt(fd_, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
  close(std::exchange(fd_, -1));
}

bool RawPeer::SendMessage(const google::protobuf::MessageLite& message) const {
  return Send(FrameBytes(HeaderOf(FrameKind::kHandshake), message.SerializeAsString()));
}

bool RawPeer::ReadMessage(google::protobuf::MessageLite& message) const {
  const std::optional<RawFrame> frame = Read();
  return frame && frame->header.kind == FrameKind::kHandshake &&
         ParseMessage(frame->message, message).has_value();
}

bool RawPeer::OpenAsClient(const Credentials& credentials, const ChangeHello& change) const {
  proto::ClientHello hello;
  hello.set_version_min(kWireVersion);
  hello.set_version_max(kWireVersion);
  hello.set_role(credentials.role);
  hello.set_nonce(NewNonce());
  hello.set_program(credentials.program);
  proto::ClientHello said = hello;
  if (change) change(said);
  proto::ServerHello answer;
  if (!SendMessage(said) || !ReadMessage(answer)) return false;
  proto::ClientProof proof;
  proof.set_proof(ClientProof(credentials, hello, answer));
  proto::ServerAccept accepted;
  return SendMessage(proof) && ReadMessage(accepted);
}

bool RawPeer::OpenAsServer(const Credentials& credentials, const ChangeAnswer& change) const {
  proto::ClientHello hello;
  if (!ReadMessage(hello)) return false;
  proto::ServerHello answer;
  answer.set_version(kWireVersion);
  answer.set_role(credentials.role);
  answer.set_nonce(NewNonce());
  answer.set_program(credentials.program);
  answer.set_proof(ServerProof(credentials, hello, answer));
  if (change) change(hello, answer);
  proto::ClientProof proof;
  if (!SendMessage(answer) || !ReadMessage(proof)) return false;
  return SendMessage(proto::ServerAccept());
}

RawListener::RawListener() : fd_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
  sockaddr_in place = Loopback(0);
  socklen_t size = sizeof place;
  auto* raw = reinterpret_cast<sockaddr*>(&place);
  if (bind(fd_, raw, size) != 0 || listen(fd_, 16) != 0 || getsockname(fd_, raw, &size) != 0)
    throw std::runtime_error("cannot listen on the loopback");
  address_ = "127.0.0.1:" + std::to_string(ntohs(place.sin_port));
}

RawListener::~RawListener() { close(fd_); }

RawPeer RawListener::Accept() const {
  if (!WaitFor(fd_, POLLIN)) return RawPeer(-1);
  return RawPeer(accept4(fd_, nullptr, nullptr, SOCK_CLOEXEC));
}

}  // namespace forebay
