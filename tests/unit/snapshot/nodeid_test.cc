#include <gtest/gtest.h>

#include <map>
#include <random>
#include <set>
#include <string>

#include "common/snapshot/snapshot_builder.h"
#include "tests/unit/snapshot/testing.h"

namespace forebay {
namespace {

std::map<std::string, SnapshotRow> RowsByPath(const Snapshot& snapshot) {
  std::map<std::string, SnapshotRow> rows;
  for (std::uint32_t i = 0; i < snapshot.rows(); ++i) {
    const auto row = snapshot.RowAt(i);
    rows.emplace(snapshot.PathOf(*row), *row);
  }
  return rows;
}

void ExpectUniqueAndFound(const Snapshot& snapshot) {
  std::set<std::uint64_t> nodeids;
  for (std::uint32_t i = 0; i < snapshot.rows(); ++i) {
    const auto row = snapshot.RowAt(i);
    ASSERT_TRUE(row);
    EXPECT_TRUE(nodeids.insert(row->nodeid).second) << snapshot.PathOf(*row);
    ASSERT_EQ(snapshot.FindNodeid(row->nodeid), row);
    EXPECT_EQ((row->nodeid & kDirectoryNodeidBit) != 0, row->is_directory() && i != 0);
    EXPECT_TRUE(i == 0 || row->nodeid >= kFirstFileNodeid);
    EXPECT_LT(row->nodeid, 1ULL << 63);
  }
}

std::vector<TestObject> Tree(int files, int directories) {
  std::vector<TestObject> objects;
  objects.reserve(static_cast<std::size_t>(files));
  for (int i = 0; i < files; ++i) {
    objects.push_back({.key = "d" + std::to_string(i % directories) + "/" + std::to_string(i),
                       .size = static_cast<std::uint64_t>(i)});
  }
  return objects;
}

TEST(Nodeid, AreUniqueWhenTheHashIsShort) {
  const TempDir dir;
  SnapshotOptions options = TestOptions();
  options.nodeid_bits = 8;
  const auto snapshot = Build(options, Tree(220, 200), dir.Path("s"));
  ASSERT_NE(snapshot, nullptr);
  ExpectUniqueAndFound(*snapshot);
  EXPECT_FALSE(snapshot->FindNodeid(kFirstFileNodeid + 256));
  EXPECT_FALSE(snapshot->FindNodeid(0));
  EXPECT_FALSE(snapshot->FindNodeid(~0ULL));
}

TEST(Nodeid, RunOutOnlyOfAShortHash) {
  const TempDir dir;
  SnapshotOptions options = TestOptions();
  options.nodeid_bits = 4;
  SnapshotBuilder builder(options, dir.Path("s"));
  for (const TestObject& object : Tree(17, 1)) {
    ASSERT_TRUE(builder.Add({.key = object.key, .size = object.size, .etag = object.etag}));
  }
  const auto built = builder.Finish();
  ASSERT_FALSE(built);
  EXPECT_EQ(built.error().code, Code::kInternal);
}

TEST(Nodeid, AreTheSameOnEveryBuild) {
  // Kernels and tombstone files keep nodeids over a restart: these values may never change.
  const TempDir dir;
  const auto snapshot =
      Build(TestOptions("train/"),
            {{.key = "train/d/a.jpg", .size = 39'000, .etag = "d41d8cd98f00b204e9800998ecf8427e"}},
            dir.Path("s"));
  ASSERT_NE(snapshot, nullptr);
  EXPECT_EQ(snapshot->Resolve("")->nodeid, 1u);
  EXPECT_EQ(snapshot->Resolve("d")->nodeid, 6348339498076936425u);
  EXPECT_EQ(snapshot->Resolve("d/a.jpg")->nodeid, 4495124727890793067u);
}

// Generation after generation with random changes: what stays keeps its nodeid, and nothing new
// gets one that the generation before knew as something else.
void RunGenerations(int bits, std::uint64_t seed) {
  SCOPED_TRACE("bits " + std::to_string(bits) + " seed " + std::to_string(seed));
  std::mt19937_64 random(seed);
  const TempDir dir;
  std::map<std::string, TestObject> objects;
  SnapshotOptions options = TestOptions();
  options.nodeid_bits = bits;
  for (int generation = 1; generation <= 20; ++generation) {
    for (int i = 0; i < 20; ++i) {
      const std::string key =
          "d" + std::to_string(random() % 15) + "/" + std::to_string(random() % 8);
      if (random() % 3 == 0) {
        objects.erase(key);
      } else {
        objects[key] = {.key = key,
                        .size = random() % 3,
                        .etag = random() % 2 == 0 ? std::string(32, 'b') : "opaque",
                        .mtime = generation};
      }
    }
    std::vector<TestObject> listing;
    listing.reserve(objects.size());
    for (const auto& [key, object] : objects) listing.push_back(object);
    options.id.generation = static_cast<std::uint64_t>(generation);
    const auto snapshot = Build(options, listing, dir.Path("s" + std::to_string(generation)));
    ASSERT_NE(snapshot, nullptr);
    ASSERT_NO_FATAL_FAILURE(ExpectUniqueAndFound(*snapshot));
    if (options.previous != nullptr) {
      const auto old_rows = RowsByPath(*options.previous);
      for (const auto& [path, row] : RowsByPath(*snapshot)) {
        const auto old = old_rows.find(path);
        const bool same = old != old_rows.end() && old->second.kind == row.kind &&
                          old->second.size == row.size &&
                          options.previous->EtagOf(old->second) == snapshot->EtagOf(row);
        if (same) {
          EXPECT_EQ(row.nodeid, old->second.nodeid) << path;
        } else {
          EXPECT_FALSE(options.previous->FindNodeid(row.nodeid)) << path;
        }
      }
    }
    options.previous = snapshot;
  }
}

TEST(Nodeid, AreKeptFromGenerationToGeneration) { RunGenerations(62, TestSeed()); }
TEST(Nodeid, AreKeptWhenTheyCollide) { RunGenerations(9, TestSeed()); }

TEST(Nodeid, NeedAPreviousGenerationOfTheSameSource) {
  const TempDir dir;
  SnapshotOptions options = TestOptions("a/");
  options.previous = Build(options, {}, dir.Path("s"));
  options.prefix = "b/";
  SnapshotBuilder builder(options, dir.Path("t"));
  const auto built = builder.Finish();
  ASSERT_FALSE(built);
  EXPECT_EQ(built.error().code, Code::kInvalid);
  EXPECT_FALSE(std::filesystem::exists(dir.Path("t")));
}

}  // namespace
}  // namespace forebay
