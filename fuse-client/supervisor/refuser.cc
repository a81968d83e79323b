#include "fuse-client/supervisor/refuser.h"

#include <linux/fuse.h>
#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace forebay {

namespace {

/// The kernel refuses a smaller buffer than its largest write (1 MiB) and two headers.
constexpr std::size_t kBufferBytes = (1UL << 20) + 4096;

/// Of one connection at a time, so that the others have their turn.
constexpr int kBatch = 256;

/// True when it was a request that wants an answer. The answer to the first message of a connection
/// is a worker's to give: an error would end the mount.
bool Refuse(int connection, const fuse_in_header& request) {
  switch (request.opcode) {
    case FUSE_FORGET:
    case FUSE_BATCH_FORGET:
    case FUSE_INTERRUPT:
    case FUSE_INIT:
      return false;
    default:
      break;
  }
  const fuse_out_header answer{
      .len = sizeof(fuse_out_header), .error = -EIO, .unique = request.unique};
  // ENOENT: it was answered before.
  return ::write(connection, &answer, sizeof answer) == sizeof answer;
}

fuse_in_header HeaderIn(const std::byte* bytes) {
  fuse_in_header header{};
  std::memcpy(&header, bytes, sizeof header);
  return header;
}

}  // namespace

std::map<std::uint32_t, int> Refuser::Connections() const {
  std::map<std::uint32_t, int> open;
  for (const auto& [key, kept] : kept_) {
    const std::uint32_t id = ConnectionOfKey(key);
    // Without the first message a worker has to answer that one.
    if (id != 0 && kept_.contains(key + "init")) open[id] = kept.fd.get();
  }
  return open;
}

std::size_t Refuser::RefuseTaken() {
  std::size_t refused = 0;
  const std::map<std::uint32_t, int> open = Connections();
  for (RequestSlot* slot : slots_.InUse()) {
    const auto connection = open.find(slot->connection);
    if (connection == open.end()) continue;
    if (Refuse(connection->second, HeaderIn(slot->request.data()))) ++refused;
    slot->Clear();
  }
  return refused;
}

std::size_t Refuser::RefuseWaiting() {
  buffer_.resize(kBufferBytes);
  std::size_t refused = 0;
  for (const auto& [id, fd] : Connections()) {
    for (int i = 0; i < kBatch; ++i) {
      const ssize_t n = ::read(fd, buffer_.data(), buffer_.size());
      if (n < static_cast<ssize_t>(sizeof(fuse_in_header))) break;
      if (Refuse(fd, HeaderIn(buffer_.data()))) ++refused;
    }
  }
  return refused;
}

void Refuser::AddTo(std::vector<pollfd>& waiting) const {
  for (const auto& [id, fd] : Connections()) waiting.push_back(pollfd{fd, POLLIN, 0});
}

}  // namespace forebay
