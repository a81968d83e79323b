#include "fuse-client/intake.h"

#include <fcntl.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <cerrno>
#include <chrono>
#include <system_error>
#include <utility>

#include "common/base/executors.h"

namespace forebay {

namespace {

/// While as many requests are under way as there are slots: until the next look for a free one.
constexpr Duration kSlotsTakenPause = std::chrono::milliseconds(1);

}  // namespace

Intake::Intake(asio::io_context& context, Take take, std::function<void()> on_ended)
    : context_(context),
      take_(std::move(take)),
      on_ended_(std::move(on_ended)),
      descriptor_(context) {}

// The number is fd_'s to close.
Intake::~Intake() {
  if (descriptor_.is_open()) descriptor_.release();
}

Status Intake::Start(int queue) {
  fd_ = OwnedFd(::fcntl(queue, F_DUPFD_CLOEXEC, 0));
  if (!fd_) {
    return Fail(Code::kInternal,
                "cannot duplicate /dev/fuse: " + std::generic_category().message(errno));
  }
  exclusive_.emplace(fd_.get());
  Spawn(context_, Run(shared_from_this()));
  return {};
}

Task<void> Intake::Run(std::shared_ptr<Intake> self) {
  running_ = true;
  Join();
  FuseSession::Drained drained = FuseSession::Drained::kIdle;
  while (self->fd_ && drained != FuseSession::Drained::kEnded) {
    drained = take_();
    switch (drained) {
      case FuseSession::Drained::kIdle: {
        boost::system::error_code stopped;
        if (descriptor_.is_open()) {
          co_await descriptor_.async_wait(Descriptor::wait_read,
                                          asio::redirect_error(asio::use_awaitable, stopped));
        } else if (!Join()) {
          co_await SleepFor(kSlotsTakenPause);
        }
        break;
      }
      case FuseSession::Drained::kMore:
        co_await asio::post(context_, asio::use_awaitable);
        break;
      case FuseSession::Drained::kFull:
        StandBack();
        co_await SleepFor(kSlotsTakenPause);
        break;
      case FuseSession::Drained::kEnded:
        on_ended_();
        break;
    }
  }
  running_ = false;
}

/// What came before wakes nobody here any more: a look is due before the wait. False: the kernel
/// has no room for one more that waits.
bool Intake::Join() {
  boost::system::error_code refused;
  descriptor_.assign(fd_.get(), refused);
  return !refused;
}

/// Out of those that are woken. What this one was woken for may still be in the queue, with all
/// others asleep.
void Intake::StandBack() {
  if (!descriptor_.is_open()) return;
  descriptor_.release();
  if (const auto next = next_.lock()) next->LookFor(shared_from_this());
}

/// Any thread. One that stands back itself hands it on, until it comes back to `who`.
void Intake::LookFor(std::shared_ptr<const Intake> who) {
  if (who.get() == this) return;
  asio::post(context_, [self = shared_from_this(), who = std::move(who)] {
    if (self->descriptor_.is_open()) {
      self->descriptor_.cancel();
    } else if (const auto next = self->next_.lock()) {
      next->LookFor(who);
    }
  });
}

// The number is a duplicate: closing alone would leave a sleeper behind, woken in place of others.
void Intake::Stop() {
  if (descriptor_.is_open()) descriptor_.release();
  exclusive_.reset();
  fd_ = OwnedFd();
}

}  // namespace forebay
