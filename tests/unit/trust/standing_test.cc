#include "common/trust/standing.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace forebay {
namespace {

constexpr std::int64_t kHour = 3600;
constexpr std::int64_t kDay = 24 * kHour;
constexpr std::int64_t kEnd = 1'800'000'000;  // of a peer's certificate

/// A coordinator that answers every 5 s from `from` until `until`.
void Answers(Standing& standing, std::int64_t from, std::int64_t until) {
  for (std::int64_t now = from; now <= until; now += 5) standing.NoteCoordinator(now);
}

TEST(StandingTest, WithoutACoordinatorSinceBeforeTheEndThereAreSevenDays) {
  Standing standing;
  Answers(standing, kEnd - kDay, kEnd - kHour);
  EXPECT_TRUE(standing.Excuses(kEnd, kEnd + 1));
  EXPECT_TRUE(standing.Excuses(kEnd, kEnd + 7 * kDay - 1));
  EXPECT_FALSE(standing.Excuses(kEnd, kEnd + 7 * kDay));
}

TEST(StandingTest, WhoDidNotRenewWhileItCouldIsOut) {
  Standing standing;
  Answers(standing, kEnd - kDay, kEnd + kHour);
  EXPECT_FALSE(standing.Excuses(kEnd, kEnd + kHour));
}

TEST(StandingTest, ACoordinatorThatComesBackLeavesAnHourToRenew) {
  Standing standing;
  Answers(standing, kEnd - kDay, kEnd - kHour);
  Answers(standing, kEnd + kDay, kEnd + kDay + kHour - 10);
  EXPECT_TRUE(standing.Excuses(kEnd, kEnd + kDay + kHour - 10));
  Answers(standing, kEnd + kDay + kHour - 5, kEnd + kDay + kHour + 5);
  EXPECT_FALSE(standing.Excuses(kEnd, kEnd + kDay + kHour + 5));
}

TEST(StandingTest, ACoordinatorThatAnswersNowAndThenIsNone) {
  Standing standing;
  for (std::int64_t now = kEnd + kHour; now < kEnd + kDay; now += 180)
    standing.NoteCoordinator(now);
  EXPECT_TRUE(standing.Excuses(kEnd, kEnd + kDay));
}

TEST(StandingTest, OnesOwnCertificateProvesThatTheCoordinatorWorkedAfterAnother) {
  EXPECT_FALSE(Standing(kEnd + kHour).Excuses(kEnd, kEnd + 2 * kHour));
  EXPECT_TRUE(Standing(kEnd - kHour).Excuses(kEnd, kEnd + 2 * kHour));
}

// When a coordinator comes back, one member is the first to renew.
TEST(StandingTest, WhoRenewsFirstLeavesTheOthersAnHour) {
  Standing standing(kEnd - 10 * kDay);
  standing.NoteIssued(kEnd + kDay);
  EXPECT_TRUE(standing.Excuses(kEnd, kEnd + kDay));
  EXPECT_TRUE(standing.Excuses(kEnd, kEnd + kDay + kHour - 1));
  EXPECT_FALSE(standing.Excuses(kEnd, kEnd + kDay + kHour));
}

TEST(StandingTest, AnExcuseIsSaidOnceForEachPeer) {
  Standing standing;
  const Identity one{.cluster = {}, .role = proto::ROLE_NODE, .id = "n1"};
  const Identity other{.cluster = {}, .role = proto::ROLE_CLIENT, .id = "n1"};
  EXPECT_TRUE(standing.IsFirstExcuse(one));
  EXPECT_FALSE(standing.IsFirstExcuse(one));
  EXPECT_TRUE(standing.IsFirstExcuse(other));
}

TEST(StandingTest, WhatWasIssuedBeforeARevocationIsBelievedNoMore) {
  Standing standing;
  const std::uint64_t before = standing.revision();
  standing.SetRevoked({{proto::ROLE_NODE, "n1", kEnd}});
  EXPECT_NE(standing.revision(), before);
  EXPECT_TRUE(standing.IsRevoked(proto::ROLE_NODE, "n1", kEnd));
  EXPECT_FALSE(standing.IsRevoked(proto::ROLE_NODE, "n1", kEnd + 1)) << "it joined again";
  EXPECT_FALSE(standing.IsRevoked(proto::ROLE_CLIENT, "n1", kEnd));
  EXPECT_FALSE(standing.IsRevoked(proto::ROLE_NODE, "n2", kEnd));
}

TEST(StandingTest, TheListComesBackFromItsTextAndNothingElseDoes) {
  const std::vector<Revocation> all = {{proto::ROLE_NODE, "n1", kEnd},
                                       {proto::ROLE_ADMIN, "ann", 5}};
  EXPECT_EQ(RevocationsOf(TextOf(all)).value(), all);
  EXPECT_TRUE(RevocationsOf("").value().empty());
  for (const char* bad :
       {"node n1 5", "node n1\n", "king n1 5\n", "node n1 5x\n", "node a/b 5\n", "node  5\n", "\n"})
    EXPECT_FALSE(RevocationsOf(bad).has_value()) << bad;
}

}  // namespace
}  // namespace forebay
