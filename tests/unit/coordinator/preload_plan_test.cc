#include "coordinator/preload_plan.h"

#include <gtest/gtest.h>

#include <fstream>
#include <set>

#include "common/model/limits.h"
#include "common/model/record_size.h"
#include "common/snapshot/snapshot_builder.h"
#include "tests/unit/coordinator/testing.h"

namespace forebay {
namespace {

class PreloadPlanTest : public testing::Test {
 protected:
  std::string List(const std::string& name, const std::string& text) {
    std::ofstream(dir.Path(name), std::ios::binary) << text;
    return dir.Path(name);
  }
  Result<PreloadPlan> Make(const std::string& target, const NameFiles& files = {}) {
    return MakePreloadPlan(snapshot, *snapshot->Resolve(target), files);
  }
  /// Paths of the pieces, in order.
  std::vector<std::string> Walk(const Result<PreloadPlan>& plan, std::size_t step = 100,
                                std::uint64_t skip = 0) {
    EXPECT_TRUE(plan.has_value()) << plan.error().message;
    PreloadWalk walk(std::make_shared<const PreloadPlan>(*plan));
    EXPECT_TRUE(walk.Skip(skip).has_value());
    std::vector<std::string> paths;
    for (;;) {
      const auto pieces = walk.Next(step);
      EXPECT_TRUE(pieces.has_value());
      if (pieces->empty()) return paths;
      EXPECT_LE(pieces->size(), step);
      for (const PreloadPiece& piece : *pieces) {
        std::string path = snapshot->PathOf(*snapshot->RowAt(piece.row));
        if (piece.block.offset > 0) path += "@" + std::to_string(piece.block.offset >> 20);
        if (piece.ends_object) path += ".";
        paths.push_back(std::move(path));
      }
    }
  }

