#include "cachenode/store/index_db.h"

#include <rocksdb/db.h>
#include <rocksdb/options.h>
#include <rocksdb/table.h>
#include <rocksdb/write_batch.h>
#include <sys/stat.h>

#include <cerrno>
#include <filesystem>
#include <optional>
#include <system_error>

#include "cachenode/store/cache_directory.h"
#include "common/base/failpoint.h"

namespace forebay {
namespace {

constexpr std::string_view kCompleteKey = "m/complete";
constexpr std::string_view kNextSegmentKey = "m/next_segment";
constexpr std::string_view kScrubKey = "m/scrub";

rocksdb::Slice SliceOf(std::string_view text) { return {text.data(), text.size()}; }
std::string_view ViewOf(const rocksdb::Slice& slice) { return {slice.data(), slice.size()}; }

/// True while the iterator stands at a key that begins so.
bool Among(const rocksdb::Iterator& rows, std::string_view prefix) {
  return rows.Valid() && rows.key().starts_with(SliceOf(prefix));
}

Code CodeOf(const rocksdb::Status& status) {
  if (status.IsNoSpace()) return Code::kOverloaded;
  switch (status.code()) {
    case rocksdb::Status::kNotFound:
      return Code::kNotFound;
    case rocksdb::Status::kCorruption:
      return Code::kCorrupt;
    case rocksdb::Status::kBusy:
    case rocksdb::Status::kTryAgain:
    case rocksdb::Status::kTimedOut:
      return Code::kOverloaded;
    case rocksdb::Status::kOk:
    case rocksdb::Status::kNotSupported:
    case rocksdb::Status::kInvalidArgument:
    case rocksdb::Status::kIOError:
    case rocksdb::Status::kMergeInProgress:
    case rocksdb::Status::kIncomplete:
    case rocksdb::Status::kShutdownInProgress:
    case rocksdb::Status::kAborted:
    case rocksdb::Status::kExpired:
    case rocksdb::Status::kCompactionTooLarge:
    case rocksdb::Status::kColumnFamilyDropped:
    case rocksdb::Status::kMaxCode:
      return Code::kInternal;
  }
  return Code::kInternal;
}

rocksdb::Options RocksOptions(const IndexDbOptions& options, bool create) {
  rocksdb::Options rocks;
  rocks.create_if_missing = create;
  rocks.error_if_exists = create;
  rocks.write_buffer_size = options.write_buffer_bytes;
  rocks.max_write_buffer_number = 2;
  rocks.max_background_jobs = 2;
  rocks.max_open_files = 64;
  rocks.compression = rocksdb::kNoCompression;  // keys are hashes
  // A record that a kill cut short at the log's end is expected; damage before it is not.
  rocks.wal_recovery_mode = rocksdb::WALRecoveryMode::kTolerateCorruptedTailRecords;
  rocks.info_log_level = rocksdb::InfoLogLevel::ERROR_LEVEL;
  rocks.keep_log_file_num = 1;
  rocks.max_log_file_size = 1 << 20;
  rocks.stats_dump_period_sec = 0;
  rocks.stats_persist_period_sec = 0;
  rocks.skip_stats_update_on_db_open = true;
  rocksdb::BlockBasedTableOptions table;
  table.no_block_cache = true;  // read once, at recovery
  table.block_size = 16 << 10;
  rocks.table_factory.reset(rocksdb::NewBlockBasedTableFactory(table));
  return rocks;
}

}  // namespace

IndexDb::IndexDb(const IndexDbOptions& options, std::unique_ptr<rocksdb::DB> db)
    : options_(options), db_(std::move(db)) {}

IndexDb::~IndexDb() = default;

Status IndexDb::Checked(const rocksdb::Status& status) const {
  if (status.ok()) return {};
  return Fail(CodeOf(status), "index " + options_.path + ": " + status.ToString());
}

Result<std::unique_ptr<IndexDb>> IndexDb::OpenAt(const IndexDbOptions& options, bool create) {
  rocksdb::DB* raw = nullptr;
  const rocksdb::Status status =
      rocksdb::DB::Open(RocksOptions(options, create), options.path, &raw);
  std::unique_ptr<rocksdb::DB> db(raw);
  if (!status.ok()) {
    return Fail(CodeOf(status), "opening the index " + options.path + ": " + status.ToString());
  }
  return std::unique_ptr<IndexDb>(new IndexDb(options, std::move(db)));
}

Result<std::unique_ptr<IndexDb>> IndexDb::Open(const IndexDbOptions& options) {
  struct stat found;
  if (::stat((options.path + "/CURRENT").c_str(), &found) != 0) {
    return Fail(Code::kCorrupt, "there is no index in " + options.path);
  }
  Result<std::unique_ptr<IndexDb>> opened = OpenAt(options, false);
  if (!opened) {
    Error error = std::move(opened.error());
    // A table that is missing is an I/O error to RocksDB; for us the index is damaged.
    if (error.code != Code::kOverloaded) error.code = Code::kCorrupt;
    return Fail(std::move(error));
  }
  std::string owner;
  const rocksdb::Status complete =
      (*opened)->db_->Get(rocksdb::ReadOptions(), SliceOf(kCompleteKey), &owner);
  if (!complete.ok() || owner != options.directory.ToString()) {
    return Fail(Code::kCorrupt, "the index " + options.path + " is incomplete or not this one's");
  }
  return opened;
}

Result<std::unique_ptr<IndexDb>> IndexDb::Create(const IndexDbOptions& options) {
  std::error_code error;
  std::filesystem::remove_all(options.path, error);
  if (error) {
    return Fail(Code::kInternal, "removing the index " + options.path + ": " + error.message());
  }
  if (::mkdir(options.path.c_str(), 0700) != 0) {
    return Fail(Code::kInternal, "creating the index " + options.path + ": " + ErrnoText(errno));
  }
  return OpenAt(options, true);
}

Status IndexDb::Failed() const {
  return Fail(Code::kInternal, "index " + options_.path + ": an earlier write failed");
}

Status IndexDb::WriteOnce(rocksdb::WriteBatch& batch, bool sync) {
  rocksdb::WriteOptions options;
  options.sync = sync;
  const std::scoped_lock lock(mutex_);
  if (failed_.load(std::memory_order_relaxed)) return Failed();
  const rocksdb::Status status = failpoint("store.index_io_error")
                                     ? rocksdb::Status::IOError("a failpoint")
                                     : db_->Write(options, &batch);
  if (!status.ok()) failed_.store(true, std::memory_order_relaxed);
  return Checked(status);
}

Status IndexDb::Write(rocksdb::WriteBatch& batch, bool sync) {
  Status written = WriteOnce(batch, sync);
  if (written || written.error().code != Code::kOverloaded) return written;
  {
    // Without space RocksDB refuses all writes until it is told that there may be some again.
    const std::scoped_lock lock(mutex_);
    if (!db_ || !db_->Resume().ok()) return written;
    failed_.store(false, std::memory_order_relaxed);
  }
  return WriteOnce(batch, sync);
}

Status IndexDb::Reopen() {
  const std::scoped_lock lock(mutex_);
  if (!failed_.load(std::memory_order_relaxed)) return {};
  db_.reset();
  Result<std::unique_ptr<IndexDb>> opened = Open(options_);
  if (!opened) return Fail(std::move(opened.error()));
  db_ = std::move((*opened)->db_);
  failed_.store(false, std::memory_order_relaxed);
  return {};
}

Status IndexDb::MarkComplete() {
  rocksdb::WriteBatch batch;
  batch.Put(SliceOf(kCompleteKey), options_.directory.ToString());
  return Write(batch, true);
}

Status IndexDb::Put(std::span<const IndexedRecord> records) {
  rocksdb::WriteBatch batch;
  for (const IndexedRecord& record : records) {
    batch.Put(BlockKey(record.block), BlockRow(record));
    if (record.pinned) batch.Put(PinKey(record.block), PinRow());
  }
  return Write(batch, false);
}

Status IndexDb::Delete(std::span<const BlockId> blocks, std::span<const BlockId> pinned) {
  rocksdb::WriteBatch batch;
  for (const BlockId& block : blocks) batch.Delete(BlockKey(block));
  for (const BlockId& block : pinned) batch.Delete(PinKey(block));
  return Write(batch, false);
}

Status IndexDb::PutPins(std::span<const BlockId> blocks) {
  rocksdb::WriteBatch batch;
  for (const BlockId& block : blocks) batch.Put(PinKey(block), PinRow());
  return Write(batch, false);
}

Status IndexDb::EndPins(const Uuid& link, std::uint64_t version,
                        std::span<const BlockId> unpinned) {
  rocksdb::WriteBatch batch;
  for (const BlockId& block : unpinned) batch.Delete(PinKey(block));
  if (version == 0) {
    batch.Delete(PinsVersionKey(link));
  } else {
    batch.Put(PinsVersionKey(link), PinsVersionRow(version));
  }
  return Write(batch, false);
}

Result<std::vector<std::pair<Uuid, std::uint64_t>>> IndexDb::PinsVersions() {
  std::vector<std::pair<Uuid, std::uint64_t>> versions;
  const std::unique_ptr<rocksdb::Iterator> rows(db_->NewIterator(rocksdb::ReadOptions()));
  for (rows->Seek(SliceOf(kPinsVersionRows)); Among(*rows, kPinsVersionRows); rows->Next()) {
    const auto version = ReadPinsVersionRow(ViewOf(rows->key()), ViewOf(rows->value()));
    if (version) versions.push_back(*version);
  }
  if (Status read = Checked(rows->status()); !read) return Fail(std::move(read.error()));
  return versions;
}

Status IndexDb::ForEachPin(const std::function<void(const BlockId&)>& visit) {
  const std::unique_ptr<rocksdb::Iterator> rows(db_->NewIterator(rocksdb::ReadOptions()));
  for (rows->Seek(SliceOf(kPinRows)); Among(*rows, kPinRows); rows->Next()) {
    const auto block = ReadPinRow(ViewOf(rows->key()), ViewOf(rows->value()));
    if (block) visit(*block);
  }
  return Checked(rows->status());
}

Status IndexDb::ForEach(const std::function<void(const IndexedRecord&)>& visit) {
  rocksdb::ReadOptions options;
  options.readahead_size = 2 << 20;
  const std::unique_ptr<rocksdb::Iterator> rows(db_->NewIterator(options));
  for (rows->Seek(SliceOf(kBlockRows)); Among(*rows, kBlockRows); rows->Next()) {
    const auto record = ReadBlockRow(ViewOf(rows->key()), ViewOf(rows->value()));
    if (record) visit(*record);
  }
  return Checked(rows->status());
}

Result<std::uint32_t> IndexDb::Number(std::string_view key) {
  std::string value;
  const rocksdb::Status status = db_->Get(rocksdb::ReadOptions(), SliceOf(key), &value);
  if (status.IsNotFound()) return 0;
  if (Status checked = Checked(status); !checked) return Fail(std::move(checked.error()));
  const std::optional<std::uint32_t> number = ReadNumberRow(value);
  if (!number) return Fail(Code::kCorrupt, "index " + options_.path + ": a bad number");
  return *number;
}

Status IndexDb::SetNumber(std::string_view key, std::uint32_t number) {
  rocksdb::WriteBatch batch;
  batch.Put(SliceOf(key), NumberRow(number));
  return Write(batch, false);
}

Result<std::uint32_t> IndexDb::NextSegment() { return Number(kNextSegmentKey); }

Status IndexDb::SetNextSegment(std::uint32_t number) { return SetNumber(kNextSegmentKey, number); }

Result<std::uint32_t> IndexDb::ScrubPlace() { return Number(kScrubKey); }

Status IndexDb::SetScrubPlace(std::uint32_t segment) { return SetNumber(kScrubKey, segment); }

Status IndexDb::Sync() {
  const std::scoped_lock lock(mutex_);
  if (failed_.load(std::memory_order_relaxed)) return Failed();
  const rocksdb::Status status = db_->SyncWAL();
  if (!status.ok()) failed_.store(true, std::memory_order_relaxed);
  return Checked(status);
}

Status IndexDb::Flush() {
  if (Status synced = Sync(); !synced) return synced;
  const std::scoped_lock lock(mutex_);
  if (failed_.load(std::memory_order_relaxed)) return Failed();
  const rocksdb::Status status = db_->Flush(rocksdb::FlushOptions());
  if (!status.ok()) failed_.store(true, std::memory_order_relaxed);
  return Checked(status);
}

std::uint64_t IndexDb::DiskBytes() const {
  const std::scoped_lock lock(mutex_);
  if (!db_) return 0;
  std::uint64_t tables = 0;
  std::uint64_t logged = 0;
  db_->GetIntProperty(rocksdb::DB::Properties::kTotalSstFilesSize, &tables);
  db_->GetIntProperty(rocksdb::DB::Properties::kCurSizeAllMemTables, &logged);
  return tables + logged;
}

}  // namespace forebay
