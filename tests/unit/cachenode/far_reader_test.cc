// A reader far behind the front of a cold block of a large object: its bytes first, the block
// behind them.

#include <future>
#include <string>
#include <utility>
#include <vector>

#include "cachenode/block_reader.h"
#include "tests/unit/cachenode/reader_rig.h"

namespace forebay {
namespace {

using fakes::GetScript;
using Ranges = std::vector<fakes::ScriptedObjectStore::Range>;

constexpr std::uint32_t kBig = 4U << 20;
constexpr std::uint32_t kFar = 3U << 20;  // where the far reader's cells begin
constexpr auto kCell = static_cast<std::uint32_t>(kCellBytes);

class FarReaderTest : public ReaderRig {
 protected:
  FarReaderTest() : ReaderRig({}, 2, kBig) {}

  /// Of the object's second block of three.
  CheckedRead At(std::uint32_t begin, std::uint32_t size = 1000) const {
    return ReadOf(object_, kBig, {begin, begin + size});
  }
  CheckedRead Far() const { return At(kFar + 5000); }
  CheckedRead Front() const { return At(0); }
  CheckedRead Whole() const { return At(0, kBig); }

  /// The GET of the block's front waits, before its first byte, for Release().
  void HoldFront(std::optional<Error> error = {}) {
    s3_.OnGet([error](const GetRequest& get) {
      const bool is_front = get.offset == kBig;
      return is_front ? GetScript{.hold_after = 0, .error = error} : GetScript{};
    });
  }
  bool BecomesIdle() {
    return Eventually([this] { return IsIdle(); });
  }
  std::uint64_t Requests() {
    std::uint64_t all = 0;
    for (const S3Brakes::Use& use : filler_.brakes().Uses()) all += use.requests;
    return all;
  }

