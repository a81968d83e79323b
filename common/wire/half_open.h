#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>

#include "common/wire/address.h"
#include "common/wire/connection.h"

namespace forebay {

/// The places that one server has for connections. Those whose handshake is under way, and those of
/// strangers, who have no certificate, are here by the address they come from. One address has at
/// most kMaxHalfOpenPerAddress, an IPv6 network of 64 bits, which is what one machine may have to
/// itself, a quarter of `most`, and all of them `most`; one more closes the oldest, so that a crowd
/// that says nothing can keep out neither other addresses nor an honest program of its own, nor
/// take the room of those that have proved who they are, which make way for nobody. Thread-safe.
class HalfOpen {
 public:
  /// `room` for all of them, those that have proved who they are included.
  HalfOpen(std::size_t most, std::size_t room);

  /// A socket's place in the table, given up at the end of its scope: that of its connection.
  class Place {
   public:
    Place(Place&&) noexcept = default;
    Place& operator=(Place&&) = delete;
    ~Place();

    /// Whoever is at the other end has proved who it is: its socket makes way for nobody any more.
    /// It still counts, and CloseAll() no longer closes it.
    void Prove();

   private:
    friend class HalfOpen;
    Place(std::shared_ptr<HalfOpen> table, std::string network,
          std::shared_ptr<StreamSocket> socket)
        : table_(std::move(table)), network_(std::move(network)), socket_(std::move(socket)) {}

    std::shared_ptr<HalfOpen> table_;
    std::string network_;
    std::shared_ptr<StreamSocket> socket_;
    bool proved_ = false;
  };

  /// Enters a socket that was just accepted from `peer`; nothing runs on it yet. Nothing: there is
  /// no room, and nobody who makes way.
  static std::optional<Place> Enter(const std::shared_ptr<HalfOpen>& table,
                                    std::shared_ptr<StreamSocket> socket,
                                    const StreamEndpoint& peer);

  /// Closes all of them, and those that enter later at once.
  void CloseAll();

  /// Places held, those of sockets that were closed included.
  std::size_t size() const;

 private:
  struct Waiting {
    std::shared_ptr<StreamSocket> socket;
    std::string address;
    std::uint64_t number = 0;  // of those that entered
  };
  using Sockets = std::list<Waiting>;  // oldest first
  using Networks = std::unordered_map<std::string, Sockets>;

  bool MakeWay(const std::string& network, const std::string& address,
               std::shared_ptr<StreamSocket>& to_close);
  std::shared_ptr<StreamSocket> TakeOut(Networks::iterator from, Sockets::iterator which);
  std::shared_ptr<StreamSocket> TakeOldest();
  void Leave(const Place& place);
  bool StopWaiting(const Place& place);

  const std::size_t most_;
  const std::size_t most_of_network_;
  const std::size_t room_;
  mutable std::mutex mutex_;
  // Below: guarded by mutex_.
  Networks sockets_;         // none is empty
  std::size_t waiting_ = 0;  // in sockets_
  std::size_t proved_ = 0;   // places of those that do not wait any more
  std::uint64_t entered_ = 0;
  std::size_t places_ = 0;  // those that wait, those that proved, those that were closed
  bool closed_ = false;
};

}  // namespace forebay
