// What Snapshot::Open reads: a mount opens each generation of each link, however many objects it
// has.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <memory>
#include <string>

#include "common/snapshot/snapshot_format.h"
#include "tests/unit/snapshot/testing.h"

namespace forebay {
namespace {

/// What this process has of its mappings of a file in its memory.
std::uint64_t MappedBytes(const std::string& path) {
  std::ifstream maps("/proc/self/smaps");
  bool inside = false;
  std::uint64_t bytes = 0;
  for (std::string line; std::getline(maps, line);) {
    if (line.find(path) != std::string::npos) inside = true;
    if (line.starts_with("VmFlags:")) inside = false;
    if (inside && line.starts_with("Rss:")) bytes += std::stoull(line.substr(4)) << 10;
  }
  return bytes;
}

void BuildFiles(const std::string& path, int count) {
  SnapshotBuilder builder(TestOptions("train/"), path);
  for (int i = 0; i < count; ++i) {
    const std::string key = "train/" + std::to_string(i % 100) + "/" + std::to_string(i) + ".JPEG";
    ASSERT_TRUE(builder.Add({.key = key, .size = 9, .etag = "0123456789abcdef0123456789abcdef"}));
  }
  ASSERT_TRUE(builder.Finish().has_value());
}

TEST(SnapshotOpen, ReadsAsLittleOfALargeFileAsOfASmallOne) {
  constexpr std::uint64_t kLittle = 512 << 10;  // a few pages, and what the kernel maps around them
  const TempDir dir;
  for (const int count : {1'000, 200'000}) {
    const std::string path = dir.Path(std::to_string(count));
    BuildFiles(path, count);
    const auto opened = Snapshot::Open(path);
    ASSERT_TRUE(opened) << opened.error().message;
    EXPECT_EQ((*opened)->totals().objects, static_cast<std::uint64_t>(count));
    EXPECT_LE(MappedBytes(path), std::min(kLittle, (*opened)->file_bytes() + 4096));
    EXPECT_GT(MappedBytes(path), 0u);
    if (count == 1'000) continue;
    EXPECT_GT((*opened)->file_bytes(), 10 * kLittle);
    ASSERT_TRUE((*opened)->VerifyAll());
    EXPECT_GE(MappedBytes(path), (*opened)->file_bytes()) << "so it would show";
  }
}

TEST(SnapshotOpen, IsForHeaderSourceAndRootAlone) {
  const TempDir dir;
  const std::string path = dir.Path("s");
  BuildFiles(path, 1'000);
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  SnapshotHeader header{};
  ASSERT_TRUE(file.read(reinterpret_cast<char*>(&header), sizeof header));
  const auto directories = header.section(SnapshotSection::kDirectories);
  const auto rows = header.section(SnapshotSection::kRows);
  const auto damage = [&](std::uint64_t from, std::uint64_t to) {
    file.seekp(static_cast<std::streamoff>(from));
    file << std::string(to - from, '\xa5');
  };
  ASSERT_LT(directories.offset, rows.offset);
  damage(directories.offset + sizeof(SnapshotDirectoryRecord), rows.offset);
  damage(rows.offset + sizeof(SnapshotRowRecord), header.file_bytes);
  ASSERT_TRUE(file.flush());
  const auto opened = Snapshot::Open(path);
  ASSERT_TRUE(opened) << opened.error().message;
  EXPECT_EQ((*opened)->totals().objects, 1'000u);
  EXPECT_EQ((*opened)->source().prefix, "train/");
  EXPECT_FALSE((*opened)->Resolve("7/7.JPEG"));
  EXPECT_EQ((*opened)->VerifyAll().error().code, Code::kCorrupt);
}

}  // namespace
}  // namespace forebay
