#pragma once

#include <cstddef>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>

#include "common/wire/rpc.h"

namespace forebay {

/// The connections that each member has open at one server, by its certificate. A member has at
/// most `most`, however many programs of it there are, so that it keeps out no other. Peers without
/// a certificate are not counted here: strangers stay in HalfOpen, and whoever comes with the
/// secret of this user is this user. Thread-safe.
class MemberShare {
 public:
  explicit MemberShare(std::size_t most) : most_(most) {}

  /// One connection, given up at the end of its scope.
  class Place {
   public:
    Place(Place&&) noexcept = default;
    Place& operator=(Place&&) = delete;
    ~Place();

   private:
    friend class MemberShare;
    Place(std::shared_ptr<MemberShare> table, std::string member)
        : table_(std::move(table)), member_(std::move(member)) {}

    std::shared_ptr<MemberShare> table_;  // null: it is not counted
    std::string member_;
  };

  /// Nothing: the member has as many as it may.
  static std::optional<Place> Enter(const std::shared_ptr<MemberShare>& table,
                                    const PeerIdentity& peer);

 private:
  void Leave(const std::string& member);

  const std::size_t most_;
  std::mutex mutex_;
  std::unordered_map<std::string, std::size_t> open_;  // guarded by mutex_
};

}  // namespace forebay
