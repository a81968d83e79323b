#include "tests/unit/snapshot/testing.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <iostream>
#include <stdexcept>

namespace forebay {
namespace {

// The tests sync thousands of small files: in memory where there is such a place.
std::filesystem::path TempRoot() {
  const std::filesystem::path memory = "/dev/shm";
  return ::access(memory.c_str(), W_OK) == 0 ? memory : std::filesystem::temp_directory_path();
}

}  // namespace

TempDir::TempDir() {
  std::string pattern = (TempRoot() / "forebay-test-XXXXXX").string();
  if (::mkdtemp(pattern.data()) == nullptr) throw std::runtime_error("mkdtemp failed");
  path_ = pattern;
}

TempDir::~TempDir() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

SnapshotOptions TestOptions(std::string prefix) {
  return {.id = {.link = Uuid::Parse("00112233-4455-6677-8899-aabbccddeeff"), .generation = 7},
          .domain = Uuid::Parse("a0112233-4455-6677-8899-aabbccddeeff"),
          .endpoint = "http://127.0.0.1:7480",
          .bucket = "bucket",
          .prefix = std::move(prefix),
          .block_bytes = 4 << 20,
          .listed_unix_s = 1'750'000'000,
          .previous = nullptr};
}

std::shared_ptr<const Snapshot> Build(const SnapshotOptions& options,
                                      const std::vector<TestObject>& objects,
                                      const std::string& path, FinishedSnapshot* finished) {
  SnapshotBuilder builder(options, path);
  for (const TestObject& object : objects) {
    const Status added = builder.Add({.key = object.key,
                                      .size = object.size,
                                      .etag = object.etag,
                                      .mtime_unix_s = object.mtime,
                                      .archived = object.archived,
                                      .posix = object.posix ? &*object.posix : nullptr,
                                      .lines = object.lines});
    EXPECT_TRUE(added.has_value()) << added.error().message;
  }
  const auto built = builder.Finish();
  EXPECT_TRUE(built.has_value()) << built.error().message;
  if (!built) return nullptr;
  auto snapshot = Snapshot::Open(path, options.id);
  EXPECT_TRUE(snapshot.has_value()) << snapshot.error().message;
  if (!snapshot) return nullptr;
  EXPECT_TRUE((*snapshot)->VerifyAll().has_value());
  EXPECT_EQ((*snapshot)->Digest(), built->digest);
  EXPECT_EQ((*snapshot)->totals(), built->totals);
  EXPECT_EQ((*snapshot)->file_bytes(), built->file_bytes);
  EXPECT_EQ(std::filesystem::file_size(path), built->file_bytes);
  if (finished != nullptr) *finished = *built;
  return *snapshot;
}

std::vector<std::string> NamesIn(const Snapshot& snapshot, std::uint32_t directory) {
  std::vector<std::string> names;
  DirectoryCursor cursor = snapshot.ReadDirectory(directory);
  while (cursor.Next()) names.emplace_back(cursor.name());
  EXPECT_FALSE(cursor.damaged());
  return names;
}

std::vector<std::string> FilesBelow(const Snapshot& snapshot, std::uint32_t directory) {
  std::vector<std::string> paths;
  const Status status =
      snapshot.ForEachFile(directory, [&](const SnapshotRow&, std::string_view path) {
        paths.emplace_back(path);
        return true;
      });
  EXPECT_TRUE(status.has_value());
  return paths;
}

std::uint64_t TestSeed() {
  const auto wanted = static_cast<std::uint64_t>(GTEST_FLAG_GET(random_seed));
  std::random_device device;
  const std::uint64_t seed = wanted != 0 ? wanted : 1 + device() % 99'999;
  std::cout << "to repeat: --gtest_random_seed=" << seed << "\n";
  return seed;
}

}  // namespace forebay
