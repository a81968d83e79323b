// A part of a link with a manifest: looking up what the generation before knows there gives what
// looking up every name gives.
#include "common/snapshot/named_parts.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "common/model/key_rules.h"
#include "common/snapshot/partial_refresh.h"
#include "tests/unit/snapshot/testing.h"

namespace forebay {
namespace {

using Bucket = std::map<std::string, TestObject>;

std::vector<TestObject> ObjectsOf(const Bucket& bucket) {
  std::vector<TestObject> objects;
  for (const auto& [key, object] : bucket) objects.push_back(object);
  return objects;
}

bool IsInsideAny(const std::string& path, const std::vector<std::string>& parts) {
  return std::ranges::any_of(parts, [&](const std::string& part) { return IsInPart(path, part); });
}

/// Short names in few folders: files and folders of one name, markers, empty components.
std::string RandomKey(std::mt19937_64& random) {
  static const std::vector<std::string> kNames = {"a", "b", "ab", "c", "d", "a b", "b-", ""};
  std::string key = "p/";
  const auto depth = 1 + random() % 3;
  for (std::size_t i = 0; i < depth; ++i) {
    if (i > 0) key += '/';
    key += kNames[random() % kNames.size()];
  }
  return key;
}

/// What S3 has of the names before and after; times only grow.
struct Named {
  Bucket before;
  Bucket after;
  std::vector<std::string> parts;
  bool is_gone = false;  // something is
};

Named RandomNamed(std::mt19937_64& random, bool with_lines, bool with_gone) {
  Named made;
  for (std::size_t i = random() % 30; i > 0; --i) {
    TestObject object{.key = RandomKey(random), .size = random() % 3};
    // What became of a marker that goes with the last file below it a snapshot does not say.
    if (with_gone && object.key.ends_with('/')) continue;
    object.mtime += static_cast<std::int64_t>(random() % 3);
    // Lines of markers are not shown.
    if (with_lines && !object.key.ends_with('/'))
      object.lines = {{.place = 1 + random() % 1'000'000'000, .json = "{\"line\": 1}"}};
    made.before[object.key] = object;
  }
  // A file that there is, or a folder above it; one to three of them.
  for (const auto& [key, object] : made.before) {
    if (random() % 8 != 0 || made.parts.size() == 3) continue;
    std::string path = key.substr(2);
    for (std::size_t i = random() % 3; i > 0; --i)
      path.resize(std::min(path.rfind('/'), path.size()));
    if (JudgeKey(path).kind == KeyVerdict::Kind::kFile) made.parts.push_back(path);
  }
  if (made.parts.empty()) made.parts = {"a"};
  made.after = made.before;
  for (auto& [key, object] : made.after) {
    // Of a marker only a folder without entries is known, and then it is asked for.
    if (key.ends_with('/') || random() % 3 != 0 || !IsInsideAny(key.substr(2), made.parts))
      continue;
    object.size = 7;
    object.mtime = 1'700'000'010;
  }
  if (!with_gone) return made;
  std::erase_if(made.after, [&](const auto& entry) {
    return random() % 4 == 0 && IsInsideAny(entry.first.substr(2), made.parts);
  });
  made.is_gone = made.after.size() < made.before.size();
  return made;
}

/// The generation after, from looking up what `previous` knows at the parts; null: not possible.
std::shared_ptr<const Snapshot> BuildPart(const SnapshotOptions& options, const Named& made,
                                          const std::string& path, FinishedSnapshot& finished) {
  const Snapshot& previous = *options.previous;
  const bool can = std::ranges::all_of(
      made.parts, [&](const std::string& part) { return CanLookUpPart(previous, part); });
  if (!can) return nullptr;
  const auto names = NamesOfParts(previous, made.parts);
  EXPECT_TRUE(names && std::ranges::is_sorted(*names));
  std::vector<std::string> gone;
  for (const std::string& name : *names) {
    if (!made.after.contains(name)) gone.push_back(name);
  }
  SnapshotBuilder builder(options, path);
  EXPECT_TRUE(CarryOver(previous, made.parts, builder, FoldersLeft(previous, gone)));
  for (const std::string& name : *names) {
    const auto found = made.after.find(name);
    if (found == made.after.end()) continue;
    const TestObject& object = found->second;
    const auto row = previous.Resolve(name.substr(2));
    const std::vector<AttributeLine> lines =
        row && !row->is_directory() ? previous.LinesOf(*row) : std::vector<AttributeLine>();
    EXPECT_TRUE(builder.Add({.key = name,
                             .size = object.size,
                             .etag = object.etag,
                             .mtime_unix_s = object.mtime,
                             .lines = lines}));
  }
  const auto done = builder.Finish();
  EXPECT_TRUE(done);
  finished = *done;
  return *Snapshot::Open(path);
}

/// All that is shown but times of folders.
std::vector<std::string> ShownBy(const Snapshot& snapshot) {
  std::vector<std::string> shown;
  EXPECT_TRUE(snapshot.ForEachFile(0, [&](const SnapshotRow& row, std::string_view path) {
    shown.push_back(std::string(path) + " " + std::to_string(row.size) + " " +
                    std::to_string(row.mtime_unix_s) + " " +
                    std::to_string(snapshot.LinesOf(row).size()));
    return true;
  }));
  EXPECT_TRUE(snapshot.ForEachHidden([&](std::string_view key, HiddenReason) {
    shown.push_back("hidden " + std::string(key));
    return true;
  }));
  EXPECT_TRUE(snapshot.ForEachLine([&](const SnapshotRow& row, std::string_view) {
    shown.push_back("line of " + snapshot.PathOf(row));
    return true;
  }));
  return shown;
}

std::set<std::string> FoldersOf(const Snapshot& snapshot) {
  std::set<std::string> folders;
  for (std::uint32_t d = 1; d < snapshot.directories(); ++d)
    folders.insert(std::string(snapshot.DirectoryAt(d)->path));
  return folders;
}

TEST(NamedParts, GiveWhatLookingUpEveryNameGives) {
  const std::uint64_t seed = TestSeed();
  std::mt19937_64 random(seed);
  const TempDir dir;
  int equal = 0;
  int with_gone = 0;
  constexpr int kRounds = 3000;
  for (int round = 0; round < kRounds; ++round) {
    const Named made = RandomNamed(random, round % 2 == 0, round % 3 == 0);
    SnapshotOptions options = TestOptions("p/");
    const auto before = Build(options, ObjectsOf(made.before), dir.Path("before"));
    ASSERT_NE(before, nullptr);
    options.id.generation = 2;
    options.previous = before;
    FinishedSnapshot part_digest;
    const auto part = BuildPart(options, made, dir.Path("part"), part_digest);
    if (!part) continue;
    FinishedSnapshot whole_digest;
    const auto whole = Build(options, ObjectsOf(made.after), dir.Path("whole"), &whole_digest);
    ASSERT_NE(whole, nullptr);
    ASSERT_EQ(ShownBy(*part), ShownBy(*whole)) << "seed " << seed << " round " << round;
    if (!made.is_gone) {
      ASSERT_EQ(part_digest.digest, whole_digest.digest) << "seed " << seed << " round " << round;
      ++equal;
      continue;
    }
    ++with_gone;
    ASSERT_EQ(FoldersOf(*part), FoldersOf(*whole)) << "seed " << seed << " round " << round;
  }
  EXPECT_GT(equal, kRounds / 12);
  EXPECT_GT(with_gone, kRounds / 30);
}

TEST(NamedParts, AreRefusedWhereThePreviousGenerationDoesNotKnowTheNames) {
  const TempDir dir;
  const std::vector<AttributeLine> lines = {{.place = 1, .json = "{}"}};
  const std::vector<TestObject> objects = {
      {.key = "p/a", .lines = lines}, {.key = "p/a/b", .lines = lines}, {.key = "p/c/d"}};
  const auto with_lines = Build(TestOptions("p/"), objects, dir.Path("lines"));
  const auto without =
      Build(TestOptions("p/"), {{.key = "p/a"}, {.key = "p/a/b"}, {.key = "p/c/d"}}, dir.Path("s"));
  EXPECT_FALSE(CanLookUpPart(*without, "c/e")) << "the manifest may have it by now";
  EXPECT_FALSE(CanLookUpPart(*without, "a/b")) << "the file a would show again";
  EXPECT_TRUE(CanLookUpPart(*without, "a"));
  EXPECT_FALSE(CanLookUpPart(*with_lines, "a")) << "the lines of a hidden key are not kept";
  EXPECT_TRUE(CanLookUpPart(*with_lines, "c"));
  EXPECT_EQ(*NamesOfParts(*without, std::vector<std::string>{"a"}),
            (std::vector<std::string>{"p/a", "p/a/b"}));
}

}  // namespace
}  // namespace forebay
