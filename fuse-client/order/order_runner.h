#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "common/base/buffer.h"
#include "common/base/deadline.h"
#include "common/base/result.h"
#include "common/model/object_version.h"
#include "fuse-client/filesystem.h"
#include "fuse-client/fuse_session.h"
#include "fuse-client/job_table.h"
#include "fuse-client/order/order_book.h"
#include "fuse-client/stats.h"

namespace forebay {

/// A file that is wanted before its reader asks.
struct AheadFile {
  std::uint64_t nodeid = 0;
  std::shared_ptr<JobReads> job;
  /// True: its bytes, and it counts as read by the job. False: only that a node caches it.
  bool bytes = false;
};
using AheadDone = std::function<void(Result<std::vector<Slice>> bytes)>;

/// Fetches what the jobs of a mount have announced, just before they read it. A file of one block
/// goes into the kernel's page cache, where memory allows, so that its reader asks nobody; of other
/// files, and while memory is short, the nodes fetch what they lack.
///
/// Has a thread of its own: the kernel makes whoever writes to its page cache wait for reads of
/// these pages, which the mount's other threads answer.
class OrderRunner {
 public:
  static constexpr std::size_t kFilesAtOnce = 64;
  static constexpr std::uint64_t kBytesAtOnce = 64U << 20;
  /// Ahead of each job; bytes are a sixteenth of what the machine has free, within these bounds.
  static constexpr std::size_t kFilesAhead = 1024;
  static constexpr std::uint64_t kMinBytesAhead = 8U << 20;
  static constexpr std::uint64_t kMaxBytesAhead = 256U << 20;
  /// The machine keeps one part in so many of its memory free of what nobody has asked for yet.
  static constexpr std::uint64_t kFreePart = 10;
  /// So many files in a row of which the kernel has no inode mean that nobody has looked at the
  /// directory: then nothing is pushed for a while.
  static constexpr std::size_t kUnknownInARow = 32;
  static constexpr Duration kPushAgainAfter = std::chrono::seconds(10);

  /// All outlive it.
  struct Parts {
    OrderBook& book;
    FileSystem& files;
    FuseSession& session;
    JobTable& jobs;
    WorkerStats& stats;
    Uuid link;
    std::uint64_t block_bytes = 0;
    /// Of what is read ahead, until the kernel has it. Much less than all reads together may hold:
    /// the kernel may keep us until a read that waits for memory has its answer.
    std::uint64_t bytes_at_once = kBytesAtOnce;
    /// Begins to fetch on one of the mount's threads; `done` is called there, or never once the
    /// mount is stopping.
    std::function<void(AheadFile file, AheadDone done)> fetch;
    /// False where readers do not use the page cache.
    bool push = true;
  };

  explicit OrderRunner(Parts parts);
  /// Fetches no more; what is under way ends by itself.
  ~OrderRunner();
  OrderRunner(const OrderRunner&) = delete;
  OrderRunner& operator=(const OrderRunner&) = delete;

 private:
  struct Shared;
  struct Fetched;
  void Run(const std::stop_token& stop);
  void LookAtMemory();
  void Fill();
  bool BeginOne();
  void Finish(Fetched fetched);

  const Parts parts_;
  /// Also of calls that come after this object's end.
  const std::shared_ptr<Shared> shared_;
  std::uint64_t window_bytes_ = kMinBytesAhead;
  bool memory_allows_ = false;
  TimePoint memory_looked_;
  std::size_t unknown_ = 0;
  TimePoint push_from_;
  std::jthread thread_;
};

}  // namespace forebay
