#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "common/base/result.h"
#include "fuse-client/supervisor/handover.h"
#include "fuse-client/supervisor/request_slots.h"

namespace forebay {

/// A worker's end of the line to its supervisor: what earlier workers left, what this one leaves,
/// and the slots of its requests. Without a supervisor (a mount inside another program) it keeps
/// nothing and has slots of its own. Thread-safe, but for the arenas, each of which is for one
/// thread.
class Keeper {
 public:
  /// The descriptors that a worker is started with.
  static constexpr int kChannelFd = 3;
  static constexpr int kConfigFd = 4;

  /// Without a supervisor.
  static Result<std::unique_ptr<Keeper>> Alone(std::size_t arenas);
  /// Waits until the supervisor lets this process serve. kInvalid: its format is another one.
  /// kUnavailable: it has gone, or wants no worker any more.
  static Result<std::unique_ptr<Keeper>> Connect(OwnedFd channel);
  ~Keeper();
  Keeper(const Keeper&) = delete;
  Keeper& operator=(const Keeper&) = delete;

  bool supervised() const { return channel_.has_value(); }
  /// An earlier worker served this mount.
  bool successor() const { return successor_; }
  /// What earlier workers left under keys that begin so; the caller's from now on. Main thread.
  KeptEntries TakeInherited(std::string_view prefix);
  /// What happened since the last worker served, a sentence, or "".
  const std::string& news() const { return news_; }
  /// Connections that are no more have nothing left here.
  SlotArena& Arena(std::size_t i) { return arenas_.at(i); }

  /// A number for a new connection, unlike that of any other.
  std::uint32_t NewConnection();
  /// A successor finds it; replaces an entry of this key. What is too long is not kept, and said.
  void Keep(std::string_view key, std::string_view value, int fd = -1) const;
  void Drop(std::string_view prefix) const;

  void Ready(std::string_view line) const;
  void Terminated() const;
  void Finished(int exit_code) const;

  struct Orders {
    std::function<void()> stop;   ///< As SIGTERM to a program.
    std::function<void()> leave;  ///< End; a successor takes over.
  };
  /// From now on, called on a thread of the keeper's own. This process ends at once when the
  /// supervisor does. The orders are valid until this object ends.
  void Obey(Orders orders);

 private:
  Keeper(std::optional<HandoverChannel> channel, RequestSlots slots, KeptEntries inherited,
         std::string news);
  void Listen(const Orders& orders, const std::stop_token& stop) const;

  std::optional<HandoverChannel> channel_;
  RequestSlots slots_;
  std::vector<SlotArena> arenas_;
  KeptEntries inherited_;
  const bool successor_;
  std::string news_;
  std::atomic<std::uint32_t> last_connection_{0};
  std::jthread listener_;
};

}  // namespace forebay
