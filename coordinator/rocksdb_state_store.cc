#include "coordinator/rocksdb_state_store.h"

#include <fmt/format.h>
#include <rocksdb/db.h>
#include <rocksdb/options.h>
#include <rocksdb/write_batch.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <filesystem>
#include <system_error>

namespace forebay {
namespace {

namespace fs = std::filesystem;

constexpr const char* kFenceKey = "fence";

std::string Why(int error) { return std::generic_category().message(error); }

Error FromRocks(const rocksdb::Status& status, const std::string& directory) {
  if (status.IsCorruption()) {
    return Error{Code::kCorrupt,
                 fmt::format("the state in {} is damaged ({}): move it away, start with an empty "
                             "one, and restore a backup with `forebay restore`, or link again",
                             directory, status.ToString())};
  }
  return Error{Code::kInternal,
               fmt::format("the state in {} cannot be used: {}", directory, status.ToString())};
}

rocksdb::Options DatabaseOptions(bool create) {
  rocksdb::Options options;
  options.create_if_missing = create;
  options.error_if_exists = false;
  options.paranoid_checks = true;
  // The whole state is a few megabytes: one background thread and small buffers are plenty.
  options.write_buffer_size = 4 << 20;
  options.max_total_wal_size = 16 << 20;
  options.max_background_jobs = 2;
  options.keep_log_file_num = 2;
  options.info_log_level = rocksdb::WARN_LEVEL;
  return options;
}

Result<std::unique_ptr<rocksdb::DB>> OpenDatabase(const std::string& path, bool create,
                                                  const std::string& directory) {
  rocksdb::DB* db = nullptr;
  const rocksdb::Status status = rocksdb::DB::Open(DatabaseOptions(create), path, &db);
  if (status.ok()) return std::unique_ptr<rocksdb::DB>(db);
  // The lock is ours, so whatever is missing or unreadable here is damage, not a second process.
  if (status.IsInvalidArgument() || status.IsNotFound() || status.IsIOError()) {
    return Fail(FromRocks(rocksdb::Status::Corruption(status.ToString()), directory));
  }
  return Fail(FromRocks(status, directory));
}

/// A database is born under another name, so that a crash while it is made is not taken for damage.
Status CreateDatabase(const std::string& path, const std::string& directory) {
  const std::string fresh = path + ".new";
  std::error_code error;
  fs::remove_all(fresh, error);
  if (::mkdir(fresh.c_str(), 0700) != 0) {
    return Fail(Code::kInternal, fmt::format("{} cannot be made: {}", fresh, Why(errno)));
  }
  Result<std::unique_ptr<rocksdb::DB>> db = OpenDatabase(fresh, true, directory);
  if (!db) return Fail(db.error());
  const rocksdb::Status closed = (*db)->Close();
  if (!closed.ok()) return Fail(FromRocks(closed, directory));
  fs::rename(fresh, path, error);
  if (error) {
    return Fail(Code::kInternal,
                fmt::format("{} cannot be renamed to {}: {}", fresh, path, error.message()));
  }
  return {};
}

}  // namespace

Result<std::unique_ptr<RocksDbStateStore>> RocksDbStateStore::Open(const std::string& state_dir) {
  Result<StateDirectory> directory = StateDirectory::Open(state_dir);
  if (!directory) return Fail(directory.error());

  const std::string path = state_dir + "/db";
  Result<std::unique_ptr<rocksdb::DB>> db;
  std::error_code error;
  Status created;
  if (!fs::exists(path, error)) created = CreateDatabase(path, state_dir);
  if (created) {
    db = OpenDatabase(path, false, state_dir);
  } else {
    db = Fail(created.error());
  }
  if (!db) return Fail(db.error());
  return std::unique_ptr<RocksDbStateStore>(
      new RocksDbStateStore(state_dir, std::move(*directory), std::move(*db)));
}

RocksDbStateStore::RocksDbStateStore(std::string directory, StateDirectory held,
                                     std::unique_ptr<rocksdb::DB> db)
    : directory_(std::move(directory)), held_(std::move(held)), db_(std::move(db)) {}

RocksDbStateStore::~RocksDbStateStore() {
  (void)db_->Close();
  db_.reset();
}

Result<std::optional<std::string>> RocksDbStateStore::Get(const std::string& key) {
  std::string value;
  const rocksdb::Status status = db_->Get(rocksdb::ReadOptions(), key, &value);
  if (status.IsNotFound()) return std::nullopt;
  if (!status.ok()) return Fail(FromRocks(status, directory_));
  return value;
}

Result<std::vector<std::pair<std::string, std::string>>> RocksDbStateStore::Scan(
    const std::string& prefix) {
  std::vector<std::pair<std::string, std::string>> found;
  const std::unique_ptr<rocksdb::Iterator> row(db_->NewIterator(rocksdb::ReadOptions()));
  for (row->Seek(prefix); row->Valid() && row->key().starts_with(prefix); row->Next()) {
    found.emplace_back(row->key().ToString(), row->value().ToString());
  }
  if (!row->status().ok()) return Fail(FromRocks(row->status(), directory_));
  return found;
}

Result<std::uint64_t> RocksDbStateStore::StoredFence() {
  Result<std::optional<std::string>> stored = Get(kFenceKey);
  if (!stored) return Fail(stored.error());
  if (!stored->has_value()) return 0;
  const std::string& text = **stored;
  std::uint64_t fence = 0;
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), fence);
  if (parsed.ec != std::errc() || parsed.ptr != text.data() + text.size()) {
    return Fail(
        FromRocks(rocksdb::Status::Corruption("the fencing epoch is no number"), directory_));
  }
  return fence;
}

Result<std::uint64_t> RocksDbStateStore::ClaimAbove(std::uint64_t least) {
  std::scoped_lock lock(write_mutex_);
  Result<std::uint64_t> stored = StoredFence();
  if (!stored) return stored;
  const std::uint64_t mine = std::max(*stored, least) + 1;
  rocksdb::WriteOptions synced;
  synced.sync = true;
  const rocksdb::Status status = db_->Put(synced, kFenceKey, std::to_string(mine));
  if (!status.ok()) return Fail(FromRocks(status, directory_));
  return mine;
}

Status RocksDbStateStore::Write(const StateBatch& batch, std::uint64_t fence) {
  rocksdb::WriteBatch changes;
  for (const StateBatch::Change& change : batch.changes()) {
    if (change.value) {
      changes.Put(change.key, *change.value);
    } else {
      changes.Delete(change.key);
    }
  }
  std::scoped_lock lock(write_mutex_);
  Result<std::uint64_t> stored = StoredFence();
  if (!stored) return Fail(stored.error());
  if (fence < *stored) {
    return Fail(Code::kDenied,
                fmt::format("a newer coordinator (fencing epoch {}) has replaced this one (epoch "
                            "{}): stop it",
                            *stored, fence));
  }
  rocksdb::WriteOptions synced;
  synced.sync = true;
  const rocksdb::Status status = db_->Write(synced, &changes);
  if (!status.ok()) return Fail(FromRocks(status, directory_));
  return {};
}

}  // namespace forebay
