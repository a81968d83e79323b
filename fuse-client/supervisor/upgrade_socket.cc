#include "fuse-client/supervisor/upgrade_socket.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <system_error>
#include <utility>

#include "common/base/version.h"

namespace forebay {

namespace {

std::string ErrnoText() { return std::generic_category().message(errno); }

/// FNV-1a: the same for the same path in every version, since another program looks for it.
std::uint64_t HashOf(const std::string& text) {
  std::uint64_t hash = 0xcbf29ce484222325;
  for (const char c : text) {
    hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  }
  return hash;
}

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

}  // namespace

std::string MountSocketPath(const std::string& folder, const std::string& kind,
                            const std::string& mountpoint) {
  return fmt::format("{}/{}-{:016x}.sock", folder, kind, HashOf(mountpoint));
}

Result<UpgradeSocket> UpgradeSocket::Listen(const std::string& path) {
  const Result<sockaddr_un> address = AddressOf(path);
  if (!address) return Fail(address.error());
  Result<OwnedFd> made = NewSocket();
  if (!made) return Fail(made.error());
  // One of a supervisor that was killed: two mounts of one place cannot be.
  ::unlink(path.c_str());
  // The process's umask keeps others out from the first moment on.
  if (::bind(made->get(), reinterpret_cast<const sockaddr*>(&*address), sizeof *address) != 0 ||
      ::chmod(path.c_str(), S_IRUSR | S_IWUSR) != 0 || ::listen(made->get(), 4) != 0) {
    return Fail(Code::kInternal, "cannot listen at " + path + ": " + ErrnoText());
  }
  UpgradeSocket out;
  out.socket_ = std::move(*made);
  out.path_ = path;
  return out;
}

UpgradeSocket::UpgradeSocket(UpgradeSocket&& other) noexcept
    : socket_(std::move(other.socket_)), path_(std::exchange(other.path_, "")) {}

UpgradeSocket& UpgradeSocket::operator=(UpgradeSocket&& other) noexcept {
  std::swap(socket_, other.socket_);
  std::swap(path_, other.path_);
  return *this;
}

UpgradeSocket::~UpgradeSocket() {
  if (!path_.empty()) ::unlink(path_.c_str());
}

std::optional<HandoverChannel> UpgradeSocket::Accept() const {
  OwnedFd client(::accept4(socket_.get(), nullptr, nullptr, SOCK_CLOEXEC));
  if (!client) return std::nullopt;
  ucred peer{};
  socklen_t size = sizeof peer;
  if (::getsockopt(client.get(), SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0) return std::nullopt;
  if (peer.uid != ::geteuid() && peer.uid != 0) return std::nullopt;
  return HandoverChannel(std::move(client));
}

Result<std::string> AskForUpgrade(const std::string& path, const std::string& mountpoint) {
  const Result<sockaddr_un> address = AddressOf(path);
  if (!address) return Fail(address.error());
  Result<OwnedFd> made = NewSocket();
  if (!made) return Fail(made.error());
  if (::connect(made->get(), reinterpret_cast<const sockaddr*>(&*address), sizeof *address) != 0) {
    return Fail(Code::kUnavailable,
                "no forebay-mount of this user serves " + mountpoint + " (" + path + ": " +
                    ErrnoText() +
                    "); upgrade as the user who mounted it, with the same FOREBAY_RUNTIME_DIR");
  }
  const OwnedFd program(::open("/proc/self/exe", O_RDONLY | O_CLOEXEC));
  if (!program) return Fail(Code::kInternal, "cannot open this program: " + ErrnoText());
  const HandoverChannel channel(std::move(*made));
  const Status sent = channel.Send(HandoverKind::kUpgrade, std::to_string(kHandoverFormat),
                                   Version(), program.get());
  if (!sent) return Fail(sent.error());
  const Result<HandoverMessage> answer = channel.Receive(true);
  if (!answer) return Fail(answer.error().Within("upgrading " + mountpoint));
  if (answer->key != "done") return Fail(Code::kDenied, answer->value);
  return answer->value;
}

}  // namespace forebay
