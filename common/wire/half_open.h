#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>

#include "common/wire/connection.h"

namespace forebay {

/// The accepted sockets of one server whose handshake is under way, and those of strangers, who
/// have no certificate, by the address they come from. One address has at most
/// kMaxHalfOpenPerAddress, and all of them `most`; one more closes the oldest, so that a crowd that
/// says nothing can keep out neither other addresses nor an honest program of its own, nor take the
/// room of those that have proved who they are, which make way for nobody. Thread-safe.
class HalfOpen {
 public:
  explicit HalfOpen(std::size_t most) : most_(most) {}

  /// A socket's place in the table, given up at the end of its scope.
  class Place {
   public:
    Place(Place&&) noexcept = default;
    Place& operator=(Place&&) = delete;
    ~Place();

    /// Whoever is at the other end has proved who it is: its socket makes way for nobody any more.
    /// It still counts, and CloseAll() no longer closes it: all that is left of its handshake is
    /// one short message.
    void Prove();

   private:
    friend class HalfOpen;
    Place(std::shared_ptr<HalfOpen> table, std::string address,
          std::shared_ptr<StreamSocket> socket)
        : table_(std::move(table)), address_(std::move(address)), socket_(std::move(socket)) {}

    std::shared_ptr<HalfOpen> table_;
    std::string address_;
    std::shared_ptr<StreamSocket> socket_;
  };

  /// Enters a socket that was just accepted; nothing runs on it yet.
  static Place Enter(const std::shared_ptr<HalfOpen>& table, std::shared_ptr<StreamSocket> socket);

  /// Closes all of them, and those that enter later at once.
  void CloseAll();

  /// Places held, those of sockets that were closed included.
  std::size_t size() const;

 private:
  struct Waiting {
    std::shared_ptr<StreamSocket> socket;
    std::uint64_t number = 0;  // of those that entered
  };
  using Sockets = std::list<Waiting>;  // oldest first

  std::shared_ptr<StreamSocket> TakeOldest(const std::string& address);
  void Leave(const std::string& address, const std::shared_ptr<StreamSocket>& socket);
  void StopWaiting(const std::string& address, const std::shared_ptr<StreamSocket>& socket);

  const std::size_t most_;
  mutable std::mutex mutex_;
  // Below: guarded by mutex_.
  std::unordered_map<std::string, Sockets> sockets_;  // none is empty
  std::size_t waiting_ = 0;                           // in sockets_
  std::uint64_t entered_ = 0;
  std::size_t places_ = 0;
  bool closed_ = false;
};

}  // namespace forebay
