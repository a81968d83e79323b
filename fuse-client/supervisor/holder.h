#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <list>
#include <map>
#include <string>
#include <utility>

#include "common/base/deadline.h"
#include "common/base/result.h"
#include "fuse-client/supervisor/handover.h"
#include "fuse-client/supervisor/owned_fd.h"
#include "fuse-client/supervisor/private_socket.h"

struct pollfd;

namespace forebay {

struct HolderOptions {
  /// Of its socket, absolute. Only its user may write to the folder, which is made if need be.
  std::string path = {};
  /// Of all mounts together.
  std::size_t descriptors_max = 1UL << 16;
  /// When it is told to end: for supervisors to leave, who are told at the same moment where all of
  /// it ends.
  Duration grace = std::chrono::seconds(5);
  /// Takes a mount out of the tree that nobody serves and nobody will. kNotFound: this process sees
  /// none there.
  std::function<Status(const std::string& mountpoint)> detach = {};
};

/// Keeps the descriptors of mounts while nobody serves them, so that they outlive every process of
/// forebay-mount: one that is started again, in another container even, takes back what the last
/// one had (HolderStore). It reads nothing that it holds; of a mount it knows whether it is served
/// (the line to its supervisor is open), and whether it has been unmounted (the kernel says so of
/// its connections). One thread.
///
/// A mount goes on while there is a supervisor, which serves it, or a holder, which keeps it for
/// the next one. Whoever is the last of the two takes it out of the tree.
class Holder {
 public:
  static constexpr std::size_t kMountsMax = 64;

  /// kInvalid: somebody else may write to the folder, or another holder listens. kInternal: the
  /// system refuses.
  static Result<Holder> Listen(HolderOptions options);

  /// Until the descriptor `stop` is readable, and then for at most the grace.
  void Serve(int stop);

 private:
  /// A process that is connected.
  struct Peer {
    HandoverChannel channel;
    TimePoint came;
    std::string mount = {};  ///< That it serves; "" = it has not said.
  };
  struct Held {
    OwnedFd fd;
    bool connects = false;  ///< To the kernel, or to somebody; all else are files.
  };
  using Descriptors = std::map<std::string, Held>;

  Holder(HolderOptions options, OwnedFd lock, PrivateSocket socket)
      : options_(std::move(options)), lock_(std::move(lock)), socket_(std::move(socket)) {}

  void Wait(int stop, Duration patience);
  void Accept();
  bool Hear(Peer& peer);
  bool Take(Peer& peer, HandoverMessage message);
  bool Begin(Peer& peer, const HandoverMessage& message);
  bool Keep(Peer& peer, HandoverMessage message);
  std::string WhyNot(const HandoverMessage& asked) const;
  std::string Full() const;
  void Part(const Peer& peer);
  void DropEnded();
  void End(const std::string& mount) const;
  bool IsServed(const std::string& mount) const;
  std::size_t Count() const;

  HolderOptions options_;
  OwnedFd lock_;  // of the socket's place; before it, and let go after it
  PrivateSocket socket_;
  std::list<Peer> peers_;
  std::map<std::string, Descriptors> mounts_;
  TimePoint next_look_;
};

}  // namespace forebay
