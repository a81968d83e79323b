#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <vector>

#include "common/base/buffer.h"

namespace forebay {

/// What has come over a connection and is still to be taken. A payload of middling size is handed
/// on where it lies, without a copy; its memory comes back here when the last reader has let go of
/// it, on any thread. All methods are for one thread.
class Inbox {
 public:
  /// Half of it is many small answers, or one of the largest that are lent.
  static constexpr std::size_t kPieceBytes = std::size_t{128} * 1024;
  /// Smaller payloads are cheaper to copy than to keep a whole piece for.
  static constexpr std::size_t kLentAtLeast = std::size_t{8} * 1024;
  /// Larger ones are worth a buffer of their own, which they are received into directly.
  static constexpr std::size_t kLentAtMost = std::size_t{96} * 1024;

  Inbox();

  std::size_t size() const { return end_ - begin_; }
  const std::byte* data() const { return piece_->bytes.data() + begin_; }

  /// Where more bytes may be received: there is room for `count` from data() on, and for as much
  /// behind them as lies there. `count` is more than size().
  ByteSpan Room(std::size_t count);
  void Came(std::size_t bytes) { end_ += bytes; }
  void Take(std::size_t bytes) { begin_ += bytes; }

  static bool Lends(std::size_t payload) {
    return payload >= kLentAtLeast && payload <= kLentAtMost;
  }
  /// Takes the first bytes, which stay as they are for as long as the slice lives.
  Slice Lend(std::size_t bytes);

 private:
  struct Piece {
    explicit Piece(std::size_t size) : bytes(size) {}
    Buffer bytes;
    std::atomic<int> lent{0};  // slices that others hold
  };

  static bool IsFree(const Piece& piece) { return piece.lent.load(std::memory_order_acquire) == 0; }
  void Renew(std::size_t size);

  // [begin_, end_) of piece_ has come and was not taken.
  std::shared_ptr<Piece> piece_;
  std::size_t begin_ = 0;
  std::size_t end_ = 0;
  std::vector<std::shared_ptr<Piece>> spare_;  // of kPieceBytes each; some may be lent still
};

}  // namespace forebay
