#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cachenode/store/index_format.h"
#include "common/base/result.h"
#include "common/model/block_id.h"
#include "common/model/object_version.h"

namespace rocksdb {
class DB;
class Status;
class WriteBatch;
}  // namespace rocksdb

namespace forebay {

struct IndexDbOptions {
  std::string path;
  Uuid directory;  ///< The cache directory's: an index that was copied from elsewhere is refused.
  std::uint64_t write_buffer_bytes = 16ULL << 20;
};

/// The durable copy of a directory's index (docs/STORE_FORMAT.md). Every write is in RocksDB's log
/// when the call returns, so it survives the process; it survives a power cut after Sync. The only
/// user of RocksDB in the store. Errors: kOverloaded no space; kCorrupt; kInternal. After an I/O
/// error all writes and syncs fail until Reopen. Thread-safe.
class IndexDb {
 public:
  /// kCorrupt: missing, damaged, another directory's, or never completed: rebuild it.
  static Result<std::unique_ptr<IndexDb>> Open(const IndexDbOptions& options);
  /// Removes what is there and begins an empty one, which Open refuses until MarkComplete.
  static Result<std::unique_ptr<IndexDb>> Create(const IndexDbOptions& options);
  ~IndexDb();

  /// From now on Open accepts it. Durable.
  Status MarkComplete();

  Status Put(std::span<const IndexedRecord> records);
  /// `pinned`: those of `blocks` that are, or others whose pins go.
  Status Delete(std::span<const BlockId> blocks, std::span<const BlockId> pinned = {});

  Status PutPins(std::span<const BlockId> blocks);
  /// Every pinned block. Errors as ForEach.
  Status ForEachPin(const std::function<void(const BlockId&)>& visit);
  /// Durable in one write: these pins go, and the others are those of `version`.
  Status EndPins(const Uuid& link, std::uint64_t version, std::span<const BlockId> unpinned);
  /// Links of which pins were ever taken over.
  Result<std::vector<std::pair<Uuid, std::uint64_t>>> PinsVersions();

  /// Every row, by version and offset. kCorrupt: damaged, stop believing it. Rows of unknown
  /// formats are skipped.
  Status ForEach(const std::function<void(const IndexedRecord&)>& visit);

  /// The lowest number that no segment had when this was last called with a new one; 0 at first.
  Result<std::uint32_t> NextSegment();
  Status SetNextSegment(std::uint32_t number);

  /// The segment that was being scrubbed; 0 = none.
  Result<std::uint32_t> ScrubPlace();
  Status SetScrubPlace(std::uint32_t segment);

  /// Makes all writes so far durable.
  Status Sync();
  /// As Sync, and writes the log into tables, so that the next Open is quick.
  Status Flush();

  /// After a failed write: begins anew from what is on disk, which is every write that succeeded.
  /// Does nothing to an index that has not failed.
  Status Reopen();

  /// Bytes on disk, roughly.
  std::uint64_t DiskBytes() const;

 private:
  IndexDb(const IndexDbOptions& options, std::unique_ptr<rocksdb::DB> db);
  static Result<std::unique_ptr<IndexDb>> OpenAt(const IndexDbOptions& options, bool create);
  Status Write(rocksdb::WriteBatch& batch, bool sync);
  Status WriteOnce(rocksdb::WriteBatch& batch, bool sync);
  Status Failed() const;
  /// 0 when there is no such row.
  Result<std::uint32_t> Number(std::string_view key);
  Status SetNumber(std::string_view key, std::uint32_t number);
  Status Checked(const rocksdb::Status& status) const;

  const IndexDbOptions options_;
  /// RocksDB ends the process when its log is synced after a write of it failed, so no sync may run
  /// beside a write. Writes take turns too: RocksDB would have one writer copy the rows of others,
  /// ordered by means that ThreadSanitizer cannot see, and saves only a write call by it.
  mutable std::mutex mutex_;
  std::unique_ptr<rocksdb::DB> db_;  ///< Null when a Reopen failed.
  std::atomic<bool> failed_{false};
};

}  // namespace forebay
