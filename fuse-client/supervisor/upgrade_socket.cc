#include "fuse-client/supervisor/upgrade_socket.h"

#include <fcntl.h>
#include <fmt/format.h>

#include <cerrno>
#include <cstdint>
#include <system_error>

#include "common/base/version.h"
#include "fuse-client/supervisor/private_socket.h"

namespace forebay {

namespace {

/// FNV-1a: the same for the same path in every version, since another program looks for it.
std::uint64_t HashOf(const std::string& text) {
  std::uint64_t hash = 0xcbf29ce484222325;
  for (const char c : text) {
    hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  }
  return hash;
}

}  // namespace

std::string MountSocketPath(const std::string& folder, const std::string& kind,
                            const std::string& mountpoint) {
  return fmt::format("{}/{}-{:016x}.sock", folder, kind, HashOf(mountpoint));
}

Result<std::string> AskForUpgrade(const std::string& path, const std::string& mountpoint) {
  const Result<HandoverChannel> channel = PrivateSocket::Connect(path, PrivateSocket::Of::kAnyUser);
  if (!channel && channel.error().code != Code::kUnavailable) return Fail(channel.error());
  if (!channel) {
    return Fail(Code::kUnavailable,
                "no forebay-mount of this user serves " + mountpoint + " (" +
                    channel.error().message +
                    "); upgrade as the user who mounted it, with the same FOREBAY_RUNTIME_DIR");
  }
  const OwnedFd program(::open("/proc/self/exe", O_RDONLY | O_CLOEXEC));
  if (!program) {
    return Fail(Code::kInternal,
                "cannot open this program: " + std::generic_category().message(errno));
  }
  const Status sent = channel->Send(HandoverKind::kUpgrade, std::to_string(kHandoverFormat),
                                    Version(), program.get());
  if (!sent) return Fail(sent.error());
  const Result<HandoverMessage> answer = channel->Receive(true);
  if (!answer) return Fail(answer.error().Within("upgrading " + mountpoint));
  if (answer->key != "done") return Fail(Code::kDenied, answer->value);
  return answer->value;
}

}  // namespace forebay
