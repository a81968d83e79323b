#include "common/base/exclusive_wait.h"

#include <sys/epoll.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace forebay {
namespace {

// A bit for each number that a descriptor may have: fs.nr_open's default. Beyond them all threads
// are woken.
constexpr std::size_t kMarked = std::size_t{1} << 20;
constexpr std::size_t kBits = 64;
std::array<std::atomic<std::uint64_t>, kMarked / kBits> marks;

bool CanBeMarked(int descriptor) {
  return descriptor >= 0 && static_cast<std::size_t>(descriptor) < kMarked;
}

std::atomic<std::uint64_t>& WordOf(int descriptor) {
  return marks[static_cast<std::size_t>(descriptor) / kBits];
}

std::uint64_t BitOf(int descriptor) {
  return std::uint64_t{1} << (static_cast<std::size_t>(descriptor) % kBits);
}

bool IsMarked(int descriptor) {
  return CanBeMarked(descriptor) &&
         (WordOf(descriptor).load(std::memory_order_acquire) & BitOf(descriptor)) != 0;
}

}  // namespace

ExclusiveWait::ExclusiveWait(int descriptor) : descriptor_(descriptor) {
  if (CanBeMarked(descriptor_)) WordOf(descriptor_).fetch_or(BitOf(descriptor_));
}

ExclusiveWait::~ExclusiveWait() {
  if (CanBeMarked(descriptor_)) WordOf(descriptor_).fetch_and(~BitOf(descriptor_));
}

int ControlEpoll(int epoll, int operation, int descriptor, epoll_event* event) {
  if (operation == EPOLL_CTL_DEL || !IsMarked(descriptor))
    return epoll_ctl(epoll, operation, descriptor, event);
  // Asio looks once more at each wait whether there is something; whoever marked it has looked.
  // epoll_ctl(2): what is exclusive cannot be modified.
  if (operation == EPOLL_CTL_MOD) return 0;
  epoll_event exclusive = *event;
  exclusive.events = EPOLLIN | EPOLLERR | EPOLLHUP | EPOLLET | EPOLLEXCLUSIVE;
  return epoll_ctl(epoll, operation, descriptor, &exclusive);
}

}  // namespace forebay
