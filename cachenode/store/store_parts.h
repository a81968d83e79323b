#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "cachenode/store/block_index.h"
#include "cachenode/store/block_store.h"
#include "cachenode/store/cache_directory.h"
#include "cachenode/store/crash_book.h"
#include "cachenode/store/link_table.h"
#include "cachenode/store/read_history.h"
#include "cachenode/store/segment_file.h"
#include "common/base/notifier.h"

namespace forebay {

/// What the disks of a store share.
struct StoreParts {
  StoreParts(const BlockStoreOptions& options, std::size_t open_files)
      : segment_bytes(options.segment_bytes),
        hour(options.hour),
        now(options.now),
        on_loss(options.on_loss),
        on_room(options.on_room),
        files(open_files),
        links(options.now) {}

  const std::uint64_t segment_bytes;
  const std::function<Hour()> hour;
  const std::function<TimePoint()> now;
  const std::function<void(const BlockId&, BlockLoss)> on_loss;
  const std::function<void()> on_room;
  BlockStore::Counters counters;
  BlockIndex index{&counters.lock_waits};
  ReadHistory history;
  SegmentFiles files;
  LinkTable links;
  CrashBook crashes;
  Notifier freed;  ///< Told when space that waited for a reader has been freed.
  std::atomic<std::uint64_t> room_version{0};  ///< BlockStore::RoomVersion.

  /// Room was made that no block waits for.
  void NoteRoom() {
    room_version.fetch_add(1, std::memory_order_acq_rel);
    on_room();
  }
};

/// A segment as its disk knows it; guarded by the disk's mutex.
struct Segment {
  std::uint32_t number = 0;
  std::shared_ptr<LinkState> link;
  FileDescriptor writer;      ///< While it is open for new records.
  std::uint64_t tail = 0;     ///< Where the next record goes.
  std::uint64_t kicked = 0;   ///< Write-back has begun up to here…
  std::uint64_t awaited = 0;  ///< …and has ended up to here.
  std::uint32_t writers = 0;  ///< Records that are being written.
  bool sealed = false;        ///< No new records.
  std::uint32_t live_blocks = 0;
  std::uint32_t freeing = 0;        ///< Records that are being punched.
  std::uint64_t live_bytes = 0;     ///< The live blocks' records on disk.
  std::uint64_t slack_bytes = 0;    ///< Freed, but the file system could not take it back.
  std::vector<BlockHandle> blocks;  ///< Oldest first; those of removed blocks are stale.
  std::size_t oldest = 0;  ///< All of `blocks` before this have been handed to the evictor …
  std::size_t spared = 0;  ///< … but for these first ones, which were pinned.

  /// False: nothing is in its file, and nobody works on it.
  bool InUse() const { return live_blocks > 0 || writers > 0 || freeing > 0; }
};

}  // namespace forebay
