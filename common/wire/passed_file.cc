#include "common/wire/passed_file.h"

#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>

namespace forebay {
namespace {

// A frame brings one; the kernel hands out those of one frame at a time.
constexpr std::size_t kMostFiles = 4;

template <std::size_t count>
union Control {
  cmsghdr aligned;
  std::array<char, CMSG_SPACE(count * sizeof(int))> bytes;
};

}  // namespace

PassedFile OwnFile(int descriptor) {
  return {new int(descriptor), [](const int* fd) {
            ::close(*fd);
            delete fd;
          }};
}

std::ptrdiff_t SendWithFile(int socket, std::string_view bytes, int file) {
  Control<1> control{};
  iovec part{const_cast<char*>(bytes.data()), bytes.size()};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control.bytes.data();
  message.msg_controllen = control.bytes.size();
  cmsghdr* const header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(sizeof file);
  std::memcpy(CMSG_DATA(header), &file, sizeof file);
  for (;;) {
    const ssize_t sent = ::sendmsg(socket, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent >= 0 || errno != EINTR) return sent;
  }
}

std::ptrdiff_t ReceiveWithFiles(int socket, void* to, std::size_t size,
                                std::deque<PassedFile>& files) {
  Control<kMostFiles> control{};
  iovec part{to, size};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control.bytes.data();
  message.msg_controllen = control.bytes.size();
  ssize_t received = 0;
  do {
    received = ::recvmsg(socket, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  } while (received < 0 && errno == EINTR);
  if (received < 0) return received;
  for (cmsghdr* header = CMSG_FIRSTHDR(&message); header != nullptr;
       header = CMSG_NXTHDR(&message, header)) {
    if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS) continue;
    const std::size_t count = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (std::size_t i = 0; i < count; ++i) {
      int file = -1;
      std::memcpy(&file, CMSG_DATA(header) + i * sizeof file, sizeof file);
      files.push_back(OwnFile(file));
    }
  }
  return received;
}

}  // namespace forebay
