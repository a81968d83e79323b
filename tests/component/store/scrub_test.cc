#include <fstream>

#include "tests/component/store/store_fixture.h"

namespace forebay {
namespace {

/// Thirty blocks in segments of five.
class StoreScrubTest : public ::testing::Test {
 protected:
  static constexpr std::uint64_t kBlocks = 30;

  static BlockStoreOptions Options(const std::string& path) {
    return OneDirectory(path, 256ULL << 20, 1ULL << 20);
  }
  static BlockId Block(std::uint64_t i) { return BlockNumber(i, 200'000); }

  static void Fill(TestStore& store) {
    for (std::uint64_t i = 0; i < kBlocks; ++i)
      ASSERT_TRUE(store.Admit(LinkNumber(1), Block(i)).has_value());
  }

  static Scrubbed Step(TestStore& store) {
    const Result<Scrubbed> step = fakes::RunTask(store->Scrub(0, 300'000));
    EXPECT_TRUE(step.has_value());
    return step.value_or(Scrubbed{.pass_ended = true});
  }

  /// What is left of a pass.
  static Scrubbed Rest(TestStore& store) {
    Scrubbed sum;
    for (std::uint64_t steps = 0; !sum.pass_ended; ++steps) {
      const Scrubbed step = Step(store);
      EXPECT_LT(steps, kBlocks) << "each step reads a block";
      sum += step;
      sum.pass_ended = step.pass_ended || steps >= kBlocks;
    }
    return sum;
  }

  fakes::TempDir dir_;
};

TEST_F(StoreScrubTest, PassReadsEveryBlockOnceAndCountsItsBytes) {
  TestStore store(Options(dir_ / "cache"));
  Fill(store);
  for (std::uint64_t pass = 1; pass <= 2; ++pass) {
    const Scrubbed all = Rest(store);
    EXPECT_EQ(all.blocks, kBlocks);
    EXPECT_EQ(all.dropped, 0U);
    EXPECT_EQ(all.bytes, store->Disks()[0].used_bytes);
    EXPECT_EQ(store->Disks()[0].scrubbed_bytes, pass * all.bytes);
  }
  EXPECT_EQ(store->counters().checksum_failures.load(), 0U);
}

TEST_F(StoreScrubTest, DamageIsFoundWithoutAReaderDroppedAndCounted) {
  TestStore store(Options(dir_ / "cache"));
  Fill(store);
  const auto segments = SegmentsBelow(dir_ / "cache");
  ASSERT_GT(segments.size(), 2U);
  {
    std::fstream file(segments[1], std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(150'000);
    file.put('x').put('y');
  }
  const Scrubbed pass = Rest(store);
  EXPECT_EQ(pass.dropped, 1U);
  EXPECT_EQ(pass.blocks, kBlocks - 1);
  EXPECT_EQ(store->counters().checksum_failures.load(), 1U);
  EXPECT_EQ(store->BlockCount(), kBlocks - 1);
  EXPECT_EQ(Rest(store).dropped, 0U) << "found once";
}

TEST_F(StoreScrubTest, PassGoesOnAfterARestart) {
  std::uint64_t before = 0;
  {
    TestStore store(Options(dir_ / "cache"));
    Fill(store);
    while (before < kBlocks / 2) before += Step(store).blocks;
    ASSERT_TRUE(store->Close(Patience()).has_value());
  }
  TestStore store(Options(dir_ / "cache"));
  ASSERT_TRUE(store.open()) << store.error().message;
  const std::uint64_t after = Rest(store).blocks;
  EXPECT_GE(before + after, kBlocks) << "no block is left out";
  EXPECT_LE(before + after, kBlocks + 5) << "one segment is read again at most";
  EXPECT_EQ(Rest(store).blocks, kBlocks) << "and the next pass begins at the first";
}

TEST_F(StoreScrubTest, EmptyDiskEndsAPassAtOnce) {
  TestStore store(Options(dir_ / "cache"));
  const Scrubbed step = Step(store);
  EXPECT_TRUE(step.pass_ended);
  EXPECT_EQ(step.bytes, 0U);
}

}  // namespace
}  // namespace forebay
