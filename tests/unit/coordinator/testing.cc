#include "tests/unit/coordinator/testing.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <algorithm>

#include "common/snapshot/snapshot_builder.h"

namespace forebay {

TempDir::TempDir() {
  std::string pattern = (std::filesystem::temp_directory_path() / "forebay-test-XXXXXX").string();
  path_ = ::mkdtemp(pattern.data());
}

TempDir::~TempDir() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

Result<std::uint64_t> MemoryStateStore::ClaimAbove(std::uint64_t least) {
  fence_ = std::max(fence_, least) + 1;
  return fence_;
}

Result<std::optional<std::string>> MemoryStateStore::Get(const std::string& key) {
  const auto row = rows_.find(key);
  if (row == rows_.end()) return std::nullopt;
  return row->second;
}

Result<std::vector<std::pair<std::string, std::string>>> MemoryStateStore::Scan(
    const std::string& prefix) {
  std::vector<std::pair<std::string, std::string>> found;
  for (const auto& [key, value] : rows_) {
    if (key.starts_with(prefix)) found.emplace_back(key, value);
  }
  return found;
}

Status MemoryStateStore::Write(const StateBatch& batch, std::uint64_t fence) {
  if (fail_writes) return Fail(Code::kInternal, "the disk failed");
  if (fence < fence_) return Fail(Code::kDenied, "fenced");
  for (const StateBatch::Change& change : batch.changes()) {
    if (change.value) {
      rows_[change.key] = *change.value;
    } else {
      rows_.erase(change.key);
    }
  }
  return {};
}

LinkSpec TestLink(std::string name, std::string bucket, std::string prefix) {
  LinkSpec link;
  link.id = Uuid::Random();
  link.domain = Uuid::Random();
  link.name = std::move(name);
  link.origin.bucket = std::move(bucket);
  link.origin.prefix = std::move(prefix);
  link.origin.endpoint = "http://127.0.0.1:7480";
  return link;
}

std::shared_ptr<const Snapshot> TestSnapshot(
    const TempDir& dir, const LinkSpec& link,
    const std::vector<std::pair<std::string, std::uint64_t>>& objects) {
  SnapshotOptions options;
  options.id = SnapshotId{.link = link.id, .generation = 1};
  options.domain = link.domain;
  options.endpoint = link.origin.endpoint;
  options.bucket = link.origin.bucket;
  options.prefix = link.origin.prefix;
  options.block_bytes = link.block_bytes;
  const std::string path = dir.Path(link.id.ToString());
  SnapshotBuilder builder(options, path);
  for (const auto& [key, size] : objects) {
    const ListedKey listed{.key = key, .size = size, .etag = "d41d8cd98f00b204e9800998ecf8427e"};
    EXPECT_TRUE(builder.Add(listed).has_value());
  }
  EXPECT_TRUE(builder.Finish().has_value());
  Result<std::shared_ptr<const Snapshot>> opened = Snapshot::Open(path);
  if (!opened) {
    ADD_FAILURE() << opened.error().message;
    return nullptr;
  }
  return *opened;
}

}  // namespace forebay
