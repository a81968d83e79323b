#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>

#include "cachenode/store/block_store.h"
#include "common/base/asio.h"
#include "common/base/executors.h"

namespace forebay {

struct DiskKeeperOptions {
  /// Bytes a second that are read from each disk to find damage before a reader does; 0 = none.
  std::uint64_t scrub_bytes_per_s = 16ULL << 20;
  /// A node that has just started has readers to catch up with.
  std::chrono::milliseconds first_pass_after = std::chrono::minutes(10);
  /// From the end of a pass over a disk to the next one: a small cache is not read all the time.
  std::chrono::milliseconds pass_every = std::chrono::hours(24);
};

/// Looks after the store's disks in the background: notices those that hang, brings those back that
/// are healthy again, reads all blocks in turn at a bounded rate, so that damage is found and
/// dropped, and empties those that are to be smaller, at a bounded rate too. A disk that hangs
/// holds up its own care alone. `store` outlives the loops of the IoPool.
class DiskKeeper {
 public:
  DiskKeeper(BlockStore& store, DiskKeeperOptions options) : store_(store), options_(options) {}
  DiskKeeper(const DiskKeeper&) = delete;
  DiskKeeper& operator=(const DiskKeeper&) = delete;

  /// From now on, until the pool stops.
  void Start(IoPool& io);

 private:
  Task<void> Watch();
  Task<void> Tend(std::size_t disk);
  Task<void> Scrub(std::size_t disk);
  Task<void> Fit(std::size_t disk);

  BlockStore& store_;
  const DiskKeeperOptions options_;
};

}  // namespace forebay
