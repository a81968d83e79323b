#pragma once

#include <optional>
#include <string>

#include "common/base/deadline.h"
#include "common/base/result.h"
#include "fuse-client/supervisor/handover.h"
#include "fuse-client/supervisor/owned_fd.h"

namespace forebay {

/// A socket at a path while its process lives, for processes of one user (and root's).
class PrivateSocket {
 public:
  PrivateSocket() = default;
  /// In place of what is there: whoever calls knows that nobody else listens. kInvalid: the path is
  /// too long. kInternal: the system refuses.
  static Result<PrivateSocket> Listen(const std::string& path);
  /// The other end. A wait for an answer lasts as long as `patience` says (Receive answers kTimeout
  /// then), without one for ever. kUnavailable: nobody listens there. kDenied: another user does.
  static Result<HandoverChannel> Connect(const std::string& path,
                                         std::optional<Duration> patience = {});
  PrivateSocket(PrivateSocket&& other) noexcept;
  PrivateSocket& operator=(PrivateSocket&& other) noexcept;
  ~PrivateSocket();  ///< Removes it.

  int fd() const { return socket_.get(); }  ///< -1 = none.
  /// Nothing when nobody waits, or it is another user.
  std::optional<HandoverChannel> Accept() const;

 private:
  OwnedFd socket_;
  std::string path_;
};

}  // namespace forebay
