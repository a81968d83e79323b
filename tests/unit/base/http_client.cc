#include "tests/unit/base/http_client.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <array>
#include <cstdlib>

#include "common/base/host_port.h"

namespace forebay {

HttpConnection::HttpConnection(const std::string& address) {
  const HostPort peer = HostPort::Parse(address).value();
  sockaddr_in target{};
  target.sin_family = AF_INET;
  target.sin_port = htons(peer.port);
  ::inet_pton(AF_INET, peer.host.c_str(), &target.sin_addr);
  fd_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const timeval patience{.tv_sec = 10, .tv_usec = 0};
  ::setsockopt(fd_, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
  if (::connect(fd_, reinterpret_cast<const sockaddr*>(&target), sizeof(target)) != 0) {
    ::close(fd_);
    fd_ = -1;
  }
}

HttpConnection::~HttpConnection() {
  if (fd_ >= 0) ::close(fd_);
}

bool HttpConnection::Send(const std::string& bytes) {
  return ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL) ==
         static_cast<ssize_t>(bytes.size());
}

std::string HttpConnection::ReadAll() {
  std::string text;
  std::array<char, 4096> chunk{};
  for (;;) {
    const ssize_t n = ::recv(fd_, chunk.data(), chunk.size(), 0);
    if (n <= 0) return text;
    text.append(chunk.data(), static_cast<std::size_t>(n));
  }
}

HttpAnswer HttpRequest(const std::string& address, const std::string& method,
                       const std::string& path) {
  HttpConnection connection(address);
  connection.Send(method + " " + path + " HTTP/1.1\r\nHost: test\r\nConnection: close\r\n\r\n");
  const std::string text = connection.ReadAll();
  HttpAnswer answer;
  const std::size_t end = text.find("\r\n\r\n");
  if (!text.starts_with("HTTP/1.1 ") || end == std::string::npos) return answer;
  answer.status = std::atoi(text.c_str() + 9);
  answer.headers = text.substr(0, end);
  answer.body = text.substr(end + 4);
  return answer;
}

}  // namespace forebay
