#include "common/snapshot/same_listing.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "common/snapshot/difference.h"
#include "tests/unit/snapshot/testing.h"

namespace forebay {
namespace {

bool IsSame(const Snapshot& previous, const std::vector<TestObject>& objects,
            std::string_view part = "") {
  SameListing same(previous, part);
  for (const TestObject& object : objects) {
    const ListedKey key{.key = object.key,
                        .size = object.size,
                        .etag = object.etag,
                        .mtime_unix_s = object.mtime,
                        .archived = object.archived,
                        .posix = object.posix ? &*object.posix : nullptr,
                        .lines = object.lines};
    if (!same.Take(key)) return false;
  }
  return same.IsSame();
}

const std::vector<TestObject> kFiles = {
    {.key = "a"}, {.key = "d/b"}, {.key = "d/e/c"}, {.key = "f/g"}};

TEST(SameListing, TellsThatNothingHasChanged) {
  const TempDir dir;
  const auto all = Build(TestOptions(), kFiles, dir.Path("s"));
  EXPECT_TRUE(IsSame(*all, kFiles));
  EXPECT_TRUE(IsSame(*all, {kFiles[1], kFiles[2]}, "d"));
  EXPECT_TRUE(IsSame(*all, {kFiles[2]}, "d/e/c"));
}

TEST(SameListing, EveryChangeOfAnObjectTells) {
  const TempDir dir;
  const auto all = Build(TestOptions(), kFiles, dir.Path("s"));
  const auto with = [](auto change) {
    std::vector<TestObject> objects = kFiles;
    change(objects);
    return objects;
  };
  EXPECT_FALSE(IsSame(*all, with([](auto& o) { o[1].size = 2; })));
  EXPECT_FALSE(IsSame(*all, with([](auto& o) { o[1].etag = "e41d8cd98f00b204e9800998ecf8427e"; })));
  EXPECT_FALSE(IsSame(*all, with([](auto& o) { o[1].mtime += 1; })));
  EXPECT_FALSE(IsSame(*all, with([](auto& o) { o[1].archived = true; })));
  EXPECT_FALSE(IsSame(*all, with([](auto& o) { o.pop_back(); })));
  EXPECT_FALSE(IsSame(*all, with([](auto& o) { o.push_back({.key = "h"}); })));
  EXPECT_FALSE(IsSame(*all, with([](auto& o) { o[3].key = "f/h"; })));
  EXPECT_FALSE(IsSame(*all, with([](auto& o) { o.push_back({.key = "f/"}); })));
  EXPECT_FALSE(IsSame(*all, with([](auto& o) { o.push_back({.key = "f//"}); })));
  EXPECT_FALSE(IsSame(*all, {}, "d"));
  EXPECT_FALSE(IsSame(*all, {{.key = "n"}}, "n")) << "there was nothing before";
}

TEST(SameListing, AFolderThatWasThereByItsMarkerAloneIsMissed) {
  const TempDir dir;
  auto objects = kFiles;
  objects.push_back({.key = "h/", .size = 0});
  const auto all = Build(TestOptions(), objects, dir.Path("s"));
  EXPECT_FALSE(IsSame(*all, kFiles));
  EXPECT_TRUE(IsSame(*all, {kFiles[1], kFiles[2]}, "d"));
}

TEST(SameListing, HiddenKeysOfThePartLeaveItOpen) {
  const TempDir dir;
  auto objects = kFiles;
  objects.push_back({.key = "d//x"});
  const auto all = Build(TestOptions(), objects, dir.Path("s"));
  EXPECT_FALSE(IsSame(*all, kFiles));
  EXPECT_FALSE(IsSame(*all, {kFiles[1], kFiles[2]}, "d"));
  EXPECT_TRUE(IsSame(*all, {kFiles[3]}, "f"));
}

TEST(SameListing, TheLinksOwnFolderAndSingleObjectsAreUnderstood) {
  const TempDir dir;
  const std::vector<TestObject> below = {{.key = "p/", .size = 0}, {.key = "p/a"}};
  const auto all = Build(TestOptions("p/"), below, dir.Path("s"));
  EXPECT_TRUE(IsSame(*all, below));
  const std::vector<TestObject> one = {{.key = "p/a"}};
  const auto single = Build(TestOptions("p/a"), one, dir.Path("t"));
  EXPECT_TRUE(IsSame(*single, one));
}

// Whatever the keys: it says "the same" only where a comparison of what is built says so.
TEST(SameListing, NeverSaysSoWhereABuiltSnapshotDiffers) {
  std::mt19937_64 random(TestSeed());
  static constexpr std::string_view kParts[] = {"a", "b", "c/", "/", "."};
  const auto some = [&random] {
    std::vector<TestObject> objects;
    for (int i = 0; i < 3; ++i) {
      std::string key;
      for (auto n = random() % 4 + 1; n > 0; --n) key += kParts[random() % std::size(kParts)];
      objects.push_back({.key = key, .size = random() % 2});
    }
    std::ranges::sort(objects, {}, &TestObject::key);
    const auto again = std::ranges::unique(objects, {}, &TestObject::key);
    objects.erase(again.begin(), again.end());
    return objects;
  };
  int same = 0;
  // A set of keys seldom hides none, and whether any does is this seed's luck.
  for (int round = 0; round < 400 || (same < 5 && round < 20'000); ++round) {
    const TempDir dir;
    const std::vector<TestObject> before = some();
    const std::vector<TestObject> after = random() % 4 == 0 ? before : some();
    const auto then = Build(TestOptions(), before, dir.Path("1"));
    if (!IsSame(*then, after)) continue;
    ++same;
    SnapshotOptions options = TestOptions();
    options.id.generation += 1;
    options.previous = then;
    const auto now = Build(options, after, dir.Path("2"));
    EXPECT_TRUE(Compare(*then, *now)->same);
  }
  EXPECT_GE(same, 5);
}

TEST(SameListing, LinesOfAManifestAreComparedAndThoseOfTheGenerationItselfAreTheSame) {
  const TempDir dir;
  auto objects = kFiles;
  objects[1].lines = {{.place = 2, .json = "{\"a\": 1}"}, {.place = 3, .json = "{\"a\": 2}"}};
  objects[2].lines = {{.place = 1, .json = "{\"a\": 3}"}};
  const auto all = Build(TestOptions(), objects, dir.Path("s"));
  std::vector<TestObject> listed = objects;
  for (TestObject& object : listed) object.lines = all->LinesOf(*all->Resolve(object.key));
  EXPECT_TRUE(IsSame(*all, listed));
  EXPECT_TRUE(IsSame(*all, {listed[1], listed[2]}, "d"));
  auto other = listed;
  other[1].lines[1].json = "{\"a\": 9}";
  EXPECT_FALSE(IsSame(*all, other));
  other = listed;
  other[1].lines.pop_back();
  EXPECT_FALSE(IsSame(*all, other));
  other = listed;
  std::swap(other[1].lines[0].place, other[2].lines[0].place);
  EXPECT_FALSE(IsSame(*all, other)) << "in another order";
  other = listed;
  other[0].lines = {{.place = 9, .json = "{}"}};
  EXPECT_FALSE(IsSame(*all, other));
  const auto without = Build(TestOptions(), kFiles, dir.Path("t"));
  EXPECT_FALSE(IsSame(*without, other));
}

// A manifest says its lines' numbers, a snapshot where it keeps them.
TEST(SameListing, LinesOfAManifestAreTheSameByTheirTextsAndOrderWhateverTheirNumbers) {
  const TempDir dir;
  auto objects = kFiles;
  objects[0].lines = {{.place = 8, .json = "{\"a\": 1}"}, {.place = 11, .json = "{\"a\": 1}"}};
  objects[2].lines = {{.place = 9, .json = "{\"a\": 1}"}};
  objects[3].lines = {{.place = 2, .json = "{}"}};
  const auto all = Build(TestOptions(), objects, dir.Path("s"));
  EXPECT_TRUE(IsSame(*all, objects));
  auto other = objects;
  for (TestObject& object : other) {
    for (AttributeLine& line : object.lines) line.place *= 3;
  }
  EXPECT_TRUE(IsSame(*all, other)) << "blank lines between them";
  std::swap(other[0].lines[0].place, other[2].lines[0].place);
  EXPECT_FALSE(IsSame(*all, other)) << "in another order";
}

// What it says of lines is what a comparison of what is built says, and not less often.
TEST(SameListing, OfRandomManifestsItSaysWhatABuiltSnapshotSays) {
  std::mt19937_64 random(TestSeed());
  int same = 0;
  for (int round = 0; round < 300; ++round) {
    const TempDir dir;
    std::vector<std::uint64_t> places(6);
    for (std::size_t i = 0; i < places.size(); ++i) places[i] = 5 * (i + 1);
    std::ranges::shuffle(places, random);
    std::vector<TestObject> before = kFiles;
    for (const std::uint64_t place : places) {
      std::vector<AttributeLine>& lines = before[random() % before.size()].lines;
      lines.push_back({.place = place, .json = random() % 2 == 0 ? "{}" : "{\"a\": 1}"});
      std::ranges::sort(lines, {}, &AttributeLine::place);
    }
    std::vector<TestObject> after = before;
    for (TestObject& object : after) {
      // Far enough to come before or behind another one, now and then.
      for (AttributeLine& line : object.lines) line.place += random() % 7;
      std::ranges::sort(object.lines, {}, &AttributeLine::place);
    }
    const auto then = Build(TestOptions(), before, dir.Path("1"));
    SnapshotOptions options = TestOptions();
    options.id.generation += 1;
    options.previous = then;
    const auto now = Build(options, after, dir.Path("2"));
    EXPECT_EQ(IsSame(*then, after), Compare(*then, *now)->same) << "round " << round;
    same += IsSame(*then, after) ? 1 : 0;
  }
  EXPECT_GT(same, 0);
  EXPECT_LT(same, 300);
}

}  // namespace
}  // namespace forebay
