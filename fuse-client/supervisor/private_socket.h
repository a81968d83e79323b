#pragma once

#include <cstdint>
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
  /// Whose socket it may be that is connected to.
  enum class Of : std::uint8_t {
    kThisUser,  ///< This user's or root's: who listens gets what is nobody else's.
    kAnyUser,   ///< For root anybody's, whose program he asks for something.
  };

  PrivateSocket() = default;
  /// In place of what is there: whoever calls knows that nobody else listens. kInvalid: the path is
  /// too long. kInternal: the system refuses.
  static Result<PrivateSocket> Listen(const std::string& path);
  /// The other end. A wait lasts as long as `patience` says (for an answer Receive says kTimeout
  /// then), without one for ever. kUnavailable: nobody listens there. kTimeout: so many wait to be
  /// heard that there is no room for another one. kDenied: another user listens.
  static Result<HandoverChannel> Connect(const std::string& path, Of whose,
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

/// How long a Send or a Receive waits from now on.
void SetPatience(const HandoverChannel& channel, Duration patience);

}  // namespace forebay
