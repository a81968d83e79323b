#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "common/base/asio.h"
#include "common/base/buffer.h"
#include "common/base/deadline.h"
#include "common/base/result.h"
#include "common/model/block_source.h"
#include "fuse-client/error_log.h"
#include "fuse-client/filesystem.h"
#include "fuse-client/job_finder.h"
#include "fuse-client/job_reads.h"
#include "fuse-client/link_presence.h"
#include "fuse-client/node_answers.h"
#include "fuse-client/order/order_book.h"
#include "fuse-client/stats.h"
#include "fuse-client/stream_table.h"

namespace forebay {

/// Asks for a block before a reader does.
class BlockPrefetcher {
 public:
  virtual ~BlockPrefetcher() = default;
  /// Does not wait for the block: its node has it, or has begun to fetch it. kOverloaded: nobody
  /// has, since there is much to do; ask again later. Every other error: nobody has.
  virtual Task<Status> Prefetch(BlockRequest request) = 0;
};

struct FileReaderOptions {
  Uuid link;
  std::uint64_t block_bytes = 0;
  /// How long a read waits for S3 before it fails (Ts).
  Duration patience = kS3Patience;
  /// Of the link; null: it is there.
  std::shared_ptr<const LinkPresence> presence = nullptr;
};

/// Reads of files, by node id: which blocks, from `source`, all of them at once. One per worker,
/// and used on that worker's io_context only; `streams`, `errors` and `files` are shared by all.
class FileReader {
 public:
  struct Parts {
    FileSystem& files;
    BlockSource& source;
    BlockPrefetcher& prefetcher;
    StreamTable& streams;
    ErrorLog& errors;
    WorkerStats& stats;
    JobFinder& jobs;
    NodeAnswers& answers;
    MemoryBudget& memory;
    OrderBook& orders;
  };

  FileReader(Parts parts, FileReaderOptions options) : parts_(parts), options_(options) {}

  /// The bytes of [offset, offset + size), one slice per block: short at the end of the file and
  /// empty past it, never short elsewhere. What fails is in the error log when this returns. An
  /// object's bytes count in `memory` until the slices end; while there is no room the read waits.
  /// `thread` has asked, as the kernel numbers it; the read counts to its job.
  Task<Result<std::vector<Slice>>> Read(std::uint64_t nodeid, std::uint64_t offset,
                                        std::size_t size, pid_t thread);

  /// All of a file that has one block, before anybody has asked; it counts as read by `job`. Errors
  /// are not in the error log: whoever reads it meets them.
  Task<Result<std::vector<Slice>>> ReadAhead(std::uint64_t nodeid, std::shared_ptr<JobReads> job);
  /// Has the nodes cache the file's first blocks: all of them are there or on their way, or the
  /// error says why the first that is not is not, as Prefetch.
  Task<Status> FetchAhead(std::uint64_t nodeid, std::shared_ptr<JobReads> job);

  /// Questions of followed streams that are under way.
  std::size_t asking() const { return asking_; }

 private:
  /// One READ of an object, for as long as it lasts.
  struct ObjectRead {
    FileSystem::Content content;
    std::uint64_t nodeid = 0;
    TimePoint began;
    std::shared_ptr<JobReads> job;
    ReadOutcome outcome = {};
  };

  Task<Result<std::vector<Slice>>> ReadObject(ObjectRead* read, std::uint64_t offset,
                                              std::size_t size);
  void FollowStream(const ObjectRead& read, std::uint64_t offset, std::uint64_t end,
                    const asio::any_io_executor& executor);
  Task<Status> Ask(BlockRequest request);
  Task<void> AskForStream(std::uint64_t nodeid, BlockRequest request);
  BlockRequest RequestFor(const ObjectRead& read, BlockId block, BlockRange range) const;
  void NoteFailure(std::uint64_t nodeid, const Error& why);
  void Account(const Cells& cells, BlockRange range, ReadOutcome& outcome);

  Parts parts_;
  FileReaderOptions options_;
  std::size_t asking_ = 0;
};

}  // namespace forebay
