#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>

#include "common/base/result.h"
#include "fuse-client/supervisor/owned_fd.h"

namespace forebay {

/// What two processes must agree on, or one cannot take over from the other: the messages below,
/// the layout of the slots, the keys and values that are kept.
inline constexpr std::uint32_t kHandoverFormat = 1;

/// What a supervisor and a holder must agree on. What is held is opaque to the holder, so it may be
/// of another release.
inline constexpr std::uint32_t kHoldFormat = 1;

/// Numbers stay what they are; the first two are understood by every format.
enum class HandoverKind : std::uint32_t {
  // To the supervisor from `forebay-mount --upgrade`, and back.
  kUpgrade = 1,  ///< key: the sender's format, value: its version, descriptor: its program.
  kAnswer = 2,   ///< key: "done" or "refused", value: a sentence.
  // From the supervisor to a worker.
  kHello = 3,  ///< key: the format; descriptor: the slots.
  kKept = 4,   ///< An entry that an earlier worker kept.
  kGo = 5,     ///< Serve. value: what happened since the last worker served, or "".
  kStop = 6,   ///< As SIGTERM to a program: unmount and end.
  kLeave = 7,  ///< End, and leave the mount to a successor.
  // From a worker to the supervisor.
  kPrepared = 8,     ///< The program runs and understands the format. value: its version.
  kKeep = 9,         ///< Makes or replaces an entry.
  kDrop = 10,        ///< Removes the entries whose key begins so.
  kReady = 11,       ///< It serves. value: the ready line.
  kTerminated = 12,  ///< Somebody sent the worker SIGTERM.
  kFinished = 13,    ///< The mount has ended. value: the exit code.
  // To a holder (`forebay-mount --hold`) from a supervisor: what follows is of this mount. key: the
  // mount point, value: kHoldFormat. It is answered by kKept for each descriptor that is held, with
  // its name as the key, and kAnswer; kKeep (key: a name) by kAnswer; kDrop (the name) by nothing.
  kHold = 14,
};

struct HandoverMessage {
  HandoverKind kind{};
  std::string key;
  std::string value;
  OwnedFd fd;
};

/// One end of the line between two processes: whole messages, each with at most one descriptor.
class HandoverChannel {
 public:
  HandoverChannel() = default;
  explicit HandoverChannel(OwnedFd socket);
  static Result<std::pair<HandoverChannel, HandoverChannel>> Pair();

  int fd() const { return socket_.get(); }

  /// Thread-safe. Waits while the other side is slow, ten seconds at most. kInvalid: too long.
  /// kUnavailable: nobody is there.
  Status Send(HandoverKind kind, std::string_view key, std::string_view value, int fd = -1) const;
  /// The same, where a failure changes nothing: that the other side has gone is noticed by waiting
  /// for it.
  void Tell(HandoverKind kind, std::string_view key, std::string_view value, int fd = -1) const;
  static constexpr std::size_t kBytesMax = 96UL * 1024;

  /// kTimeout: nothing is there, unless `wait`. kUnavailable: the other side has gone. kInvalid:
  /// what came is no message.
  Result<HandoverMessage> Receive(bool wait) const;

 private:
  OwnedFd socket_;
};

/// What workers left with the supervisor for those who come after them.
struct Kept {
  std::string value;
  OwnedFd fd;
};
using KeptEntries = std::map<std::string, Kept>;

/// The entry that holds the /dev/fuse of connection `id`; its other entries have keys that begin
/// with this one.
std::string ConnectionKey(std::uint32_t id);
inline constexpr const char* kConnections = "connection/";
/// Of a key that ConnectionKey made: its id. 0: it is another one; ids begin with 1.
std::uint32_t ConnectionOfKey(std::string_view key);

}  // namespace forebay
