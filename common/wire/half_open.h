#pragma once

#include <cstddef>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>

#include "common/wire/connection.h"

namespace forebay {

/// The accepted sockets of one server whose handshake is under way, and those of strangers, who
/// have no certificate, by the address they come from. One address has at most
/// kMaxHalfOpenPerAddress; one more closes its oldest, so that a crowd that says nothing can keep
/// out neither other addresses nor an honest program of its own. Thread-safe.
class HalfOpen {
 public:
  /// A socket's place in the table, given up at the end of its scope.
  class Place {
   public:
    Place(Place&&) noexcept = default;
    Place& operator=(Place&&) = delete;
    ~Place();

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
  using Sockets = std::list<std::shared_ptr<StreamSocket>>;  // oldest first

  void Leave(const std::string& address, const std::shared_ptr<StreamSocket>& socket);

  mutable std::mutex mutex_;
  std::unordered_map<std::string, Sockets> sockets_;  // guarded by mutex_
  std::size_t places_ = 0;                            // guarded by mutex_
  bool closed_ = false;                               // guarded by mutex_
};

}  // namespace forebay
