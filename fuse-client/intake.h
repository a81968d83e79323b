#pragma once

#include <boost/asio/posix/stream_descriptor.hpp>
#include <functional>
#include <memory>
#include <optional>

#include "common/base/asio.h"
#include "common/base/exclusive_wait.h"
#include "common/base/result.h"
#include "fuse-client/fuse_session.h"
#include "fuse-client/supervisor/owned_fd.h"

namespace forebay {

/// One thread's part in taking the requests of a mount, which wait in one queue for all its
/// threads. Of those that wait the kernel wakes one (docs/adr/0049). So a thread that can take
/// nothing, because its slots are in use, must not be among them: it stands back, and has another
/// one look at what it was woken for.
class Intake : public std::enable_shared_from_this<Intake> {
 public:
  using Take = std::function<FuseSession::Drained()>;

  /// `take` takes what waits, some of it at a time; it is called on the context's thread, until the
  /// intake is no longer running(). `on_ended` is called there when the mount has gone.
  Intake(asio::io_context& context, Take take, std::function<void()> on_ended);
  ~Intake();
  Intake(const Intake&) = delete;
  Intake& operator=(const Intake&) = delete;

  /// Who looks in place of this one; all of a mount are a ring. Before any of them starts.
  void SetNext(const std::shared_ptr<Intake>& next) { next_ = next; }

  /// Any thread, before or after the context runs; once. `queue` is the mount's descriptor, of
  /// which it takes a duplicate. kInternal: none is left.
  Status Start(int queue);

  /// On the context's thread: takes nothing more.
  void Stop();
  bool running() const { return running_; }

 private:
  using Descriptor = asio::posix::stream_descriptor;

  Task<void> Run(std::shared_ptr<Intake> self);
  bool Join();
  void StandBack();
  void LookFor(std::shared_ptr<const Intake> who);

  asio::io_context& context_;
  const Take take_;
  const std::function<void()> on_ended_;
  std::weak_ptr<Intake> next_;
  OwnedFd fd_;
  std::optional<ExclusiveWait> exclusive_;
  Descriptor descriptor_;  // of fd_; not open: it stands back
  bool running_ = false;
};

}  // namespace forebay
