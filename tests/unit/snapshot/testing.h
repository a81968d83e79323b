#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "common/snapshot/snapshot.h"
#include "common/snapshot/snapshot_builder.h"

namespace forebay {

/// A fresh directory that is gone with this object.
class TempDir {
 public:
  TempDir();
  ~TempDir();
  TempDir(const TempDir&) = delete;
  TempDir& operator=(const TempDir&) = delete;
  std::string Path(std::string_view name) const { return (path_ / name).string(); }
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

/// One object of a bucket, as a test makes it up.
struct TestObject {
  std::string key;
  std::uint64_t size = 1;
  std::string etag = "d41d8cd98f00b204e9800998ecf8427e";
  std::int64_t mtime = 1'700'000'000;
  bool archived = false;
  std::optional<PosixAttributes> posix = std::nullopt;
  std::vector<AttributeLine> lines = {};
};

/// Options of a link to s3://bucket/<prefix>, always the same link.
SnapshotOptions TestOptions(std::string prefix = "");

/// Adds, finishes, opens and verifies; a failure is a failure of the test, and null.
std::shared_ptr<const Snapshot> Build(const SnapshotOptions& options,
                                      const std::vector<TestObject>& objects,
                                      const std::string& path,
                                      FinishedSnapshot* finished = nullptr);

std::vector<std::string> NamesIn(const Snapshot& snapshot, std::uint32_t directory);
std::vector<std::string> FilesBelow(const Snapshot& snapshot, std::uint32_t directory);

/// A seed that differs from run to run, printed; --gtest_random_seed overrides it.
std::uint64_t TestSeed();

}  // namespace forebay
