#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "common/base/buffer.h"
#include "common/wire/rpc.h"

namespace forebay {

/// How many bytes one program keeps for replies that are being made or wait for their peer, over
/// all connections. A place is taken before the bytes are in memory and goes with them until the
/// last one has left, so that no number of requests makes a program hold more. One peer, with all
/// its connections, has half of it at most: whoever takes none of its answers keeps out no other.
/// Who finds no room asks again later. Thread-safe; takes no lock. Outlives its places. At teardown
/// taken() is zero.
class ReplyRoom {
 public:
  /// Who the bytes of a reply are counted for.
  using Payer = std::size_t;

  explicit ReplyRoom(std::uint64_t most_bytes) : most_(most_bytes) {}
  ReplyRoom(const ReplyRoom&) = delete;
  ReplyRoom& operator=(const ReplyRoom&) = delete;

  /// Gives the bytes back when it ends. Empty after a move.
  class Place {
   public:
    Place() = default;
    Place(Place&& other) noexcept
        : room_(std::exchange(other.room_, nullptr)), payer_(other.payer_), bytes_(other.bytes_) {}
    Place& operator=(Place&& other) noexcept;
    ~Place() { Leave(); }
    void Leave();
    bool taken() const { return room_ != nullptr; }

   private:
    friend class ReplyRoom;
    Place(ReplyRoom* room, Payer payer, std::uint64_t bytes)
        : room_(room), payer_(payer), bytes_(bytes) {}
    ReplyRoom* room_ = nullptr;
    Payer payer_ = 0;
    std::uint64_t bytes_ = 0;
  };

  /// One of kPayers; peers share one when there are very many of them.
  static Payer PayerOf(const PeerIdentity& peer);

  /// An empty place, and counted as refused: there is no room.
  Place Take(Payer payer, std::uint64_t bytes);

  /// The same bytes, which keep `place` for as long as somebody holds them.
  static Slice Keep(Slice bytes, Place place);

  std::uint64_t taken() const { return taken_.load(std::memory_order_relaxed); }
  /// Since the start.
  std::uint64_t refused() const { return refused_.load(std::memory_order_relaxed); }

 private:
  // Many more than machines: good peers seldom share with a bad one.
  static constexpr std::size_t kPayers = 4096;

  static bool Add(std::atomic<std::uint64_t>& to, std::uint64_t bytes, std::uint64_t most);

  const std::uint64_t most_;
  std::atomic<std::uint64_t> taken_{0};
  std::atomic<std::uint64_t> refused_{0};
  std::array<std::atomic<std::uint64_t>, kPayers> taken_by_{};
};

}  // namespace forebay
