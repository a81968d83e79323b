#include "common/wire/reply_room.h"

#include <functional>
#include <memory>
#include <string>

namespace forebay {

ReplyRoom::Place& ReplyRoom::Place::operator=(Place&& other) noexcept {
  if (this != &other) {
    Leave();
    room_ = std::exchange(other.room_, nullptr);
    payer_ = other.payer_;
    bytes_ = other.bytes_;
  }
  return *this;
}

void ReplyRoom::Place::Leave() {
  ReplyRoom* const room = std::exchange(room_, nullptr);
  if (room == nullptr) return;
  room->taken_by_[payer_].fetch_sub(bytes_, std::memory_order_relaxed);
  room->taken_.fetch_sub(bytes_, std::memory_order_relaxed);
}

ReplyRoom::Payer ReplyRoom::PayerOf(const PeerIdentity& peer) {
  return (std::hash<std::string>()(peer.id) + static_cast<std::size_t>(peer.role)) % kPayers;
}

bool ReplyRoom::Add(std::atomic<std::uint64_t>& to, std::uint64_t bytes, std::uint64_t most) {
  std::uint64_t taken = to.load(std::memory_order_relaxed);
  do {
    if (bytes > most || taken > most - bytes) return false;
  } while (!to.compare_exchange_weak(taken, taken + bytes, std::memory_order_relaxed));
  return true;
}

ReplyRoom::Place ReplyRoom::Take(Payer payer, std::uint64_t bytes) {
  const bool in_share = Add(taken_by_[payer], bytes, most_ / 2);
  if (in_share && Add(taken_, bytes, most_)) return {this, payer, bytes};
  if (in_share) taken_by_[payer].fetch_sub(bytes, std::memory_order_relaxed);
  refused_.fetch_add(1, std::memory_order_relaxed);
  return {};
}

Slice ReplyRoom::Keep(Slice bytes, Place place) {
  struct Kept {
    Slice bytes;
    Place place;
  };
  const ByteView view = bytes.bytes;
  return Slice{std::make_shared<const Kept>(std::move(bytes), std::move(place)), view};
}

}  // namespace forebay
