#include <future>
#include <string>

#include "cachenode/filler.h"
#include "tests/unit/cachenode/reader_rig.h"

namespace forebay {
namespace {

/// A node that S3 does not serve, among others.
class StandInsTest : public ReaderRig {
 protected:
  StandInsTest() : ReaderRig(FillerOptions{.look_again = std::chrono::milliseconds(5)}) {}

  static constexpr std::uint64_t kAlways = 1'000'000;

  CheckedRead Whole(int number) const {
    return ReadOf(TestObject("data/" + std::to_string(number), kBlock), 0, {0, kBlock});
  }
  ColdBlock Cold(int number) const { return ColdOf(Whole(number)); }

  void LoseS3(std::uint64_t attempts = kAlways, RetryReason why = RetryReason::kNetwork) {
    s3_.OnGet([=](const GetRequest&) {
      return fakes::GetScript{.unanswered = attempts, .why_unanswered = why};
    });
    s3_.OnHead([] { return Fail(Code::kUnavailable, "S3 at test does not answer"); });
  }
  void DenyAll() {
    s3_.OnGet([](const GetRequest&) {
      return fakes::GetScript{.error = Error{Code::kDenied, "the clock is wrong"}};
    });
    s3_.OnHead([] { return Fail(Code::kDenied, "the clock is wrong"); });
  }
  void FindS3() {
    s3_.OnGet(nullptr);
    s3_.OnHead([] { return Status(); });
  }
  bool IsServedSoon() {
    return Eventually([this] { return !filler_.IsUnserved(link_->id); });
  }
  /// For another node; true when it is told that this has begun.
  bool StandInFor(int number) {
    ColdBlock cold = Cold(number);
    cold.stand_in = true;
    const Prefetched outcome = reader_.Prefetch(cold, "", Urgency::kReader);
    EXPECT_TRUE(Eventually([this] { return IsIdle(); }));
    return outcome == Prefetched::kBegun;
  }
  void HaveOthersFetch() {
    peers_.OnStandIn([](const ColdBlock&) { return PeerFind{.found = true}; });
  }
};

TEST_F(StandInsTest, OneAttemptWithoutAnAnswerIsMadeAgain) {
  LoseS3(1);
  HaveOthersFetch();
  EXPECT_TRUE(AreRight(Read(Whole(0)), Whole(0)));
  EXPECT_EQ(s3_.gets(), 1u);
  EXPECT_EQ(peers_.stand_in_gets(), 0u);
}

TEST_F(StandInsTest, AfterTheSecondAnotherNodeAsksS3AndThisOneKeepsTheBlock) {
  LoseS3();
  HaveOthersFetch();
  const Result<Cells> cells = Read(Whole(0));
  ASSERT_TRUE(AreRight(cells, Whole(0)));
  EXPECT_EQ(cells->tier, Tier::kS3);
  ASSERT_TRUE(Eventually([this] { return IsIdle(); }));
  EXPECT_TRUE(store_.Contains(Whole(0).request.block));
  EXPECT_EQ(s3_.gets(), 1u);
  EXPECT_EQ(peers_.stand_in_gets(), 1u);
  EXPECT_EQ(filler_.stand_in_fills(), 1u);
  EXPECT_EQ(count().misses, 1u);
  EXPECT_EQ(count().s3_gets, 0u);
  EXPECT_EQ(count().s3_errors, 0u) << "the block has come";
  EXPECT_EQ(count().peer_fills, 0u);
  EXPECT_EQ(peers_.refusals(), 0u) << "the block is where it belongs";
}

TEST_F(StandInsTest, FromThenOnOthersAreAskedAtOnceUntilS3AnswersAQuestionThatNoReaderWaitsFor) {
  LoseS3();
  HaveOthersFetch();
  ASSERT_TRUE(AreRight(Read(Whole(0)), Whole(0)));
  ASSERT_TRUE(AreRight(Read(Whole(1)), Whole(1)));
  EXPECT_EQ(s3_.gets(), 1u);
  EXPECT_EQ(peers_.stand_in_gets(), 2u);
  EXPECT_TRUE(filler_.IsUnserved(link_->id));
  EXPECT_TRUE(Eventually([this] { return s3_.heads() > 0; }));
  FindS3();
  ASSERT_TRUE(IsServedSoon());
  ASSERT_TRUE(AreRight(Read(Whole(2)), Whole(2)));
  EXPECT_EQ(s3_.gets(), 2u);
  EXPECT_EQ(peers_.stand_in_gets(), 2u);
}

TEST_F(StandInsTest, WhateverIsNoAnswerCountsAndWhatS3AnswersDoesNot) {
  HaveOthersFetch();
  int block = 0;
  std::uint64_t asked = 0;
  for (const RetryReason why : {RetryReason::kNetwork, RetryReason::kTimeout, RetryReason::kDns,
                                RetryReason::kCredentials}) {
    LoseS3(kAlways, why);
    EXPECT_TRUE(AreRight(Read(Whole(block)), Whole(block)));
    EXPECT_EQ(peers_.stand_in_gets(), ++asked);
    FindS3();
    ASSERT_TRUE(IsServedSoon());
    ++block;
    EXPECT_TRUE(AreRight(Read(Whole(block)), Whole(block))) << "which says that it is";
    ++block;
  }
  for (const RetryReason why :
       {RetryReason::kThrottled, RetryReason::kServerError, RetryReason::kBadAnswer}) {
    LoseS3(5, why);
    EXPECT_TRUE(AreRight(Read(Whole(block)), Whole(block)));
    EXPECT_EQ(peers_.stand_in_gets(), asked);
    ++block;
  }
}

// A HEAD has no body, and may be allowed where a GET is not.
TEST_F(StandInsTest, AfterALookThatWasAnsweredTheNextRequestDecides) {
  DenyAll();
  HaveOthersFetch();
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(AreRight(Read(Whole(i)), Whole(i)));
  s3_.OnHead([] { return Status(); });
  ASSERT_TRUE(Eventually([this] { return s3_.heads() > 0; }));
  ASSERT_TRUE(AreRight(Read(Whole(3)), Whole(3)));
  EXPECT_FALSE(counters_.refusals().Often(Clock::now(), 1).empty()) << "no GET was answered";
  EXPECT_EQ(counters_.refusals().Often(Clock::now(), 1)[0].why, "the clock is wrong");
}

TEST_F(StandInsTest, WhereS3ServesNobodyItIsWaitedFor) {
  LoseS3(5);
  peers_.OnStandIn([](const ColdBlock&) { return PeerFind(); });
  EXPECT_TRUE(AreRight(Read(Whole(0)), Whole(0)));
  EXPECT_EQ(s3_.gets(), 1u);
  EXPECT_EQ(peers_.stand_in_gets(), 4u) << "before each pause but the first";
  ASSERT_TRUE(Eventually([this] { return IsIdle(); }));
  EXPECT_FALSE(filler_.IsUnserved(link_->id)) << "it has answered";
}

TEST_F(StandInsTest, AnotherNodesWordThatTheVersionIsGoneIsTaken) {
  LoseS3();
  peers_.OnStandIn([](const ColdBlock&) -> Result<PeerFind> { return Fail(Code::kStale, "gone"); });
  const Result<Cells> cells = Read(Whole(0));
  ASSERT_FALSE(cells.has_value());
  EXPECT_EQ(cells.error().code, Code::kStale);
}

TEST_F(StandInsTest, ABlockThatS3RefusesIsFetchedByAnother) {
  DenyAll();
  HaveOthersFetch();
  for (int i = 0; i < 5; ++i) ASSERT_TRUE(AreRight(Read(Whole(i)), Whole(i)));
  EXPECT_EQ(s3_.gets(), S3Refusals::kOften) << "then it is not asked in vain any more";
  EXPECT_EQ(peers_.stand_in_gets(), 5u);
  EXPECT_EQ(peers_.refusals(), 0u);
  EXPECT_FALSE(counters_.refusals().Often(Clock::now(), 1).empty()) << "an administrator is told";
}

TEST_F(StandInsTest, WhereS3RefusesAllTheReaderHearsItsWord) {
  DenyAll();
  peers_.OnStandIn([](const ColdBlock&) { return PeerFind(); });
  for (int i = 0; i < 4; ++i) {
    const Result<Cells> cells = Read(Whole(i));
    ASSERT_FALSE(cells.has_value());
    EXPECT_EQ(cells.error().message, "the clock is wrong");
  }
  EXPECT_EQ(s3_.gets(), 4u);
  EXPECT_GT(peers_.refusals(), 0u);
}

TEST_F(StandInsTest, WhoeverStandsInAsksS3AndNobodyElseAndKeepsNothing) {
  peers_.OnGet([](const ColdBlock&) { return PeerFind{.found = true}; });
  HaveOthersFetch();
  EXPECT_TRUE(StandInFor(0));
  EXPECT_EQ(s3_.gets(), 1u);
  EXPECT_EQ(peers_.gets(), 0u);
  EXPECT_FALSE(store_.Contains(Cold(0).block));
  CheckedRead asked = Whole(0);
  asked.request.peer_only = true;
  EXPECT_TRUE(AreRight(Read(asked), asked)) << "it is there for whoever asked";
}

TEST_F(StandInsTest, WhoeverStandsInAndIsNotServedEitherSaysSoUntilItIs) {
  LoseS3();
  HaveOthersFetch();
  EXPECT_TRUE(StandInFor(0)) << "which is how it finds out";
  EXPECT_EQ(s3_.gets(), 1u);
  EXPECT_FALSE(StandInFor(1));
  EXPECT_EQ(s3_.gets(), 1u);
  EXPECT_EQ(peers_.stand_in_gets(), 0u);
  FindS3();
  ASSERT_TRUE(IsServedSoon()) << "though nobody reads anything here";
  EXPECT_TRUE(StandInFor(2));
  EXPECT_EQ(s3_.gets(), 2u);
}

// It has the patience of any reader, and the same ways.
TEST_F(StandInsTest, AReaderThatJoinsWhatIsFetchedForAnotherNodeDoesNotEndWithIt) {
  HaveOthersFetch();
  s3_.OnHead([] { return Fail(Code::kUnavailable, "S3 at test does not answer"); });
  std::promise<void> joined;
  s3_.OnGet([&, wait = joined.get_future().share()](const GetRequest&) {
    wait.wait();
    return fakes::GetScript{.unanswered = kAlways};
  });
  ColdBlock cold = Cold(0);
  cold.stand_in = true;
  EXPECT_EQ(reader_.Prefetch(cold, "", Urgency::kReader), Prefetched::kBegun);
  std::future<Result<Cells>> reader = Start(Whole(0));
  ASSERT_TRUE(Eventually([&] {
    const std::shared_ptr<Fill> fill = filler_.Running(link_->id, cold.block);
    return fill && fill->is_wanted_here();
  }));
  joined.set_value();
  EXPECT_TRUE(AreRight(reader.get(), Whole(0)));
  EXPECT_EQ(peers_.stand_in_gets(), 1u);
}

TEST_F(StandInsTest, ReadersAheadAreServedLikeOthers) {
  LoseS3();
  HaveOthersFetch();
  ASSERT_TRUE(AreRight(Read(Whole(0)), Whole(0)));
  EXPECT_EQ(reader_.Prefetch(Cold(1), "job"), Prefetched::kBegun);
  ASSERT_TRUE(Eventually([this] { return IsIdle(); }));
  EXPECT_TRUE(store_.Contains(Cold(1).block));
  EXPECT_EQ(reader_.Prefetch(Cold(2), "", Urgency::kReader), Prefetched::kRefused)
      << "another node that has a reader for it can ask S3 itself";
  EXPECT_EQ(peers_.refusals(), 1u) << "and is asked for it later";
  EXPECT_EQ(s3_.gets(), 1u);
}

TEST_F(StandInsTest, WhileOthersAskNobodyWaitsForThisNode) {
  LoseS3();
  const CheckedRead read = Whole(0);
  peers_.OnStandIn([&](const ColdBlock& cold) {
    EXPECT_FALSE(filler_.Running(link_->id, cold.block)->asks_s3());
    return PeerFind{.found = true};
  });
  EXPECT_TRUE(AreRight(Read(read), read));
}

}  // namespace
}  // namespace forebay
