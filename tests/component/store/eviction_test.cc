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
  EvictionTest() {
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

}  // namespace
}  // namespace forebay