  const TempDir dir;
  const LinkSpec link = TestLink("a", "bucket", "p/");
  const std::shared_ptr<const Snapshot> snapshot =
      TestSnapshot(dir, link,
                   {{"p/big", kDefaultBlockBytes * 5 / 2},
                    {"p/d/e/one", kDefaultBlockBytes},
                    {"p/d/empty", 0},
                    {"p/d/small", 10},
                    {"p/z", 1}});
};

TEST_F(PreloadPlanTest, NeedsWhatItsBlocksTakeOnDiskAndAreNotCached) {
  const Result<PreloadPlan> plan = Make("d");
  ASSERT_TRUE(plan.has_value());
  // docs/STORE_FORMAT.md: 4 MiB and 4 KiB, and 4 KiB; an empty object costs nothing.
  const std::uint64_t all = kDefaultBlockBytes + 4096 + 4096 + 2 * kIndexBytesPerBlock;
  EXPECT_EQ(plan->disk_bytes, all);
  const PreloadRoom room{.disk_bytes = all - 1};
  PreloadNeed need = NeedOf(*plan, {}, 0, room);
  EXPECT_EQ(need.needed_bytes, all);
  EXPECT_FALSE(need.fits());
  CacheTally cached;
  cached.cached_bytes = 10;
  cached.cached_disk_bytes = 4096 + kIndexBytesPerBlock;
  need = NeedOf(*plan, cached, 0, room);
  EXPECT_EQ(need.needed_bytes, all - cached.cached_disk_bytes);
  EXPECT_TRUE(need.fits());
  EXPECT_TRUE(NeedOf(*plan, {}, 0.5, room).fits()) << "--until 50%";
}

TEST_F(PreloadPlanTest, WhatIsArchivedIsTriedWhenAskedForAndElseLeftOut) {
  SnapshotOptions options;
  options.id = SnapshotId{.link = link.id, .generation = 2};
  options.domain = link.domain;
  options.endpoint = link.origin.endpoint;
  options.bucket = link.origin.bucket;
  options.prefix = link.origin.prefix;
  options.block_bytes = link.block_bytes;
  SnapshotBuilder builder(options, dir.Path("archive"));
  for (const char* key : {"p/a", "p/cold", "p/z"}) {
    ASSERT_TRUE(builder.Add({.key = key,
                             .size = 10,
                             .etag = "d41d8cd98f00b204e9800998ecf8427e",
                             .archived = std::string_view(key) == "p/cold"}));
  }
  ASSERT_TRUE(builder.Finish());
  const auto archive = Snapshot::Open(dir.Path("archive")).value();
  const SnapshotRow root = *archive->Resolve("");
  const auto tried = MakePreloadPlan(archive, root, {});
  ASSERT_TRUE(tried.has_value());
  EXPECT_EQ(tried->objects, 3U);
  const auto filled = MakePreloadPlan(archive, root, {}, ArchivedObjects::kLeaveOut);
  ASSERT_TRUE(filled.has_value());
  EXPECT_EQ(filled->objects, 2U);
  EXPECT_EQ(filled->bytes, 20U);
  EXPECT_EQ(filled->blocks, 2U);
  PreloadWalk walk(std::make_shared<const PreloadPlan>(*filled));
  const auto pieces = walk.Next(100);
  ASSERT_TRUE(pieces.has_value());
  ASSERT_EQ(pieces->size(), 2U);
  EXPECT_EQ(archive->PathOf(*archive->RowAt(pieces->front().row)), "a");
  EXPECT_EQ(archive->PathOf(*archive->RowAt(pieces->back().row)), "z");
}

TEST_F(PreloadPlanTest, AQuotaBoundsTheNeedWhereItLeavesLessThanTheDisks) {
  const Result<PreloadPlan> plan = Make("d");
  ASSERT_TRUE(plan.has_value());
  PreloadRoom room{.disk_bytes = 1ULL << 30, .quota_bytes = 1000, .link_bytes = 400};
  const PreloadNeed need = NeedOf(*plan, {}, 0, room);
  EXPECT_TRUE(need.quota_bound);
  EXPECT_EQ(need.needed_bytes, kDefaultBlockBytes + 10);
  EXPECT_EQ(need.room_bytes, 600u);
  room.quota_bytes = 1ULL << 40;
  EXPECT_TRUE(NeedOf(*plan, {}, 0, room).fits());
}

TEST_F(PreloadPlanTest, TakesEachObjectBelowTheTargetOnce) {
  const Result<PreloadPlan> all = Make("");
  EXPECT_EQ(all->objects, 5u);
  EXPECT_EQ(all->bytes, kDefaultBlockBytes * 7 / 2 + 11);
  EXPECT_EQ(all->blocks, 6u);
  const std::vector<std::string> pieces = Walk(all);
  EXPECT_EQ(pieces.size(), 7u) << "the empty object is a piece, too";
  EXPECT_EQ(
      std::set(pieces.begin(), pieces.end()),
      (std::set<std::string>{"big", "big@4", "big@8.", "d/e/one.", "d/empty.", "d/small.", "z."}));
  EXPECT_EQ(Make("d")->objects, 3u);
  EXPECT_EQ(Walk(Make("z")), std::vector<std::string>{"z."});
}

TEST_F(PreloadPlanTest, AnyStepAndAnySkipGiveTheSameWalk) {
  const Result<PreloadPlan> plan = Make("");
  const std::vector<std::string> whole = Walk(plan);
  for (const std::size_t step : {1u, 2u, 3u}) EXPECT_EQ(Walk(plan, step), whole);
  for (std::size_t skip = 0; skip <= whole.size() + 1; ++skip) {
    const auto rest = whole.begin() + static_cast<std::ptrdiff_t>(std::min(skip, whole.size()));
    EXPECT_EQ(Walk(plan, 2, skip), std::vector<std::string>(rest, whole.end())) << skip;
  }
}

TEST_F(PreloadPlanTest, AListLimitsWhatIsTakenAndSaysInWhichOrder) {
  const Result<PreloadPlan> plan =
      Make("", {.names = List("l", "z\n./d/small\n\nd\nz\n"), .order = ""});
  EXPECT_EQ(plan->objects, 4u);
  const std::vector<std::string> pieces = Walk(plan);
  ASSERT_EQ(pieces.size(), 4u) << "each once, though it is named twice";
  EXPECT_EQ(pieces[0], "z.");
  EXPECT_EQ(pieces[1], "d/small.");
  EXPECT_EQ(Walk(Make("d", {.names = List("l", "small"), .order = ""})),
            std::vector<std::string>{"d/small."});
}

TEST_F(PreloadPlanTest, AnOrderPutsSomeFirstAndKeepsTheRest) {
  const Result<PreloadPlan> plan = Make("", {.names = "", .order = List("o", "z\nd/e\n")});
  EXPECT_EQ(plan->objects, 5u);
  const std::vector<std::string> pieces = Walk(plan);
  ASSERT_EQ(pieces.size(), 7u);
  EXPECT_EQ(pieces[0], "z.");
  EXPECT_EQ(pieces[1], "d/e/one.");
  for (std::size_t skip = 0; skip < 7; ++skip) EXPECT_EQ(Walk(plan, 3, skip).size(), 7 - skip);
}

TEST_F(PreloadPlanTest, AnOrderOfAListTakesNoMoreThanTheList) {
  const NameFiles files{.names = List("l", "big\nz\n"), .order = List("o", "z\nd/small\n")};
  EXPECT_EQ(Walk(Make("", files)), (std::vector<std::string>{"z.", "big", "big@4", "big@8."}));
}

TEST_F(PreloadPlanTest, UnknownNamesAreCountedAndTheFirstAreNamed) {
  const NameFiles files{.names = List("l", "z\nno\nd/../z\nd/nope\nnever\n"), .order = ""};
  const Result<PreloadPlan> plan = Make("", files);
  ASSERT_FALSE(plan.has_value());
  EXPECT_EQ(plan.error().code, Code::kNotFound);
  EXPECT_EQ(plan.error().message,
            "4 of the 5 names in the list are not in the link: 'no', 'd/../z', 'd/nope', …; "
            "nothing was started");
  EXPECT_EQ(Make("d", {.names = List("l", "z\n"), .order = ""}).error().message,
            "1 of the 1 names in the list are not in 'd': 'z'; nothing was started");
}

TEST_F(PreloadPlanTest, AFileHasNothingBelowIt) {
  const Result<PreloadPlan> plan = Make("z", {.names = List("l", "z\n"), .order = ""});
  ASSERT_FALSE(plan.has_value());
  EXPECT_EQ(plan.error().code, Code::kInvalid);
}

}  // namespace
}  // namespace forebay
