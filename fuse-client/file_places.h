#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/base/asio.h"
#include "common/base/deadline.h"
#include "common/base/result.h"
#include "common/model/block_id.h"
#include "fuse-client/filesystem.h"
#include "fuse-client/ring_view.h"

namespace forebay {

class ClientPool;

/// Where a file's blocks are: the attributes `user.forebay.owner` and `user.forebay.cached`. One
/// per worker, on the context of `pool`.
class FilePlaces {
 public:
  struct Parts {
    ClientPool& pool;
    const RingView& ring;
  };
  FilePlaces(Parts parts, Uuid link, std::uint64_t block_bytes)
      : parts_(parts), link_(link), block_bytes_(block_bytes) {}

  /// The owners of the file's first block, first owner first: "n1,n3,n2". "" for an empty file, and
  /// where the ring has no owners. Local.
  std::string Owners(const FileSystem::Content& file) const;

  /// "<bytes cached>/<size>", as the owners of its blocks say; "unknown" when one that may hold
  /// what no other does gives no answer within `deadline`. The owners are asked for kBlocksAtOnce
  /// blocks at a time: whatever the file's size, this takes a few MiB, and readers have their
  /// turns.
  Task<std::string> Cached(FileSystem::Content file, Deadline deadline);
  static constexpr std::uint64_t kBlocksAtOnce = 65536;

 private:
  struct Census;

  /// Of the blocks of the census's file in [begin, end), bytes; nothing: unknown.
  Task<std::optional<std::uint64_t>> CachedIn(std::shared_ptr<Census> census, std::uint64_t begin,
                                              std::uint64_t end);
  Task<void> AskNode(std::shared_ptr<Census> census, std::size_t node);

  const Parts parts_;
  const Uuid link_;
  const std::uint64_t block_bytes_;
};

}  // namespace forebay
