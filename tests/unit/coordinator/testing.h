#pragma once

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/use_future.hpp>
#include <cstdint>
#include <filesystem>
#include <future>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/base/asio.h"
#include "common/model/link.h"
#include "common/snapshot/snapshot.h"
#include "coordinator/state_store.h"

namespace forebay {

/// A fresh directory that is gone with this object.
class TempDir {
 public:
  TempDir();
  ~TempDir();
  TempDir(const TempDir&) = delete;
  TempDir& operator=(const TempDir&) = delete;
  std::string Path(std::string_view name) const { return (path_ / name).string(); }

 private:
  std::filesystem::path path_;
};

/// Runs a task on an event loop of its own until nothing is left to do; its result.
template <typename T>
T RunTask(asio::io_context& context, Task<T> task) {
  std::future<T> result = asio::co_spawn(context, std::move(task), asio::use_future);
  context.restart();
  context.run();
  return result.get();
}

/// A StateStore in memory that can be told to fail.
class MemoryStateStore final : public StateStore {
 public:
  Result<std::uint64_t> ClaimAbove(std::uint64_t least) override;
  Result<std::optional<std::string>> Get(const std::string& key) override;
  Result<std::vector<std::pair<std::string, std::string>>> Scan(const std::string& prefix) override;
  Status Write(const StateBatch& batch, std::uint64_t fence) override;

  bool fail_writes = false;

 private:
  std::map<std::string, std::string> rows_;
  std::uint64_t fence_ = 0;
};

/// A link with ids, named `name`, to s3://bucket/prefix.
LinkSpec TestLink(std::string name, std::string bucket, std::string prefix);

/// A snapshot of link `link` with these keys and sizes.
std::shared_ptr<const Snapshot> TestSnapshot(
    const TempDir& dir, const LinkSpec& link,
    const std::vector<std::pair<std::string, std::uint64_t>>& objects);

}  // namespace forebay
