#include <cstdint>
#include <vector>

#include "tests/component/store/store_fixture.h"
#include "tests/eviction/caches.h"
#include "tests/eviction/workload.h"

// The real store under jobs that read twice as much as it holds.

namespace forebay {
namespace {

using testing::BlockRead;
using testing::CleanWorkload;
using testing::MakeTrace;
using testing::Outcome;
using testing::Trace;
using testing::Workload;

constexpr std::uint32_t kLength = 4096;

class EvictionTest : public ::testing::Test {
 protected:
  EvictionTest() { Open(); }

  void Open() {
    store_.reset();
    BlockStoreOptions options;
    options.dirs = {{.path = dir_.path() + "/disk", .capacity_bytes = 12ULL << 20}};
    options.segment_bytes = 1ULL << 20;
    store_ = std::make_unique<TestStore>(options);
  }

  BlockId BlockOf(std::uint32_t number) const { return BlockNumber(number, kLength); }

  /// Admits blocks that nobody reads until there is no room; answers how many there are.
  std::uint32_t Fill() {
    std::uint32_t number = 0;
    while (store_->Admit(link_, BlockOf(number))) ++number;
    return number;
  }

  Outcome Run(const Workload& workload) {
    const Trace trace = MakeTrace(workload);
    Outcome outcome;
    for (std::size_t i = 0; i < trace.reads.size(); ++i) {
      const BlockRead& read = trace.reads[i];
      const BlockId block = BlockOf(read.block);
      (*store_)->NoteRead(link_, block, std::to_string(read.job));
      const bool hit = store_->Serves(block);
      const bool admitted = !hit && store_->Admit(link_, block).has_value();
      if (i < trace.measured_from) continue;
      ++outcome.reads;
      outcome.hits += hit ? 1 : 0;
      outcome.admitted += admitted ? 1 : 0;
    }
    return outcome;
  }

  fakes::TempDir dir_;
  const Uuid link_ = LinkNumber(1);
  std::unique_ptr<TestStore> store_;
};

TEST_F(EvictionTest, FullStoreKeepsWhatItHasUntilAJobReads) {
  const std::uint32_t places = Fill();
  EXPECT_GT(places, 500u);
  EXPECT_EQ((*store_)->counters().evicted_blocks, 0u);
  EXPECT_EQ((*store_)->BlockCount(), places);
}

TEST_F(EvictionTest, OneJobHitsAsOftenAsTheStoreIsLarge) {
  const std::uint32_t places = Fill();
  Workload workload = CleanWorkload(1, places * 2);
  workload.epochs = 6;
  const Outcome outcome = Run(workload);
  EXPECT_GE(outcome.hit_rate(), 0.99 * 0.5);
  EXPECT_LE(outcome.rewrites(), 0.5);
}

TEST_F(EvictionTest, TwoJobsHitMoreThanTheStoreIsLarge) {
  const std::uint32_t places = Fill();
  Workload workload = CleanWorkload(2, places * 2);
  workload.epochs = 8;
  const Outcome outcome = Run(workload);
  EXPECT_GE(outcome.hit_rate(), 0.58);
  EXPECT_GT((*store_)->counters().evicted_blocks, 0u);
}

TEST_F(EvictionTest, AfterARestartTwoJobsHitAtOnceAsOftenAsTheStoreIsLargeAndSoonMore) {
  const std::uint32_t places = Fill();
  Workload workload = CleanWorkload(2, places * 2);
  workload.epochs = 8;
  Run(workload);
  ASSERT_TRUE((*store_)->Close(Patience()));
  const std::uint64_t kept = (*store_)->BlockCount();  // what made room in the background has ended
  Open();
  EXPECT_EQ((*store_)->BlockCount(), kept);
  // What was learned is forgotten: until it is learned anew nothing is replaced that is wanted.
  Workload first = workload;
  first.epochs = 1;
  first.measured_from = 0;
  EXPECT_GE(Run(first).hit_rate(), 0.97 * static_cast<double>(kept) / (places * 2));
  EXPECT_GE(Run(workload).hit_rate(), 0.58);
}

TEST_F(EvictionTest, LinkAtItsQuotaIsACacheOfThatSize) {
  const Uuid other = LinkNumber(2);
  constexpr std::uint32_t kPlaces = 400;
  (*store_)->SetRules({{.link = link_, .max_bytes = std::uint64_t{kPlaces} * kLength}});
  // Of another link, which a job reads as well.
  std::vector<BlockId> others;
  others.reserve(kPlaces);
  for (std::uint32_t i = 0; i < kPlaces; ++i) others.push_back(BlockOf(1'000'000 + i));
  for (const BlockId& block : others) {
    (*store_)->NoteRead(other, block, "other");
    ASSERT_TRUE(store_->Admit(other, block));
  }
  Workload workload = CleanWorkload(2, kPlaces * 2);
  workload.epochs = 8;
  const Outcome outcome = Run(workload);
  EXPECT_GE(outcome.hit_rate(), 0.58);
  EXPECT_EQ((*store_)->UsageByLink()[link_].blocks, kPlaces);
  EXPECT_EQ((*store_)->UsageByLink()[other].blocks, kPlaces);
  EXPECT_EQ((*store_)->counters().evicted_blocks, 0u) << "that is to make room on the disk";
  EXPECT_GT((*store_)->counters().trimmed_bytes, 0u);
}

TEST_F(EvictionTest, OneJobAtAQuotaHitsAsOftenAsTheQuotaIsLargeAndGoesOnToOtherData) {
  constexpr std::uint32_t kPlaces = 400;
  (*store_)->SetRules({{.link = link_, .max_bytes = std::uint64_t{kPlaces} * kLength}});
  Workload workload = CleanWorkload(1, kPlaces * 2);
  workload.switches = Workload::Switch::kFolder;
  workload.measured_from = 7.0 / 12;
  EXPECT_GE(Run(workload).hit_rate(), 0.99 * 0.5);
}

TEST_F(EvictionTest, PinnedBlocksNeverGoForOthersOfTheirLink) {
  constexpr std::uint32_t kPlaces = 400;
  constexpr std::uint32_t kPinned = 100;
  (*store_)->SetRules(
      {{.link = link_, .max_bytes = std::uint64_t{kPlaces} * kLength, .pins = {"p/"}}});
  for (std::uint32_t i = 0; i < kPinned; ++i) ASSERT_TRUE(store_->Admit(link_, BlockOf(i), "p/f"));
  Workload workload = CleanWorkload(2, kPlaces * 2);
  workload.epochs = 6;
  EXPECT_GE(Run(workload).hit_rate(), 0.5);
  EXPECT_GT((*store_)->counters().trimmed_bytes, 0u);
  for (std::uint32_t i = 0; i < kPinned; ++i) EXPECT_TRUE((*store_)->Contains(BlockOf(i))) << i;
}

}  // namespace
}  // namespace forebay
