// A mount goes from one generation of its link to the next.
#include "fuse-client/generations.h"

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "common/snapshot/snapshot_builder.h"
#include "fuse-client/filesystem.h"
#include "tests/fakes/temp_dir.h"

namespace forebay {
namespace {

/// Key to ETag.
using Bucket = std::map<std::string, std::string>;

class Names final : public FileSystem::EntryVisitor {
 public:
  explicit Names(std::size_t room) : room_(room) {}
  bool Visit(const FileSystem::Entry& entry) override {
    if (names.size() == room_) return false;
    names.emplace_back(entry.name);
    next = entry.next;
    return true;
  }
  std::vector<std::string> names;
  std::uint64_t next = 0;

 private:
  std::size_t room_;
};

class GenerationsTest : public ::testing::Test {
 protected:
  std::shared_ptr<const Snapshot> Next(const Bucket& bucket) {
    SnapshotOptions options;
    options.id = {link_, ++generation_};
    options.domain = domain_;
    options.endpoint = "http://127.0.0.1:1";
    options.bucket = "bucket";
    options.block_bytes = 4 << 20;
    options.previous = last_;
    const std::string path = dir_ / (std::to_string(generation_) + ".fbs");
    SnapshotBuilder builder(options, path);
    for (const auto& [key, etag] : bucket) {
      EXPECT_TRUE(builder.Add({.key = key, .size = 10, .etag = etag}));
    }
    EXPECT_TRUE(builder.Finish());
    last_ = Snapshot::Open(path).value();
    return last_;
  }

  std::unique_ptr<FileSystem> Mount(const Bucket& bucket, std::string_view sub_path = "") {
    auto files = FileSystem::Make(Next(bucket), {}, sub_path, nullptr);
    EXPECT_TRUE(files);
    return std::move(*files);
  }

  static std::uint64_t Inode(FileSystem& files, std::uint64_t parent, std::string_view name) {
    const auto node = files.Lookup(parent, name);
    return node ? node->attributes.st_ino : 0;
  }

  fakes::TempDir dir_;
  const Uuid link_ = Uuid::Random();
  const Uuid domain_ = Uuid::Random();
  std::uint64_t generation_ = 0;
  std::shared_ptr<const Snapshot> last_;
};

constexpr auto kRoot = FileSystem::kRoot;

TEST_F(GenerationsTest, WhatDidNotChangeKeepsItsNodeAndWhatDidGetsAnother) {
  const auto files = Mount({{"same", "a"}, {"new version", "a"}, {"gone", "a"}});
  const std::uint64_t same = Inode(*files, kRoot, "same");
  const std::uint64_t old = Inode(*files, kRoot, "new version");
  const std::uint64_t gone = Inode(*files, kRoot, "gone");
  ASSERT_TRUE(files->Switch(Next({{"same", "a"}, {"new version", "b"}, {"added", "a"}})));
  EXPECT_EQ(Inode(*files, kRoot, "same"), same);
  EXPECT_NE(Inode(*files, kRoot, "added"), 0U);
  EXPECT_EQ(Inode(*files, kRoot, "gone"), 0U);
  EXPECT_NE(Inode(*files, kRoot, "new version"), old);
  // Who has the old ones open reads on in their own version.
  EXPECT_EQ(files->ContentOf(old)->object.etag, "a");
  EXPECT_EQ(files->ContentOf(gone)->object.key, "gone");
  EXPECT_TRUE(files->GetAttr(gone));
  EXPECT_EQ(files->ContentOf(Inode(*files, kRoot, "new version"))->object.etag, "b");
}

TEST_F(GenerationsTest, NodesAreKnownForEightMoreGenerationsAndThenStale) {
  const auto files = Mount({{"a", "0"}});
  const std::uint64_t first = Inode(*files, kRoot, "a");
  for (std::size_t i = 1; i <= Generations::kEarlierKept; ++i) {
    ASSERT_TRUE(files->Switch(Next({{"a", std::to_string(i)}})));
    ASSERT_TRUE(files->ContentOf(first)) << i;
  }
  ASSERT_TRUE(files->Switch(Next({{"a", "last"}})));
  EXPECT_EQ(files->ContentOf(first).error().code, Code::kStale);
}

TEST_F(GenerationsTest, AListingThatHasBegunEndsInItsOwnGeneration) {
  const auto files = Mount({{"a", "x"}, {"b", "x"}, {"c", "x"}, {"d", "x"}});
  Names begin(4);  // ., .., a, b
  ASSERT_TRUE(files->ReadDir(kRoot, 0, begin));
  EXPECT_EQ(begin.names.back(), "b");
  ASSERT_TRUE(files->Switch(Next({{"a0", "x"}, {"a1", "x"}, {"a2", "x"}, {"c", "x"}})));
  Names rest(100);
  ASSERT_TRUE(files->ReadDir(kRoot, begin.next, rest));
  EXPECT_EQ(rest.names, (std::vector<std::string>{"c", "d"}));
  Names anew(100);
  ASSERT_TRUE(files->ReadDir(kRoot, 0, anew));
  EXPECT_EQ(anew.names, (std::vector<std::string>{".", "..", "a0", "a1", "a2", "c"}));
}

TEST_F(GenerationsTest, ADirectoryThatIsGoneHasNoEntries) {
  const auto files = Mount({{"dir/a", "x"}, {"b", "x"}});
  const std::uint64_t gone = Inode(*files, kRoot, "dir");
  ASSERT_TRUE(files->Switch(Next({{"b", "x"}})));
  EXPECT_TRUE(files->GetAttr(gone));
  EXPECT_EQ(files->Lookup(gone, "a").error().code, Code::kStale);
  Names names(100);
  EXPECT_EQ(files->ReadDir(gone, 0, names).error().code, Code::kStale);
}

TEST_F(GenerationsTest, AMountOfADirectoryStaysWhereItIsWhenThatIsGone) {
  const auto files = Mount({{"dir/a", "x"}, {"b", "x"}}, "dir");
  ASSERT_TRUE(files->Switch(Next({{"dir/a", "x"}, {"dir/c", "x"}})));
  EXPECT_NE(Inode(*files, kRoot, "c"), 0U);
  EXPECT_EQ(files->Switch(Next({{"b", "x"}})).error().code, Code::kNotFound);
  EXPECT_EQ(files->Switch(Next({{"dir", "x"}})).error().code, Code::kInvalid);
  EXPECT_NE(Inode(*files, kRoot, "c"), 0U);
}

}  // namespace
}  // namespace forebay
