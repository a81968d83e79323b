// A part that is listed anew gives the same file as listing everything; differences are counted.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "common/snapshot/changes.h"
#include "common/snapshot/difference.h"
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

bool IsInside(const std::string& path, const std::string& part) {
  return path == part || path.starts_with(part + "/");
}

/// Markers of the folders above `part` count as listed.
bool IsListed(const std::string& path, const std::string& part) {
  return IsInside(path, part) || (path.ends_with('/') && part.starts_with(path));
}
bool IsInsideAny(const std::string& path, const std::vector<std::string>& parts) {
  return std::ranges::any_of(parts, [&](const std::string& part) { return IsInside(path, part); });
}
bool IsListedWith(const std::string& path, const std::vector<std::string>& parts) {
  return std::ranges::any_of(parts, [&](const std::string& part) { return IsListed(path, part); });
}

/// Short names in few folders: files and folders of one name, markers, empty components.
std::string RandomKey(std::mt19937_64& random) {
  static const std::vector<std::string> kNames = {"a", "b", "ab", "c", ""};
  std::string key;
  const auto depth = 1 + random() % 3;
  for (std::size_t i = 0; i < depth; ++i) {
    if (i > 0) key += '/';
    key += kNames[random() % kNames.size()];
  }
  return key;
}

TestObject RandomObject(const std::string& key, std::mt19937_64& random) {
  return {.key = key,
          .size = random() % 3,
          .etag = "d41d8cd98f00b204e9800998ecf8427" + std::to_string(random() % 3),
          .mtime = static_cast<std::int64_t>(1'700'000'000 + random() % 3),
          .archived = random() % 8 == 0};
}

struct Refreshed {
  Bucket before;
  Bucket after;
  std::vector<std::string> parts;
};

Refreshed RandomRefresh(std::mt19937_64& random) {
  Refreshed made;
  static const std::vector<std::vector<std::string>> kParts = {
      {"a"}, {"a/b"}, {"a/b", "c"}, {"a/ab", "a/b/c", "b"}, {"c", "a/a", "a/b/a", "a/c"}};
  made.parts = kParts[random() % kParts.size()];
  for (std::size_t i = random() % 20; i > 0; --i) {
    const std::string key = "p/" + RandomKey(random);
    made.before[key] = RandomObject(key, random);
  }
  made.after = made.before;
  for (std::size_t i = random() % 10; i > 0; --i) {
    const std::string path = RandomKey(random);
    if (!IsInsideAny(path, made.parts)) continue;
    const std::string key = "p/" + path;
    if (random() % 2 == 0) {
      made.after.erase(key);
    } else {
      made.after[key] = RandomObject(key, random);
    }
  }
  return made;
}

TEST(PartialRefresh, GivesTheFileThatListingEverythingGives) {
  const std::uint64_t seed = TestSeed();
  std::mt19937_64 random(seed);
  const TempDir dir;
  int possible = 0;
  constexpr int kRounds = 3000;
  for (int round = 0; round < kRounds; ++round) {
    const Refreshed made = RandomRefresh(random);
    SnapshotOptions options = TestOptions("p/");
    const auto before = Build(options, ObjectsOf(made.before), dir.Path("before"));
    ASSERT_NE(before, nullptr);
    const bool can = std::ranges::all_of(
        made.parts, [&](const std::string& part) { return CanRefreshPart(*before, part); });
    if (!can) continue;
    ++possible;
    options.id.generation = 2;
    options.previous = before;
    FinishedSnapshot whole;
    ASSERT_NE(Build(options, ObjectsOf(made.after), dir.Path("whole"), &whole), nullptr);

    SnapshotBuilder builder(options, dir.Path("part"));
    ASSERT_TRUE(CarryOver(*before, made.parts, builder));
    for (const auto& [key, object] : made.after) {
      if (!IsListedWith(key.substr(2), made.parts)) continue;
      ASSERT_TRUE(builder.Add({.key = key,
                               .size = object.size,
                               .etag = object.etag,
                               .mtime_unix_s = object.mtime,
                               .archived = object.archived}));
    }
    const auto finished = builder.Finish();
    ASSERT_TRUE(finished);
    ASSERT_EQ(finished->digest, whole.digest) << "seed " << seed << " round " << round;
  }
  EXPECT_GT(possible, kRounds / 2);
}

TEST(PartialRefresh, IsRefusedWhereAFileHidesBehindAFolderAboveThePart) {
  const TempDir dir;
  const auto before =
      Build(TestOptions("p/"), {{.key = "p/a"}, {.key = "p/a/b"}, {.key = "p/c/d"}}, dir.Path("s"));
  EXPECT_FALSE(CanRefreshPart(*before, "a/b"));
  EXPECT_TRUE(CanRefreshPart(*before, "a"));
  EXPECT_TRUE(CanRefreshPart(*before, "c"));
  EXPECT_FALSE(CanRefreshPart(*before, ""));
}

/// Names, sizes, ETags of the files that are shown.
std::map<std::string, std::pair<std::uint64_t, std::string>> FilesOf(const Snapshot& snapshot) {
  std::map<std::string, std::pair<std::uint64_t, std::string>> files;
  EXPECT_TRUE(snapshot.ForEachFile(0, [&](const SnapshotRow& row, std::string_view path) {
    files[std::string(path)] = {row.size, snapshot.EtagOf(row)};
    return true;
  }));
  return files;
}

TEST(Difference, CountsWhatAMapComparisonCounts) {
  const std::uint64_t seed = TestSeed();
  std::mt19937_64 random(seed);
  const TempDir dir;
  for (int round = 0; round < 2000; ++round) {
    const Refreshed made = RandomRefresh(random);
    SnapshotOptions options = TestOptions("p/");
    const auto before = Build(options, ObjectsOf(made.before), dir.Path("before"));
    options.id.generation = 2;
    options.previous = before;
    const auto after = Build(options, ObjectsOf(made.after), dir.Path("after"));
    ASSERT_TRUE(before && after);
    const auto then = FilesOf(*before);
    const auto now = FilesOf(*after);
    SnapshotDifference expected;
    for (const auto& [path, file] : now) {
      const auto old = then.find(path);
      if (old == then.end()) ++expected.added;
      if (old != then.end() && old->second != file) ++expected.changed;
    }
    for (const auto& [path, file] : then) {
      if (!now.contains(path)) ++expected.removed;
    }
    const auto found = Compare(*before, *after);
    ASSERT_TRUE(found);
    ASSERT_EQ(found->added, expected.added) << "seed " << seed << " round " << round;
    ASSERT_EQ(found->changed, expected.changed) << "seed " << seed << " round " << round;
    ASSERT_EQ(found->removed, expected.removed) << "seed " << seed << " round " << round;
    const auto same = Compare(*before, *before);
    ASSERT_TRUE(same && same->same);
  }
}

/// Everything that is shown: path -> nodeid and time.
std::map<std::string, std::pair<std::uint64_t, std::uint32_t>> RowsOf(const Snapshot& snapshot) {
  std::map<std::string, std::pair<std::uint64_t, std::uint32_t>> rows;
  for (std::uint32_t i = 1; i < snapshot.rows(); ++i) {
    const auto row = snapshot.RowAt(i);
    rows[snapshot.PathOf(*row)] = {row->nodeid, row->mtime_unix_s};
  }
  return rows;
}

TEST(Changes, TurnTheNamesBeforeIntoThoseAfter) {
  const std::uint64_t seed = TestSeed();
  std::mt19937_64 random(seed);
  const TempDir dir;
  for (int round = 0; round < 2000; ++round) {
    const Refreshed made = RandomRefresh(random);
    SnapshotOptions options = TestOptions("p/");
    const auto before = Build(options, ObjectsOf(made.before), dir.Path("before"));
    options.id.generation = 2;
    options.previous = before;
    const auto after = Build(options, ObjectsOf(made.after), dir.Path("after"));
    ASSERT_TRUE(before && after);
    auto rows = RowsOf(*before);
    const auto now = RowsOf(*after);
    const auto forget = [&](const std::string& path) {
      std::erase_if(rows, [&](const auto& row) { return IsInside(row.first, path); });
    };
    const auto adopt = [&](const std::string& path) {
      for (const auto& [one, row] : now) {
        if (IsInside(one, path)) rows[one] = row;
      }
    };
    const Status walked = ForEachChange(*before, 0, *after, 0, [&](const SnapshotChange& change) {
      const std::string parent = after->PathOf(*after->FindNodeid(change.parent));
      const std::string path = (parent.empty() ? "" : parent + "/") + std::string(change.name);
      switch (change.kind) {
        case SnapshotChange::Kind::kRemoved:
          EXPECT_TRUE(rows.contains(path));
          forget(path);
          break;
        case SnapshotChange::Kind::kReplaced:
          EXPECT_TRUE(rows.contains(path));
          forget(path);
          adopt(path);
          break;
        case SnapshotChange::Kind::kAdded:
          EXPECT_FALSE(rows.contains(path));
          adopt(path);
          break;
        case SnapshotChange::Kind::kTouched:
          EXPECT_EQ(rows.at(path).first, change.nodeid);
          rows[path] = now.at(path);
          break;
      }
      return true;
    });
    ASSERT_TRUE(walked);
    ASSERT_EQ(rows, now) << "seed " << seed << " round " << round;
    int told = 0;
    ASSERT_TRUE(ForEachChange(*before, 0, *before, 0, [&](const SnapshotChange&) {
      ++told;
      return true;
    }));
    ASSERT_EQ(told, 0);
  }
}

TEST(Difference, ANewTimeAnEmptyFolderOrAHiddenKeyIsNotTheSame) {
  const TempDir dir;
  SnapshotOptions options = TestOptions("p/");
  const auto before = Build(options, {{.key = "p/a"}, {.key = "p/b"}}, dir.Path("before"));
  options.id.generation = 2;
  options.previous = before;
  const auto compare = [&](const std::vector<TestObject>& objects) {
    const auto after = Build(options, objects, dir.Path("after"));
    return Compare(*before, *after).value();
  };
  EXPECT_TRUE(compare({{.key = "p/a"}, {.key = "p/b"}}).same);
  EXPECT_FALSE(compare({{.key = "p/a", .mtime = 1'700'000'009}, {.key = "p/b"}}).same);
  EXPECT_FALSE(compare({{.key = "p/a"}, {.key = "p/b"}, {.key = "p/c/"}}).same);
  const SnapshotDifference hidden = compare({{.key = "p/a"}, {.key = "p/b"}, {.key = "p//x"}});
  EXPECT_FALSE(hidden.same);
  EXPECT_EQ(hidden.added, 0U);
}

}  // namespace
}  // namespace forebay
