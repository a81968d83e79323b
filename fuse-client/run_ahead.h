#pragma once

#include <chrono>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "common/base/asio.h"
#include "common/base/buffer.h"
#include "common/base/notifier.h"
#include "common/model/block_source.h"
#include "fuse-client/block_spans.h"
#include "fuse-client/stream_table.h"

namespace forebay {

/// What sequential readers past the page cache will ask for next, on its way to the mount or there.
/// The kernel reads ahead for its page cache alone, and hands out one such READ of a reader at a
/// time: without this, reader, network and node would wait for each other at every one. One for
/// each link's mount, as a reader's READs come to all workers. Thread-safe.
class HeldPieces {
 public:
  /// The most that one READ asks for. Pieces lie at multiples of it.
  static constexpr std::uint64_t kPieceBytes = 1 << 20;
  /// Of all files; each counts in the mount's memory limit besides, of which they take half at
  /// most.
  static constexpr std::size_t kPiecesMax = 64;
  /// A file is read from front to back when so much of it was: more than a record of a shard has.
  static constexpr std::uint64_t kStartBytes = 4 << 20;
  /// Nobody came for it: it makes room.
  static constexpr Duration kHeldFor = std::chrono::seconds(5);

  struct Key {
    ObjectVersion version;
    std::uint64_t offset = 0;  ///< In the object.
    auto operator<=>(const Key&) const = default;
  };
  static Key KeyOf(const BlockId& block, std::uint32_t begin) {
    return {block.version, (block.offset + begin) / kPieceBytes * kPieceBytes};
  }

  struct Piece {
    Notifier landed;
    std::optional<Result<Cells>> cells;  // guarded by mutex_; empty: on its way
    MemoryBudget::Reservation memory;
    TimePoint since;  // guarded by mutex_: when it landed
  };

  struct Counts {
    std::uint64_t begun = 0;   ///< Pieces that were asked for ahead.
    std::uint64_t unused = 0;  ///< Of those, the ones that nobody came for, and that failed.
  };

  /// The piece that holds all of `range`, or null.
  std::shared_ptr<Piece> Find(const BlockId& block, BlockRange range) const;
  /// A piece to be fetched by the caller, who must Land it; null: it is held, or there is no room.
  std::shared_ptr<Piece> Begin(const Key& key, MemoryBudget& memory, std::size_t bytes,
                               TimePoint now);
  /// Wakes who waits for it. What failed is held no longer.
  void Land(const Key& key, const std::shared_ptr<Piece>& piece, Result<Cells> cells,
            TimePoint now);
  /// What has landed, for a reader; nothing: it has not, or in vain. The first one is told what
  /// the node's answer took.
  std::optional<Cells> Take(Piece& piece) const;
  /// A reader has had the piece's last byte: it is held no longer.
  void Done(const Key& key, const std::shared_ptr<Piece>& piece);
  /// Gives up what landed before `then`.
  void DropOlder(TimePoint then);

  bool empty() const;
  /// True: the caller drops from now on what is too old, until EndSweep.
  bool BeginSweep();
  /// False: something is held; go on.
  bool EndSweep();
  Counts counts() const;
  StreamTable& streams() { return streams_; }

 private:
  void DropOlderLocked(TimePoint then);

  StreamTable streams_{kStartBytes};
  mutable std::mutex mutex_;
  std::map<Key, std::shared_ptr<Piece>> pieces_;
  Counts counts_;
  bool swept_ = false;
};

/// A worker's reads of files that are opened for direct reads: out of the pieces that are held, or
/// from `source`. On the worker's io_context only.
class RunAhead final : public BlockSource {
 public:
  struct Parts {
    asio::io_context& context;
    BlockSource& source;
    std::shared_ptr<HeldPieces> pieces;
    MemoryBudget& memory;
  };
  explicit RunAhead(Parts parts) : parts_(std::move(parts)) {}

  /// As of `source`; what was held is whole cells, too, and more of them.
  Task<Result<Cells>> Read(BlockRequest request, Deadline deadline) override;

  /// Cuts each span where a piece that is held begins or ends, so that each part has one answer.
  std::vector<BlockSpan> Cut(std::vector<BlockSpan> spans) const;

  /// A READ of [offset, end) of the file `nodeid` has come: what its reader will ask for next is
  /// fetched until `deadline`, while there is room. `like` says of which object and for whom.
  void Follow(std::uint64_t nodeid, std::uint64_t offset, std::uint64_t end,
              std::uint64_t block_bytes, const BlockRequest& like, Deadline deadline);

  /// Lets go of all that has landed: a READ finds no memory.
  void GiveUp() { parts_.pieces->DropOlder(TimePoint::max()); }

  /// Fetches under way.
  std::size_t fetching() const { return fetching_; }

 private:
  Task<void> Fetch(HeldPieces::Key key, std::shared_ptr<HeldPieces::Piece> piece,
                   BlockRequest request, Deadline deadline);

  Parts parts_;
  std::size_t fetching_ = 0;
};

}  // namespace forebay
