#include "common/snapshot/shard_snapshot.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "tests/fakes/temp_dir.h"

namespace forebay {
namespace {

struct File {
  std::uint64_t nodeid = 0;
  std::uint64_t size = 0;
  std::string etag;
  std::uint32_t mtime = 0;
  bool operator==(const File&) const = default;
};
using Files = std::map<std::string, File>;

class ShardSnapshotTest : public ::testing::Test {
 protected:
  std::shared_ptr<const Snapshot> Build(const std::vector<std::string>& keys,
                                        std::shared_ptr<const Snapshot> previous = nullptr) {
    SnapshotOptions options;
    options.id = {link_, ++generation_};
    options.domain = domain_;
    options.endpoint = "http://127.0.0.1:1";
    options.bucket = "bucket";
    options.prefix = "p/";
    options.block_bytes = 4 << 20;
    options.previous = std::move(previous);
    const std::string path = dir_ / (std::to_string(generation_) + ".fbs");
    SnapshotBuilder builder(options, path);
    std::uint64_t number = 0;
    for (const std::string& key : keys) {
      // Every other ETag is no MD5.
      const std::string etag = number % 2 == 0 ? "d41d8cd98f00b204e9800998ecf8427e" : "etag" + key;
      EXPECT_TRUE(builder.Add({.key = "p/" + key,
                               .size = 10 + number,
                               .etag = etag,
                               .mtime_unix_s = static_cast<std::int64_t>(1000 + number)}));
      ++number;
    }
    EXPECT_TRUE(builder.Finish());
    return Snapshot::Open(path).value();
  }

  std::shared_ptr<const Snapshot> Part(const std::shared_ptr<const Snapshot>& whole,
                                       const Shard& shard, std::string_view below = "",
                                       ShardDeal deal = ShardDeal::kEqually) {
    const std::string path = dir_ / "part.fbs";
    const auto built = BuildShard(whole, whole->Resolve(below)->directory, shard, deal, path);
    EXPECT_TRUE(built) << built.error().message;
    auto part = Snapshot::Open(path, whole->id()).value();
    EXPECT_TRUE(part->VerifyAll());
    return part;
  }

  static Files FilesOf(const Snapshot& snapshot, std::string_view below = "") {
    Files files;
    EXPECT_TRUE(snapshot.ForEachFile(
        snapshot.Resolve(below)->directory, [&](const SnapshotRow& row, std::string_view path) {
          files[std::string(path)] = {row.nodeid, row.size, snapshot.EtagOf(row), row.mtime_unix_s};
          return true;
        }));
    return files;
  }

  static std::vector<std::string> Keys(int count) {
    std::vector<std::string> keys;
    keys.reserve(static_cast<std::size_t>(count));
    for (int i = 0; i < count; ++i)
      keys.push_back("train/c" + std::to_string(i % 10) + "/" + std::to_string(i) + ".jpg");
    return keys;
  }

