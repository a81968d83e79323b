#pragma once

struct epoll_event;

namespace forebay {

/// Of the threads that wait for a descriptor, each by an io_context and a number of its own, the
/// kernel wakes one that has nothing else to do (epoll's EPOLLEXCLUSIVE) in place of all of them
/// (docs/adr/0049). Such a descriptor is waited for to become readable, and for nothing else, and
/// by a loop that reads until nothing is left before it waits: what came in between wakes nobody.
///
/// For as long as this lives the descriptor is marked. It begins before Asio has the descriptor,
/// and ends after Asio has given it back (release(), not close(): a number that was duplicated
/// stays in an epoll until it is taken out, and would be woken in place of those that live).
/// Thread-safe.
class ExclusiveWait {
 public:
  explicit ExclusiveWait(int descriptor);
  ~ExclusiveWait();
  ExclusiveWait(const ExclusiveWait&) = delete;
  ExclusiveWait& operator=(const ExclusiveWait&) = delete;

 private:
  const int descriptor_;
};

/// epoll_ctl(2), as Asio is to call it.
int ControlEpoll(int epoll, int operation, int descriptor, epoll_event* event);

}  // namespace forebay