  const ObjectRef object_ = TestObject("data/shard", 3ULL * kBig);
  const Ranges two_gets_ = {{kBig + kFar, kBig - kFar}, {kBig, kFar}};
};

// S3 is lost between the two GETs: another node brings the whole block.
TEST_F(FarReaderTest, WhatAnotherNodeBringsInPlaceOfTheSecondGetIsTheWholeBlock) {
  s3_.OnGet([](const GetRequest& get) {
    return GetScript{.unanswered = get.offset == kBig ? 1'000'000u : 0u};
  });
  peers_.OnStandIn([](const ColdBlock&) { return PeerFind{.found = true}; });
  EXPECT_TRUE(AreRight(Read(Far()), Far()));
  EXPECT_TRUE(AreRight(Read(Front()), Front()));
  ASSERT_TRUE(BecomesIdle());
  EXPECT_EQ(s3_.ranges(), two_gets_);
  EXPECT_EQ(peers_.stand_in_gets(), 1u);
  EXPECT_TRUE(AreRight(Read(Whole()), Whole()));
  EXPECT_EQ(Read(Whole())->tier, Tier::kLocal);
}

TEST_F(FarReaderTest, IsAnsweredBeforeAnythingElseOfTheBlockHasCome) {
  s3_.OnGet([](const GetRequest&) { return GetScript{.hold_after = kCell}; });
  EXPECT_TRUE(AreRight(Read(Far()), Far()));
  EXPECT_EQ(s3_.sent_bytes(), kCell) << "from the front it would have taken 3 MiB and a cell";
  EXPECT_FALSE(IsIdle()) << "the fill goes on behind the answer";
  s3_.Release();
  ASSERT_TRUE(BecomesIdle());
  EXPECT_EQ(s3_.ranges(), two_gets_);
  EXPECT_EQ(s3_.sent_bytes(), kBig) << "each byte once";
  EXPECT_TRUE(AreRight(Read(Whole()), Whole()));
  EXPECT_EQ(Read(Whole())->tier, Tier::kLocal);
  EXPECT_EQ(store_.admissions(), 1u);
  EXPECT_EQ(filler_.second_gets(), 1u);
  EXPECT_EQ(count().misses, 1u);
  EXPECT_EQ(count().s3_gets, 2u);
  EXPECT_EQ(count().s3_bytes, kBig);
}

TEST_F(FarReaderTest, AReaderFromFrontToBackCostsOneGetABlock) {
  for (std::uint64_t offset = 0; offset < object_.size; offset += kBig) {
    for (std::uint32_t begin = 0; begin < kBig; begin += 128 * 1024) {
      const CheckedRead read = ReadOf(object_, offset, {begin, begin + 128 * 1024});
      EXPECT_TRUE(AreRight(Read(read), read));
    }
  }
  EXPECT_EQ(s3_.ranges(), (Ranges{{0, kBig}, {kBig, kBig}, {2ULL * kBig, kBig}}));
  ASSERT_TRUE(BecomesIdle());
  EXPECT_EQ(filler_.second_gets(), 0u);
}

TEST_F(FarReaderTest, AWindowOfReadAheadInAnyOrderCostsOneGet) {
  constexpr std::uint32_t kRead = 1U << 20;
  s3_.OnGet([](const GetRequest&) { return GetScript{.hold_after = 0}; });
  std::vector<std::pair<CheckedRead, std::future<Result<Cells>>>> reads;
  for (const std::uint32_t n : {3U, 2U, 0U, 1U}) {
    const CheckedRead read = At(n * kRead, kRead);
    std::future<Result<Cells>> answer = Start(read);
    reads.emplace_back(read, std::move(answer));
    ASSERT_TRUE(s3_.WaitForHeld(1)) << "the fill is under way";
  }
  s3_.Release();
  for (auto& [read, answer] : reads) EXPECT_TRUE(AreRight(answer.get(), read));
  EXPECT_EQ(s3_.ranges(), (Ranges{{kBig, kBig}}));
}

TEST_F(FarReaderTest, OthersJoinEitherGet) {
  HoldFront();
  std::future<Result<Cells>> far = Start(Far());
  ASSERT_TRUE(s3_.WaitForHeld(1));
  EXPECT_TRUE(AreRight(far.get(), Far()));
  EXPECT_TRUE(AreRight(Read(At(kBig - 1000)), At(kBig - 1000))) << "the first GET brought it";
  std::future<Result<Cells>> front = Start(Front());
  std::future<Result<Cells>> across = Start(At(kFar - 10, 20));
  CheckedRead peers = Front();
  peers.request.peer_only = true;
  std::future<Result<Cells>> peer = Start(peers);
  Settle();
  s3_.Release();
  EXPECT_TRUE(AreRight(front.get(), Front()));
  EXPECT_TRUE(AreRight(across.get(), At(kFar - 10, 20)));
  EXPECT_TRUE(AreRight(peer.get(), peers));
  EXPECT_EQ(s3_.ranges(), two_gets_);
  EXPECT_EQ(count().misses, 1u);
}

TEST_F(FarReaderTest, WhoComesBeforeTheFirstGetAndWantsTheFrontMakesItOne) {
  filler_.brakes().budget().Set(FillLimits{.paused_since_unix_s = 1});
  std::future<Result<Cells>> far = Start(Far());
  std::future<Result<Cells>> front = Start(Front());
  Settle();
  filler_.brakes().budget().Set(FillLimits());
  EXPECT_TRUE(AreRight(far.get(), Far()));
  EXPECT_TRUE(AreRight(front.get(), Front()));
  EXPECT_EQ(s3_.ranges(), (Ranges{{kBig, kBig}}));
}

TEST_F(FarReaderTest, AFillAheadOfTheReaderIsFromTheFront) {
  s3_.OnGet([](const GetRequest&) { return GetScript{.hold_after = 0}; });
  ColdBlock ahead = ColdOf(Whole());
  ahead.wanted = Whole().request.range;
  EXPECT_EQ(reader_.Prefetch(ahead, "job"), Prefetched::kBegun);
  std::future<Result<Cells>> far = Start(Far());
  ASSERT_TRUE(s3_.WaitForHeld(1));
  s3_.Release();
  EXPECT_TRUE(AreRight(far.get(), Far()));
  EXPECT_EQ(s3_.ranges(), (Ranges{{kBig, kBig}}));
}

TEST_F(FarReaderTest, AnObjectOfOneBlockIsOneGet) {
  const CheckedRead read = ReadOf(TestObject("data/one", kBig), 0, {kFar, kFar + 10});
  EXPECT_TRUE(AreRight(Read(read), read));
  ASSERT_TRUE(BecomesIdle());
  EXPECT_EQ(s3_.ranges(), (Ranges{{0, kBig}}));
}

TEST_F(FarReaderTest, AFailureOfTheFirstGetIsTheFillsAndNoSecondOneIsAsked) {
  s3_.OnGet([](const GetRequest&) {
    return GetScript{.hold_after = 0, .error = Error{Code::kDenied, "S3 said no"}};
  });
  std::future<Result<Cells>> far = Start(Far());
  ASSERT_TRUE(s3_.WaitForHeld(1));
  std::future<Result<Cells>> front = Start(Front());
  Settle();
  s3_.Release();
  EXPECT_EQ(far.get().error().code, Code::kDenied);
  EXPECT_EQ(front.get().error().code, Code::kDenied);
  EXPECT_EQ(s3_.gets(), 1u);
  EXPECT_FALSE(store_.Contains(Far().request.block));
}

TEST_F(FarReaderTest, AFailureOfTheSecondGetKeepsNothingAndTheNextReadBeginsAnew) {
  HoldFront(Error{Code::kUnavailable, "S3 is on fire"});
  EXPECT_TRUE(AreRight(Read(Far()), Far()));
  ASSERT_TRUE(s3_.WaitForHeld(1));
  std::future<Result<Cells>> front = Start(Front());
  Settle();
  s3_.Release();
  EXPECT_EQ(front.get().error().code, Code::kTimeout) << "no other node shall ask S3 as well";
  ASSERT_TRUE(BecomesIdle());
  EXPECT_FALSE(store_.Contains(Far().request.block));
  EXPECT_EQ(filler_.second_gets(), 0u);
  EXPECT_EQ(count().s3_gets, 1u);
  EXPECT_EQ(count().s3_errors, 1u);
  s3_.OnGet([](const GetRequest&) { return GetScript{}; });
  EXPECT_TRUE(AreRight(Read(Front()), Front()));
  ASSERT_TRUE(BecomesIdle());
  EXPECT_TRUE(store_.Contains(Far().request.block));
  EXPECT_EQ(s3_.gets(), 3u);
}

TEST_F(FarReaderTest, AnObjectThatChangesBetweenTheGetsIsStaleAndNeverMixed) {
  HoldFront(Error{Code::kStale, "412"});
  EXPECT_TRUE(AreRight(Read(Far()), Far())) << "of the version that it asked for";
  ASSERT_TRUE(s3_.WaitForHeld(1));
  std::future<Result<Cells>> front = Start(Front());
  Settle();
  s3_.Release();
  EXPECT_EQ(front.get().error().code, Code::kStale);
  ASSERT_TRUE(BecomesIdle());
  EXPECT_FALSE(store_.Contains(Far().request.block));
  EXPECT_FALSE(filler_.recent().Contains(Far().request.block));
  const std::optional<GetRequest> second = s3_.last();
  ASSERT_TRUE(second.has_value());
  EXPECT_EQ(second->etag, object_.etag) << "which is the If-Match of both";
}

TEST_F(FarReaderTest, BothGetsAreRetriedAndCountedAsTheyAre) {
  // So much that nothing waits for it.
  filler_.brakes().budget().Set(FillLimits{.bytes_per_s = 1e15});
  s3_.OnGet([](const GetRequest&) { return GetScript{.broken_attempt = 2 * kCell + 100}; });
  EXPECT_TRUE(AreRight(Read(Whole()), Whole()));
  ASSERT_TRUE(BecomesIdle());
  EXPECT_EQ(Requests(), 2u) << "one GET from the front, and its retry";
  const ObjectRef other = TestObject("data/other", 3ULL * kBig);
  std::future<Result<Cells>> far = Start(ReadOf(other, 0, {kFar, kFar + 10}));
  const CheckedRead whole = ReadOf(other, 0, {0, kBig});
  far.wait();
  ASSERT_TRUE(BecomesIdle());
  EXPECT_TRUE(AreRight(Read(whole), whole));
  EXPECT_EQ(Read(whole)->tier, Tier::kLocal);
  EXPECT_EQ(Requests(), 2u + 4u);
  EXPECT_EQ(count().s3_retries, 3u);
  EXPECT_DOUBLE_EQ(filler_.brakes().budget().UseRatio(Clock::now()), 4.0 * kBig / 5e15)
      << "each block and what of it was asked for again";
}

TEST_F(FarReaderTest, WhileRequestsAreHeldBackABlockGetsOne) {
  // After the first the next comes in 17 minutes.
  filler_.brakes().budget().Set(FillLimits{.requests_per_s = 0.001});
  EXPECT_TRUE(AreRight(Read(Far()), Far()));
  ASSERT_TRUE(BecomesIdle());
  EXPECT_EQ(s3_.ranges(), (Ranges{{kBig, kBig}}));
}

TEST_F(FarReaderTest, AFullStoreCostsNoThirdGet) {
  store_.RefuseAdmissions(Error{Code::kOverloaded, "no space that may be freed"});
  EXPECT_TRUE(AreRight(Read(Far()), Far()));
  ASSERT_TRUE(BecomesIdle());
  EXPECT_TRUE(AreRight(Read(Whole()), Whole()));
  EXPECT_EQ(s3_.ranges(), two_gets_);
}

TEST_F(FarReaderTest, ManyReadersAtRandomPlacesCostAtMostTwoGetsABlockAndNoByteTwice) {
  std::vector<std::pair<CheckedRead, std::future<Result<Cells>>>> reads;
  for (std::uint64_t i = 0; i < 300; ++i) {
    const std::uint64_t place = i * 7'368'787 % (object_.size - 150'000);
    const auto inside = static_cast<std::uint32_t>(place % kBig);
    const CheckedRead read = ReadOf(object_, place, {inside, std::min(inside + 150'000, kBig)});
    std::future<Result<Cells>> answer = Start(read);
    reads.emplace_back(read, std::move(answer));
  }
  for (auto& [read, answer] : reads) EXPECT_TRUE(AreRight(answer.get(), read));
  ASSERT_TRUE(BecomesIdle());
  EXPECT_EQ(s3_.gets(), 3 + filler_.second_gets());
  EXPECT_LE(filler_.second_gets(), 3u);
  EXPECT_EQ(s3_.sent_bytes(), object_.size);
  EXPECT_EQ(count().misses, 3u);
}

TEST_F(FarReaderTest, OtherNodesAreToldWhatIsWantedFirst) {
  peers_.OnGet([](const ColdBlock& cold) {
    EXPECT_EQ(cold.wanted, (BlockRange{kFar, kFar + kCell}));
    return PeerFind{.found = true};
  });
  EXPECT_TRUE(AreRight(Read(Far()), Far()));
  peers_.OnGet([](const ColdBlock& cold) {
    EXPECT_EQ(cold.wanted, (BlockRange{0, kBig}));
    return PeerFind{.found = true};
  });
  const CheckedRead next = ReadOf(object_, 0, {0, 10});
  EXPECT_TRUE(AreRight(Read(next), next));
  EXPECT_EQ(s3_.gets(), 0u);
}

}  // namespace
}  // namespace forebay