  fakes::TempDir dir_;
  Uuid link_ = Uuid::Random();
  Uuid domain_ = Uuid::Random();
  std::uint64_t generation_ = 0;
};

TEST_F(ShardSnapshotTest, TheShardsHaveEachFileOnceAsItIsAndDifferByOneAtMost) {
  for (const int objects : {0, 1, 2, 10, 1001}) {
    const auto whole = Build(Keys(objects));
    for (const char* seed : {"", ",seed=1", ",seed=1,epoch=2"}) {
      for (const int count : {2, 3, 7}) {
        Files all;
        std::size_t fewest = SIZE_MAX;
        std::size_t most = 0;
        for (int i = 0; i < count; ++i) {
          const auto shard =
              Shard::Parse(std::to_string(i) + "/" + std::to_string(count) + seed).value();
          const auto part = Part(whole, shard);
          const Files files = FilesOf(*part);
          EXPECT_EQ(part->totals().objects, files.size());
          fewest = std::min(fewest, files.size());
          most = std::max(most, files.size());
          for (const auto& [path, file] : files) {
            EXPECT_TRUE(all.emplace(path, file).second) << path << " is in two shards";
            EXPECT_EQ(part->FindNodeid(file.nodeid)->size, file.size);
          }
        }
        EXPECT_EQ(all, FilesOf(*whole)) << objects << " by " << count;
        EXPECT_LE(most - fewest, 1u);
      }
    }
  }
}

TEST_F(ShardSnapshotTest, EveryShardHasAllDirectoriesWithTheirNodeidsAndTimes) {
  std::vector<std::string> keys = Keys(3);
  keys.insert(keys.end(), {"train/", "empty/", "a//hidden"});
  const auto whole = Build(keys);
  const auto part = Part(whole, Shard{.index = 0, .count = 100});
  EXPECT_LE(part->totals().objects, 1u);
  ASSERT_EQ(part->directories(), whole->directories());
  for (std::uint32_t d = 0; d < whole->directories(); ++d) {
    EXPECT_EQ(part->DirectoryAt(d)->path, whole->DirectoryAt(d)->path);
    const auto mine = part->RowAt(part->DirectoryAt(d)->row);
    const auto theirs = whole->RowAt(whole->DirectoryAt(d)->row);
    EXPECT_EQ(mine->nodeid, theirs->nodeid);
    EXPECT_EQ(mine->mtime_unix_s, theirs->mtime_unix_s);
  }
  EXPECT_EQ(part->totals().hidden_by_reason, whole->totals().hidden_by_reason);
}

TEST_F(ShardSnapshotTest, OfADirectoryOnlyWhatLiesBelowItIsDealt) {
  std::vector<std::string> keys = Keys(100);
  keys.insert(keys.end(), {"val/1", "val/2", "val/3", "val/4"});
  const auto whole = Build(keys);
  Files all;
  for (std::uint32_t i = 0; i < 2; ++i) {
    const auto part = Part(whole, Shard{.index = i, .count = 2}, "val");
    EXPECT_EQ(part->totals().objects, 2u);
    all.merge(FilesOf(*part, "val"));
  }
  EXPECT_EQ(all, FilesOf(*whole, "val"));
}

TEST_F(ShardSnapshotTest, WhatComesAndGoesMovesHardlyAnythingElse) {
  const auto before = Build(Keys(1000));
  std::vector<std::string> keys = Keys(1000);
  keys.erase(keys.begin() + 500);
  keys.insert(keys.end(), {"new/1", "new/2", "new/3"});
  const auto after = Build(keys, before);
  std::size_t moved = 0;
  for (std::uint32_t i = 0; i < 4; ++i) {
    const Files then = FilesOf(*Part(before, Shard{.index = i, .count = 4}));
    for (const auto& [path, file] : FilesOf(*Part(after, Shard{.index = i, .count = 4}))) {
      if (!path.starts_with("new/") && !then.contains(path)) ++moved;
    }
  }
  EXPECT_LE(moved, 4u * 3u);
}

TEST_F(ShardSnapshotTest, AnotherEpochDealsOtherFiles) {
  const auto whole = Build(Keys(1000));
  const Files first = FilesOf(*Part(whole, Shard::Parse("0/2,seed=1,epoch=1").value()));
  const Files second = FilesOf(*Part(whole, Shard::Parse("0/2,seed=1,epoch=2").value()));
  std::size_t common = 0;
  for (const auto& [path, file] : first) common += second.count(path);
  // Half of them again, by chance; the bounds are six standard deviations away.
  EXPECT_GT(common, 150u);
  EXPECT_LT(common, 350u);
}

TEST_F(ShardSnapshotTest, BuildingTwiceGivesTheSameBytes) {
  const auto whole = Build(Keys(100));
  const Shard shard{.index = 1, .count = 3};
  EXPECT_EQ(Part(whole, shard)->Digest(), Part(whole, shard)->Digest());
}

TEST_F(ShardSnapshotTest, FilesThatAreDealtByNameMeetThoseOfOtherLinksWithTheirNames) {
  std::vector<std::string> images;
  std::vector<std::string> labels = {"a/also.txt"};  // what else there is moves nothing
  for (int i = 0; i < 100; ++i) {
    images.push_back("a/" + std::to_string(i) + ".jpg");
    if (i % 3 != 0) labels.push_back("a/" + std::to_string(i) + ".txt");
  }
  std::sort(images.begin(), images.end());
  std::sort(labels.begin(), labels.end());
  const auto both = {Build(images), Build(labels)};
  std::map<std::string, std::uint32_t> shard_of;
  for (const auto& whole : both) {
    std::uint64_t files = 0;
    for (std::uint32_t i = 0; i < 4; ++i) {
      const Shard shard{.index = i, .count = 4};
      for (const auto& [name, file] : FilesOf(*Part(whole, shard, "", ShardDeal::kByName))) {
        const auto [at, is_new] = shard_of.emplace(WithoutEnding(name), i);
        EXPECT_EQ(at->second, i) << name;
        ++files;
      }
    }
    EXPECT_EQ(files, whole->totals().objects) << "each file once";
  }
  EXPECT_EQ(shard_of.size(), 101u);
}

}  // namespace
}  // namespace forebay
