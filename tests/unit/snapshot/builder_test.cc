#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <map>

#include "common/model/limits.h"
#include "common/snapshot/snapshot_builder.h"
#include "tests/unit/snapshot/testing.h"

namespace forebay {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::map<std::string, HiddenReason> HiddenOf(const Snapshot& snapshot) {
  std::map<std::string, HiddenReason> hidden;
  EXPECT_TRUE(snapshot.ForEachHidden([&](std::string_view key, HiddenReason reason) {
    EXPECT_TRUE(hidden.emplace(key, reason).second);
    return true;
  }));
  return hidden;
}

TEST(Snapshot, OfAnEmptyPrefixIsAnEmptyRoot) {
  const TempDir dir;
  const auto snapshot = Build(TestOptions("train/"), {}, dir.Path("s"));
  ASSERT_NE(snapshot, nullptr);
  EXPECT_EQ(snapshot->totals(), (SnapshotTotals{.directories = 1}));
  EXPECT_EQ(snapshot->rows(), 1u);
  EXPECT_THAT(NamesIn(*snapshot, kRootDirectory), IsEmpty());
  EXPECT_FALSE(snapshot->Lookup(kRootDirectory, "a"));
  EXPECT_FALSE(snapshot->Lookup(kRootDirectory, ""));
  EXPECT_FALSE(snapshot->FindNodeid(12345));
  EXPECT_FALSE(snapshot->FindNodeid(kDirectoryNodeidBit + 5));
  const auto root = snapshot->FindNodeid(kRootNodeid);
  ASSERT_TRUE(root);
  EXPECT_TRUE(root->is_directory());
  EXPECT_EQ(snapshot->PathOf(*root), "");
  EXPECT_EQ(snapshot->KeyOf(*root), "train/");
  EXPECT_EQ(snapshot->ParentOf(*root), kRootDirectory);
}

TEST(Snapshot, TellsWhatItWasBuiltFrom) {
  const TempDir dir;
  const SnapshotOptions options = TestOptions("train/");
  const auto snapshot = Build(options, {{.key = "train/x"}}, dir.Path("s"));
  ASSERT_NE(snapshot, nullptr);
  EXPECT_EQ(snapshot->id(), options.id);
  EXPECT_EQ(snapshot->domain(), options.domain);
  EXPECT_EQ(snapshot->source(), (SnapshotSource{options.endpoint, "bucket", "train/"}));
  EXPECT_EQ(snapshot->block_bytes(), 4u << 20);
  EXPECT_EQ(snapshot->listed_unix_s(), 1'750'000'000u);
}

TEST(Snapshot, GivesBackEveryAttributeOfAFile) {
  const TempDir dir;
  const std::string md5 = "0123456789abcdef0123456789abcdef";
  const std::vector<TestObject> objects = {
      {.key = "p/plain", .size = 39'000, .etag = md5, .mtime = 1'600'000'000},
      {.key = "p/multi", .size = kMaxObjectBytes, .etag = md5 + "-10000", .mtime = 4'000'000'000},
      {.key = "p/opaque", .size = 0, .etag = "version-id.of/something", .mtime = -5},
      {.key = "p/upper", .etag = "0123456789ABCDEF0123456789ABCDEF", .archived = true},
      {.key = "p/zero", .etag = "0"}};
  const SnapshotOptions options = TestOptions("p/");
  const auto snapshot = Build(options, objects, dir.Path("s"));
  ASSERT_NE(snapshot, nullptr);
  for (const TestObject& object : objects) {
    const auto row = snapshot->Resolve(object.key.substr(2));
    ASSERT_TRUE(row) << object.key;
    EXPECT_EQ(row->size, object.size);
    EXPECT_EQ(row->mtime_unix_s, std::max<std::int64_t>(object.mtime, 0));
    EXPECT_EQ(row->archived, object.archived);
    EXPECT_EQ(snapshot->EtagOf(*row), object.etag);
    EXPECT_EQ(snapshot->KeyOf(*row), object.key);
    EXPECT_EQ(snapshot->NameOf(*row), object.key.substr(2));
    EXPECT_EQ(snapshot->VersionOf(*row),
              ComputeObjectVersion({options.domain, options.endpoint, "bucket", object.key,
                                    object.etag, object.size}));
  }
  EXPECT_EQ(snapshot->totals().objects, 5u);
  EXPECT_EQ(snapshot->totals().bytes, 39'002u + kMaxObjectBytes);
  EXPECT_EQ(snapshot->totals().large_bytes, kMaxObjectBytes);
  EXPECT_EQ(snapshot->RowAt(0)->mtime_unix_s, 4'000'000'000u);
}

TEST(Snapshot, HidesWhatCannotBeShownAndShowsTheRest) {
  const TempDir dir;
  const std::string nul("p/d/n\0l", 7);
  const auto snapshot = Build(TestOptions("p/"),
                              {{.key = "p/", .size = 0},
                               {.key = "p/d/good"},
                               {.key = "p/d//empty"},
                               {.key = "p//lead"},
                               {.key = "p/d/../up"},
                               {.key = "p/d/."},
                               {.key = nul},
                               {.key = "p/d/" + std::string(256, 'x')},
                               {.key = "p/d/" + std::string(255, 'x')},
                               {.key = "p/.forebay/stats"},
                               {.key = "p/d/.forebay"},
                               {.key = "p/both"},
                               {.key = "p/both/x"},
                               {.key = "p/both-not"},
                               {.key = "p/marker/", .size = 0},
                               {.key = "p/fat/", .size = 3},
                               {.key = "p/huge", .size = kMaxObjectBytes + 1},
                               {.key = "p/no-etag", .etag = ""},
                               {.key = "p/no-tag/", .size = 0, .etag = ""},
                               {.key = "p/" + std::string(1022, 'l') + "/x"},
                               {.key = "p/line\r\nbreak"}},
                              dir.Path("s"));
  ASSERT_NE(snapshot, nullptr);
  EXPECT_THAT(HiddenOf(*snapshot),
              ElementsAre(std::pair("p/.forebay/stats", HiddenReason::kReservedName),
                          std::pair("p//lead", HiddenReason::kEmptyComponent),
                          std::pair("p/both", HiddenReason::kShadowedByDirectory),
                          std::pair("p/d/.", HiddenReason::kDotComponent),
                          std::pair("p/d/../up", HiddenReason::kDotComponent),
                          std::pair("p/d//empty", HiddenReason::kEmptyComponent),
                          std::pair(nul, HiddenReason::kNulByte),
                          std::pair("p/d/" + std::string(256, 'x'), HiddenReason::kTooLong),
                          std::pair("p/fat/", HiddenReason::kMarkerWithBytes),
                          std::pair("p/huge", HiddenReason::kOutOfRange),
                          std::pair("p/" + std::string(1022, 'l') + "/x", HiddenReason::kTooLong),
                          std::pair("p/no-etag", HiddenReason::kOutOfRange)));
  EXPECT_EQ(snapshot->totals().hidden_keys, 12u);
  EXPECT_EQ(
      snapshot->totals().hidden_by_reason[static_cast<std::size_t>(HiddenReason::kDotComponent)],
      2u);
  EXPECT_THAT(NamesIn(*snapshot, kRootDirectory),
              ElementsAre("both", "both-not", "d", "fat", "line\r\nbreak", "marker", "no-tag"));
  EXPECT_THAT(NamesIn(*snapshot, snapshot->Resolve("d")->directory),
              ElementsAre(".forebay", "good", std::string(255, 'x')));
  EXPECT_TRUE(snapshot->Resolve("both")->is_directory());
  EXPECT_THAT(NamesIn(*snapshot, snapshot->Resolve("/marker/")->directory), IsEmpty());
}

TEST(Snapshot, ShowsASingleObjectUnderItsBaseName) {
  const TempDir dir;
  const auto snapshot =
      Build(TestOptions("a/b/shard.tar"), {{.key = "a/b/shard.tar", .size = 9}}, dir.Path("s"));
  ASSERT_NE(snapshot, nullptr);
  EXPECT_THAT(NamesIn(*snapshot, kRootDirectory), ElementsAre("shard.tar"));
  const auto row = snapshot->Resolve("shard.tar");
  ASSERT_TRUE(row);
  EXPECT_EQ(snapshot->KeyOf(*row), "a/b/shard.tar");
  EXPECT_EQ(snapshot->PathOf(*row), "shard.tar");
  EXPECT_EQ(snapshot->KeyOf(*snapshot->RowAt(0)), "a/b/");
}

TEST(SnapshotBuilder, RefusesKeysOfAnotherPrefix) {
  const TempDir dir;
  SnapshotBuilder directory(TestOptions("pre/"), dir.Path("s"));
  EXPECT_EQ(directory.Add({.key = "prefix2/x"}).error().code, Code::kInvalid);
  SnapshotBuilder object(TestOptions("pre"), dir.Path("s"));
  EXPECT_EQ(object.Add({.key = "prefix2"}).error().code, Code::kInvalid);
  EXPECT_EQ(object.Add({.key = "pre/x"}).error().code, Code::kInvalid);
  EXPECT_TRUE(object.Add({.key = "pre"}).has_value());
}

TEST(SnapshotBuilder, TheLastOfEqualKeysCounts) {
  const TempDir dir;
  const auto snapshot = Build(TestOptions(),
                              {{.key = "a", .size = 1},
                               {.key = "big", .size = 1},
                               {.key = "m/", .size = 8},
                               {.key = "a", .size = 2},
                               {.key = "m/", .size = 0},
                               {.key = "big", .size = 1ULL << 60},
                               {.key = "a//"},
                               {.key = "a//"}},
                              dir.Path("s"));
  ASSERT_NE(snapshot, nullptr);
  EXPECT_THAT(NamesIn(*snapshot, kRootDirectory), ElementsAre("a", "m"));
  EXPECT_EQ(snapshot->Resolve("a")->size, 2u);
  EXPECT_THAT(HiddenOf(*snapshot), ElementsAre(std::pair("a//", HiddenReason::kEmptyComponent),
                                               std::pair("big", HiddenReason::kOutOfRange)));
}

TEST(SnapshotBuilder, MakesTheSameFileWhateverTheOrder) {
  const TempDir dir;
  std::vector<TestObject> objects;
  for (int i = 0; i < 500; ++i) {
    objects.push_back({.key = "d" + std::to_string(i % 7) + "/" + std::to_string(i),
                       .etag = i % 3 == 0 ? "opaque" + std::to_string(i) : std::string(32, 'a')});
    if (i % 50 == 0) objects.push_back({.key = "x//" + std::to_string(i)});
  }
  FinishedSnapshot first;
  ASSERT_NE(Build(TestOptions(), objects, dir.Path("a"), &first), nullptr);
  std::mt19937_64 random(1);
  std::ranges::shuffle(objects, random);
  FinishedSnapshot second;
  ASSERT_NE(Build(TestOptions(), objects, dir.Path("b"), &second), nullptr);
  EXPECT_EQ(first.digest, second.digest);
}

TEST(SnapshotBuilder, LeavesNothingBehindWhenItFails) {
  const TempDir dir;
  SnapshotBuilder nowhere(TestOptions(), dir.Path("missing/s"));
  const auto failed = nowhere.Finish();
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.error().code, Code::kInternal);
  EXPECT_THAT(failed.error().message, HasSubstr("missing/s"));
  std::filesystem::create_directory(dir.Path("taken"));
  std::ofstream(dir.Path("taken/file")) << "x";
  SnapshotBuilder onto_directory(TestOptions(), dir.Path("taken"));
  EXPECT_EQ(onto_directory.Finish().error().code, Code::kInternal);
  EXPECT_FALSE(std::filesystem::exists(dir.Path("taken.tmp")));
}

TEST(SnapshotBuilder, OverwritesWhatACrashLeft) {
  const TempDir dir;
  std::ofstream(dir.Path("s.tmp")) << std::string(1 << 20, 'x');
  ASSERT_NE(Build(TestOptions(), {{.key = "a"}}, dir.Path("s")), nullptr);
  EXPECT_FALSE(std::filesystem::exists(dir.Path("s.tmp")));
}

TEST(Snapshot, ReadsALargeFlatDirectoryInOrderAndFromAnyPosition) {
  constexpr int kFiles = 300'000;
  const TempDir dir;
  SnapshotBuilder builder(TestOptions(), dir.Path("s"));
  for (int i = 0; i < kFiles; ++i) {
    const std::string key = std::to_string(1'000'000 + (i * 7'919LL) % kFiles) + ".bin";
    ASSERT_TRUE(builder.Add({.key = key, .size = static_cast<std::uint64_t>(i), .etag = "e"}));
  }
  ASSERT_TRUE(builder.Finish());
  const auto snapshot = *Snapshot::Open(dir.Path("s"));
  EXPECT_EQ(snapshot->totals().objects, static_cast<std::uint64_t>(kFiles));
  DirectoryCursor cursor = snapshot->ReadDirectory(kRootDirectory);
  for (int i = 0; i < kFiles; ++i) {
    ASSERT_TRUE(cursor.Next());
    ASSERT_EQ(cursor.name(), std::to_string(1'000'000 + i) + ".bin");
    ASSERT_EQ(cursor.position(), static_cast<std::uint64_t>(i) + 1);
    ASSERT_EQ(snapshot->Lookup(kRootDirectory, cursor.name()), cursor.row());
    ASSERT_EQ(snapshot->FindNodeid(cursor.row().nodeid), cursor.row());
  }
  EXPECT_FALSE(cursor.Next());
  for (const std::uint64_t position : {1ULL, 17ULL, 131'072ULL, 299'999ULL}) {
    DirectoryCursor resumed = snapshot->ReadDirectory(kRootDirectory, position);
    ASSERT_TRUE(resumed.Next());
    EXPECT_EQ(resumed.name(), std::to_string(1'000'000 + position) + ".bin");
  }
  EXPECT_FALSE(snapshot->ReadDirectory(kRootDirectory, kFiles).Next());
  EXPECT_FALSE(snapshot->ReadDirectory(kRootDirectory, ~0ULL).Next());
  EXPECT_FALSE(snapshot->Lookup(kRootDirectory, "1300000.bin"));
}

}  // namespace
}  // namespace forebay
