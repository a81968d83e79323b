#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
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
#include "fuse-client/job_table.h"
#include "fuse-client/order/free_memory.h"
#include "fuse-client/order/order_book.h"
#include "fuse-client/stats.h"

namespace forebay {

/// A file that is wanted before its reader asks.
struct AheadFile {
  std::uint64_t nodeid = 0;
  std::shared_ptr<JobReads> job;
  /// True: its bytes, and it counts as read by the job. False: only that nodes have its first
  /// blocks, or have begun to fetch them.
  bool bytes = false;
};
/// kOverloaded: nobody has begun, since there is much to do.
using AheadDone = std::function<void(Result<std::vector<Slice>> bytes)>;

/// Fetches what the jobs of a mount have announced, just before they read it. A file of one block
/// goes into the kernel's page cache, where memory allows, so that its reader asks nobody; of other
/// files, and while memory is short, the nodes fetch what they lack. What they refuse for now is
/// asked for again, before anything that comes behind it, until the job has come there: while
/// demand takes all that S3 gives, an order waits and loses nothing.
///
/// Has a thread of its own: the kernel makes whoever writes to its page cache wait for reads of
/// these pages, which the mount's other threads answer.
class OrderRunner {
 public:
  static constexpr std::size_t kFilesAtOnce = 64;
  static constexpr std::uint64_t kBytesAtOnce = 64U << 20;
  /// Ahead of each job; bytes are a sixteenth of the memory that is free, within these bounds.
  static constexpr std::size_t kFilesAhead = 1024;
  static constexpr std::uint64_t kMinBytesAhead = 8U << 20;
  static constexpr std::uint64_t kMaxBytesAhead = 256U << 20;
  /// One part in so many of the memory is kept free of what nobody has asked for yet.
  static constexpr std::uint64_t kFreePart = 10;
  /// Files that the kernel seems to have no inode of are pushed all the same, since that may be
  /// wrong; so many in a row that it threw back mean that nobody has looked at the directory, and
  /// then such files are not pushed for a while.
  static constexpr std::size_t kUnknownInARow = 32;
  static constexpr Duration kPushAgainAfter = std::chrono::seconds(10);
  /// Before what was refused is asked for again; doubles while that is refused, too.
  static constexpr Duration kFirstPause = std::chrono::milliseconds(50);
  static constexpr Duration kLongestPause = std::chrono::seconds(2);
  /// Of a file whose node does not answer. Who is only busy is asked until the job is there.
  static constexpr int kTriesMax = 5;

  /// All outlive it.
  struct Parts {
    OrderBook& book;
    FileSystem& files;
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
    /// Puts a whole file into the kernel's page cache; false: the kernel has no inode of it.
    std::function<bool(std::uint64_t nodeid, const std::vector<Slice>& bytes)> store;
    std::function<FreeMemory()> memory;
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
  struct Wanted {
    OrderBook::Next next;
    bool refused = false;  ///< At least once.
    int silent = 0;        ///< How often nobody answered.
  };
  void Run(const std::stop_token& stop);
  void LookAtMemory();
  void Fill();
  bool BeginOne();
  bool HasRoom() const;
  std::optional<Wanted> TakeNext();
  bool IsToPush(const Wanted& wanted) const;
  void Begin(Wanted wanted);
  void Finish(Fetched fetched);
  void Refused(Wanted wanted, const Error& error);
  void NoteUnknown(std::uint64_t nodeid);

  const Parts parts_;
  /// Also of calls that come after this object's end.
  const std::shared_ptr<Shared> shared_;
  std::uint64_t window_bytes_ = kMinBytesAhead;
  bool memory_allows_ = false;
  TimePoint memory_looked_;
  std::size_t unknown_ = 0;
  TimePoint push_unknown_from_;
  std::deque<Wanted> refused_;  // at most kFilesAtOnce: while there are some, no more are taken
  Duration pause_ = kFirstPause;
  TimePoint again_at_;
  bool pauses_ = false;  // until again_at_
  std::jthread thread_;
};

}  // namespace forebay
