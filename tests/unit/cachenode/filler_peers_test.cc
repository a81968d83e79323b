#include <future>
#include <string>
#include <vector>

#include "cachenode/filler.h"
#include "tests/unit/cachenode/reader_rig.h"

namespace forebay {
namespace {

class FillerPeersTest : public ReaderRig {
 protected:
  explicit FillerPeersTest(FillerOptions options = {}) : ReaderRig(options) {}

  CheckedRead Whole(int number) const {
    return ReadOf(TestObject("data/" + std::to_string(number), kBlock), 0, {0, kBlock});
  }
};

class LittleMemoryPeersTest : public FillerPeersTest {
 protected:
  LittleMemoryPeersTest()
      : FillerPeersTest(FillerOptions{.memory_limit = 8 * std::uint64_t{kBlock}}) {}
};

// The other node may wait for just this block, with all of its own memory.
TEST_F(LittleMemoryPeersTest, WhatWaitsForOtherNodesLeavesMemoryForWhatThisOneFetches) {
  peers_.OnGet([](const ColdBlock&) { return PeerFind{.found = true}; });
  peers_.Hold();
  std::vector<std::future<Result<Cells>>> waiting;
  constexpr int kWaiting = 8;
  waiting.reserve(kWaiting);
  for (int i = 0; i < kWaiting; ++i) waiting.push_back(Start(Whole(i)));
  Settle();
  EXPECT_EQ(filler_.memory_in_use(), 3u * kBlock) << "half of what is not for recent blocks";
  peers_.OnGet(nullptr);
  EXPECT_TRUE(AreRight(Read(Whole(kWaiting)), Whole(kWaiting)));
  peers_.LetGo();
  for (int i = 0; i < kWaiting; ++i)
    EXPECT_TRUE(AreRight(waiting[static_cast<std::size_t>(i)].get(), Whole(i)));
}

TEST_F(FillerPeersTest, ABlockOutOfAnotherNodesCacheIsAHitAndCostsNoGet) {
  peers_.OnGet([](const ColdBlock&) { return PeerFind{.found = true}; });
  const Result<Cells> cells = Read(Whole(0));
  ASSERT_TRUE(AreRight(cells, Whole(0)));
  EXPECT_EQ(cells->tier, Tier::kPeer);
  ASSERT_TRUE(Eventually([this] { return IsIdle(); }));
  EXPECT_TRUE(store_.Contains(Whole(0).request.block));
  EXPECT_EQ(s3_.gets(), 0u);
  EXPECT_EQ(count().hits, 1u);
  EXPECT_EQ(count().misses, 0u);
  EXPECT_EQ(count().peer_fills, 1u);
  EXPECT_EQ(count().peer_bytes, kBlock);
  EXPECT_EQ(count().read_bytes(), kBlock);
}

// Then its readers go to the owners behind it.
TEST_F(FillerPeersTest, OnlyARefusalOfS3SaysThatOthersFillInItsPlace) {
  peers_.OnGet([](const ColdBlock&) { return PeerFind(); });
  const auto read_with = [this](Code code) {
    s3_.OnGet([code](const GetRequest&) { return fakes::GetScript{.error = Error{code, "no"}}; });
    return Read(Whole(0)).error().code;
  };
  EXPECT_EQ(read_with(Code::kStale), Code::kStale);
  EXPECT_EQ(read_with(Code::kInvalid), Code::kInvalid);
  EXPECT_EQ(peers_.refusals(), 0u);
  for (int i = 0; i < 2; ++i) EXPECT_EQ(read_with(Code::kDenied), Code::kDenied);
  EXPECT_EQ(peers_.refusals(), 0u) << "it may be this object";
  EXPECT_EQ(read_with(Code::kDenied), Code::kDenied);
  EXPECT_EQ(peers_.refusals(), 1u);
  // Nor does another node, or a reader ahead, make it ask in vain: a reader that waits does.
  const std::uint64_t asked = s3_.gets();
  const CheckedRead next = Whole(1);
  const ColdBlock cold{next.link, next.request.object, next.request.block};
  EXPECT_EQ(reader_.Prefetch(cold, "job", Urgency::kReader), Prefetched::kRefused);
  EXPECT_EQ(s3_.gets(), asked);
  s3_.OnGet(nullptr);
  EXPECT_TRUE(AreRight(Read(Whole(0)), Whole(0)));
  ASSERT_TRUE(Eventually([this] { return IsIdle(); })) << "the reader has its cells before";
  EXPECT_EQ(reader_.Prefetch(cold, "job", Urgency::kReader), Prefetched::kBegun);
}

TEST_F(FillerPeersTest, WhatAnEarlierOwnerKeepsIsOnlyRemembered) {
  peers_.OnGet([](const ColdBlock&) { return PeerFind{.found = true, .keep = false}; });
  ASSERT_TRUE(AreRight(Read(Whole(0)), Whole(0)));
  ASSERT_TRUE(Eventually([this] { return IsIdle(); }));
  EXPECT_FALSE(store_.Contains(Whole(0).request.block));
  ASSERT_TRUE(AreRight(Read(Whole(0)), Whole(0)));
  EXPECT_EQ(peers_.gets(), 1u);
  EXPECT_EQ(s3_.gets(), 0u);
}

TEST_F(FillerPeersTest, AGetThatAnotherNodeBeganForUsIsAMiss) {
  peers_.OnGet([](const ColdBlock&) { return PeerFind{.found = true, .keep = false}; });
  peers_.FindByGets();
  ASSERT_TRUE(AreRight(Read(Whole(0)), Whole(0)));
  ASSERT_TRUE(Eventually([this] { return IsIdle(); }));
  EXPECT_EQ(count().misses, 1u);
  EXPECT_EQ(count().peer_fills, 1u);
  EXPECT_EQ(s3_.gets(), 0u);
}

TEST_F(FillerPeersTest, WhatNobodyHasIsFetchedFromS3) {
  peers_.OnGet([](const ColdBlock&) { return PeerFind{}; });
  const Result<Cells> cells = Read(Whole(0));
  ASSERT_TRUE(AreRight(cells, Whole(0)));
  EXPECT_EQ(cells->tier, Tier::kS3);
  EXPECT_EQ(peers_.gets(), 1u);
  EXPECT_EQ(s3_.gets(), 1u);
  EXPECT_EQ(count().misses, 1u);
  EXPECT_EQ(count().peer_fills, 0u);
}

TEST_F(FillerPeersTest, AnEarlierOwnersVerdictOnS3IsNotAskedForAgain) {
  for (const Code code : {Code::kTimeout, Code::kStale}) {
    peers_.OnGet([code](const ColdBlock&) -> Result<PeerFind> { return Fail(code, "S3 said no"); });
    const Result<Cells> cells = Read(Whole(static_cast<int>(code)));
    ASSERT_FALSE(cells.has_value());
    EXPECT_EQ(cells.error().code, code);
  }
  EXPECT_EQ(s3_.gets(), 0u);
  EXPECT_EQ(count().misses, 2u);
}

TEST_F(FillerPeersTest, OthersAreToldWhetherTheReaderPassedThemOver) {
  for (const bool passed_over : {false, true}) {
    peers_.OnGet([passed_over](const ColdBlock& cold) {
      EXPECT_EQ(cold.passed_over, passed_over);
      return PeerFind{.found = true};
    });
    CheckedRead read = Whole(passed_over ? 1 : 0);
    read.request.passed_over = passed_over;
    ASSERT_TRUE(AreRight(Read(read), read));
  }
}

// Two nodes that look for the same block would wait for each other.
TEST_F(FillerPeersTest, NobodyWaitsForAFillThatIsStillLookingElsewhere) {
  const CheckedRead read = Whole(0);
  peers_.OnGet([&](const ColdBlock& cold) {
    EXPECT_FALSE(filler_.Running(link_->id, cold.block)->asks_s3());
    return PeerFind{};
  });
  s3_.OnGet([](const GetRequest&) { return fakes::GetScript{.hold_after = 0}; });
  std::future<Result<Cells>> reader = Start(read);
  ASSERT_TRUE(s3_.WaitForHeld(1));
  EXPECT_TRUE(filler_.Running(link_->id, read.request.block)->asks_s3());
  s3_.Release();
  EXPECT_TRUE(AreRight(reader.get(), read));
}

// Another node asks S3 for it, as it was told to. If that one dies, this one looks elsewhere, and
// whoever waits for it may be who it looks at.
TEST_F(FillerPeersTest, NobodyWaitsForAFillThatWaitsForAnothersGet) {
  std::shared_ptr<Fill> fill;
  peers_.OnGet([&](const ColdBlock& cold) {
    fill = filler_.Running(link_->id, cold.block);
    fill->MarkGet();
    EXPECT_FALSE(fill->asks_s3());
    return PeerFind{.found = true};
  });
  const Result<Cells> cells = Read(Whole(0));
  ASSERT_TRUE(AreRight(cells, Whole(0)));
  EXPECT_EQ(cells->tier, Tier::kS3) << "it did cost a GET";
  EXPECT_FALSE(fill->asks_s3());
  ASSERT_TRUE(Eventually([this] { return IsIdle(); }));
  EXPECT_EQ(count().misses, 1u);
}

}  // namespace
}  // namespace forebay
