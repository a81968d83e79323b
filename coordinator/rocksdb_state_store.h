#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "common/base/result.h"
#include "coordinator/state_directory.h"
#include "coordinator/state_store.h"

namespace rocksdb {
class DB;
}

namespace forebay {

/// The embedded StateStore of a single coordinator: RocksDB below `<state-dir>/db`, every write
/// synced. `<state-dir>/lock` keeps a second process out for as long as this object lives.
class RocksDbStateStore final : public StateStore {
 public:
  /// Makes the directory (0700) when it is missing. kInvalid: another coordinator uses it, or it
  /// is no directory that this user can write. kCorrupt: the database is damaged; the message
  /// names the directory and what to do. Blocks.
  static Result<std::unique_ptr<RocksDbStateStore>> Open(const std::string& state_dir);
  ~RocksDbStateStore() override;

  Result<std::uint64_t> ClaimAbove(std::uint64_t least) override;
  Result<std::optional<std::string>> Get(const std::string& key) override;
  Result<std::vector<std::pair<std::string, std::string>>> Scan(const std::string& prefix) override;
  Status Write(const StateBatch& batch, std::uint64_t fence) override;

 private:
  RocksDbStateStore(std::string directory, StateDirectory held, std::unique_ptr<rocksdb::DB> db);
  Result<std::uint64_t> StoredFence();

  const std::string directory_;
  const StateDirectory held_;
  std::unique_ptr<rocksdb::DB> db_;
  std::mutex write_mutex_;  // the fence is compared and the batch written as one step
};

}  // namespace forebay
