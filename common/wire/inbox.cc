#include "common/wire/inbox.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace forebay {
namespace {

// Pieces that wait for their readers, beside the one in use: what a program answers in one turn of
// its event loop while more comes in. More are made when needed, and not kept.
constexpr std::size_t kSpares = 2;

}  // namespace

Inbox::Inbox() : piece_(std::make_shared<Piece>(kPieceBytes)) {}

ByteSpan Inbox::Room(std::size_t count) {
  const bool free = IsFree(*piece_);
  const std::size_t size_of_piece = piece_->bytes.size();
  if (size() == 0 && free) begin_ = end_ = 0;
  // A long message must not cost its megabyte for as long as the connection lives; and what is left
  // of a piece that is lent should take more than crumbs.
  const bool leave =
      size() == 0 && (size_of_piece > kPieceBytes || size_of_piece - begin_ < kPieceBytes / 2);
  const bool fits = begin_ + count <= size_of_piece;
  if (leave || (!fits && (!free || count > size_of_piece))) {
    Renew(std::max(count, kPieceBytes));
  } else if (!fits) {
    std::memmove(piece_->bytes.data(), data(), size());
    end_ = size();
    begin_ = 0;
  }
  return piece_->bytes.span().subspan(end_);
}

/// Goes on in another piece, to which what has come is moved.
void Inbox::Renew(std::size_t size) {
  std::shared_ptr<Piece> next;
  const auto free = std::ranges::find_if(spare_, [](const auto& piece) { return IsFree(*piece); });
  if (size == kPieceBytes && free != spare_.end()) {
    next = std::move(*free);
    spare_.erase(free);
  } else {
    next = std::make_shared<Piece>(size);
  }
  std::memcpy(next->bytes.data(), data(), this->size());
  end_ = this->size();
  begin_ = 0;
  std::swap(piece_, next);
  if (next->bytes.size() == kPieceBytes && spare_.size() < kSpares)
    spare_.push_back(std::move(next));
}

Slice Inbox::Lend(std::size_t bytes) {
  piece_->lent.fetch_add(1, std::memory_order_relaxed);
  const ByteView view(data(), bytes);
  Take(bytes);
  // A count of its own for each slice: the last one's end is what the next Room looks for.
  return Slice{std::shared_ptr<const void>(view.data(),
                                           [piece = piece_](const void*) {
                                             piece->lent.fetch_sub(1, std::memory_order_release);
                                           }),
               view};
}

}  // namespace forebay
