// POSIX metadata and lines of a manifest: what few snapshots have.
#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>
#include <optional>
#include <string>
#include <vector>

#include "common/snapshot/changes.h"
#include "common/snapshot/difference.h"
#include "common/snapshot/partial_refresh.h"
#include "common/snapshot/shard_snapshot.h"
#include "tests/unit/snapshot/testing.h"

namespace forebay {
namespace {

const PosixAttributes kAll{
    .mode = 0640,
    .uid = 1000,
    .gid = 4'294'967'294,
    .mtime = PosixAttributes::Time{.unix_s = 5'000'000'000, .nanoseconds = 999'999'999}};
const PosixAttributes kOld{.mtime = PosixAttributes::Time{.unix_s = -5, .nanoseconds = 1}};
const PosixAttributes kNothing;

class SnapshotExtrasTest : public ::testing::Test {
 protected:
  std::shared_ptr<const Snapshot> Make(const std::vector<TestObject>& objects,
                                       std::shared_ptr<const Snapshot> previous = nullptr) {
    SnapshotOptions options = TestOptions();
    options.id.generation = ++generation_;
    options.previous = std::move(previous);
    return Build(options, objects, dir_.Path(std::to_string(generation_)));
  }

  static std::optional<PosixAttributes> PosixAt(const Snapshot& snapshot, std::string_view path) {
    return snapshot.PosixOf(*snapshot.Resolve(path));
  }
  static std::vector<std::string> LinesAt(const Snapshot& snapshot, std::string_view path) {
    std::vector<std::string> lines;
    for (const AttributeLine& line : snapshot.LinesOf(*snapshot.Resolve(path)))
      lines.emplace_back(line.json);
    return lines;
  }
  static std::vector<std::string> AllLines(const Snapshot& snapshot) {
    std::vector<std::string> lines;
    EXPECT_TRUE(snapshot.ForEachLine([&](const SnapshotRow& row, std::string_view json) {
      lines.push_back(snapshot.PathOf(row) + " " + std::string(json));
      return true;
    }));
    return lines;
  }

  TempDir dir_;
  std::uint64_t generation_ = 0;
  std::vector<TestObject> objects_ = {
      {.key = "a/all", .posix = kAll},
      {.key = "a/old", .etag = "opaque", .posix = kOld},
      {.key = "a/nothing", .posix = kNothing},
      {.key = "a/unasked"},
      {.key = "a/", .size = 0, .posix = kAll},
      {.key = "empty/", .size = 0, .posix = kOld},
      {.key = "x", .lines = {{.place = 9, .json = R"({"n":9})"}, {.place = 2, .json = "{}"}}},
      {.key = "b", .etag = "opaque", .lines = {{.place = 4, .json = R"({"n":4})"}}}};
};

TEST_F(SnapshotExtrasTest, AreReadAsTheyWereAdded) {
  const auto snapshot = Make(objects_);
  ASSERT_NE(snapshot, nullptr);
  EXPECT_EQ(PosixAt(*snapshot, "a/all"), kAll);
  EXPECT_EQ(PosixAt(*snapshot, "a/old"), kOld);
  EXPECT_EQ(PosixAt(*snapshot, "a/nothing"), kNothing);
  EXPECT_EQ(PosixAt(*snapshot, "a/unasked"), std::nullopt);
  // Of directories it is what their markers have.
  EXPECT_EQ(PosixAt(*snapshot, "a"), kAll);
  EXPECT_EQ(PosixAt(*snapshot, "empty"), kOld);
  EXPECT_EQ(PosixAt(*snapshot, ""), std::nullopt);
  EXPECT_EQ(LinesAt(*snapshot, "x"), (std::vector<std::string>{"{}", R"({"n":9})"}));
  EXPECT_EQ(LinesAt(*snapshot, "a/all"), std::vector<std::string>());
  EXPECT_EQ(AllLines(*snapshot),
            (std::vector<std::string>{"x {}", R"(b {"n":4})", R"(x {"n":9})"}));
}

TEST_F(SnapshotExtrasTest, WithoutThemAFileIsOfTheFirstFormat) {
  const auto without = Make({{.key = "a"}});
  EXPECT_FALSE(without->has_posix());
  EXPECT_FALSE(without->has_lines());
  EXPECT_TRUE(AllLines(*without).empty());
  const auto posix = Make({{.key = "a", .posix = kAll}});
  EXPECT_TRUE(posix->has_posix());
  EXPECT_FALSE(posix->has_lines());
}

TEST_F(SnapshotExtrasTest, OutliveSortingThroughFiles) {
  SnapshotOptions options = TestOptions();
  options.memory_bytes = 1000;
  std::vector<TestObject> objects;
  for (std::uint64_t i = 1000; i-- > 0;) {
    PosixAttributes posix;
    posix.uid = static_cast<std::uint32_t>(i);
    const std::uint64_t place = i * 7919 % 1000;
    objects.push_back({.key = "d" + std::to_string(i % 7) + "/" + std::to_string(i)});
    if (i % 3 != 0) objects.back().posix = posix;
    if (i % 2 != 0) objects.back().lines = {{.place = place, .json = "{\"a\": [1, 2, 3, 4, 5]}"}};
  }
  const auto snapshot = Build(options, objects, dir_.Path("s"));
  for (const TestObject& object : objects) {
    EXPECT_EQ(PosixAt(*snapshot, object.key), object.posix) << object.key;
    EXPECT_EQ(LinesAt(*snapshot, object.key).size(), object.lines.size()) << object.key;
  }
  std::vector<std::uint64_t> numbers;
  ASSERT_TRUE(snapshot->ForEachLine([&](const SnapshotRow& row, std::string_view) {
    numbers.push_back(std::stoull(snapshot->NameOf(row)) * 7919 % 1000);
    return true;
  }));
  EXPECT_EQ(numbers.size(), 500u);
  EXPECT_TRUE(std::ranges::is_sorted(numbers));
}

TEST_F(SnapshotExtrasTest, ShardsAndPartialRefreshesHaveThem) {
  const auto whole = Make(objects_);
  std::vector<std::string> lines;
  for (std::uint32_t i = 0; i < 2; ++i) {
    ASSERT_TRUE(BuildShard(whole, 0, Shard{.index = i, .count = 2}, ShardDeal::kEqually,
                           dir_.Path("part")));
    const auto part = Snapshot::Open(dir_.Path("part")).value();
    EXPECT_EQ(PosixAt(*part, "a"), kAll);
    EXPECT_EQ(PosixAt(*part, "empty"), kOld);
    for (const char* path : {"a/all", "a/old", "a/nothing", "a/unasked"}) {
      if (part->Resolve(path)) {
        EXPECT_EQ(PosixAt(*part, path), PosixAt(*whole, path)) << path;
      }
    }
    std::ranges::copy(AllLines(*part), std::back_inserter(lines));
  }
  std::ranges::sort(lines);
  EXPECT_EQ(lines, (std::vector<std::string>{R"(b {"n":4})", R"(x {"n":9})", "x {}"}));

  SnapshotOptions options = TestOptions();
  options.previous = whole;
  SnapshotBuilder builder(options, dir_.Path("carried"));
  ASSERT_TRUE(CarryOver(*whole, std::vector<std::string>{"x"}, builder));
  ASSERT_TRUE(builder.Finish());
  const auto carried = Snapshot::Open(dir_.Path("carried")).value();
  EXPECT_EQ(PosixAt(*carried, "a/old"), kOld);
  EXPECT_EQ(PosixAt(*carried, "a"), kAll);
  EXPECT_EQ(AllLines(*carried), std::vector<std::string>{R"(b {"n":4})"});
}

TEST_F(SnapshotExtrasTest, AChangeOfThemIsAChangeOfTheLink) {
  const auto before = Make(objects_);
  EXPECT_TRUE(Compare(*before, *Make(objects_, before))->same);
  const auto touched = [&](const Snapshot& after) {
    std::vector<std::string> names;
    EXPECT_TRUE(ForEachChange(*before, 0, after, 0, [&](const SnapshotChange& change) {
      EXPECT_EQ(change.kind, SnapshotChange::Kind::kTouched);
      names.emplace_back(change.name);
      return true;
    }));
    return names;
  };
  std::vector<TestObject> objects = objects_;
  objects[0].posix->mode = 0600;
  auto after = Make(objects, before);
  EXPECT_FALSE(Compare(*before, *after)->same);
  EXPECT_EQ(touched(*after), std::vector<std::string>{"all"});
  objects = objects_;
  objects[5].posix->uid = 7;
  after = Make(objects, before);
  EXPECT_FALSE(Compare(*before, *after)->same);
  EXPECT_EQ(touched(*after), std::vector<std::string>{"empty"});
  objects = objects_;
  objects[7].lines[0].json = R"({"n":5})";
  EXPECT_FALSE(Compare(*before, *Make(objects, before))->same);
  objects = objects_;
  objects[7].lines[0].place = 1;
  EXPECT_FALSE(Compare(*before, *Make(objects, before))->same);
}

}  // namespace
}  // namespace forebay
