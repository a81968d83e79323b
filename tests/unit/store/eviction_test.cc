#include "cachenode/store/eviction.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace forebay {
namespace {

using namespace std::chrono_literals;

const Uuid kA = Uuid::Parse("aaaaaaaa-0000-4000-8000-000000000001");
const Uuid kB = Uuid::Parse("bbbbbbbb-0000-4000-8000-000000000001");
const Uuid kD = Uuid::Parse("dddddddd-0000-4000-8000-000000000001");
const Uuid kC = Uuid::Parse("cccccccc-0000-4000-8000-000000000001");

/// A clock that the test turns.
class IdleLinksFirstTest : public ::testing::Test {
 protected:
  LinkUse Used(const Uuid& link, Duration ago,
               LinkPriority priority = LinkPriority::kNormal) const {
    return {link, now_ - ago, false, priority};
  }

  TimePoint now_{1000h};
  IdleLinksFirst policy_{600s};
};

TEST_F(IdleLinksFirstTest, LongestUnusedLinkGoesFirst) {
  EXPECT_EQ(policy_.VictimLinks(Used(kC, 0s), {Used(kA, 700s), Used(kB, 900s)}, now_),
            (std::vector<Uuid>{kB, kA}));
}

TEST_F(IdleLinksFirstTest, LinkInUseIsNotReplaced) {
  const LinkUse newcomer = Used(kC, 0s);
  const std::vector<LinkUse> cached = {Used(kA, 599s), Used(kB, 0s)};
  EXPECT_TRUE(policy_.VictimLinks(newcomer, cached, now_).empty());
  now_ += 1s;
  EXPECT_EQ(policy_.VictimLinks(newcomer, cached, now_), (std::vector<Uuid>{kA}));
}

TEST_F(IdleLinksFirstTest, LinkNeverReplacesItsOwnBlocks) {
  EXPECT_TRUE(policy_.VictimLinks(Used(kA, 0s), {Used(kA, 5000s)}, now_).empty());
}

TEST_F(IdleLinksFirstTest, IdleNewcomerReplacesOnlyWhatIsIdleLonger) {
  EXPECT_EQ(policy_.VictimLinks(Used(kC, 800s), {Used(kA, 700s), Used(kB, 900s)}, now_),
            (std::vector<Uuid>{kB}));
}

TEST_F(IdleLinksFirstTest, PinnedLinkGivesNothingAway) {
  LinkUse pinned = Used(kA, 5000s);
  pinned.pinned = true;
  EXPECT_EQ(policy_.VictimLinks(Used(kC, 0s), {pinned, Used(kB, 900s)}, now_),
            (std::vector<Uuid>{kB}));
}

TEST_F(IdleLinksFirstTest, LowerPriorityGoesFirstAndThoughItIsInUse) {
  EXPECT_EQ(policy_.VictimLinks(Used(kC, 0s, LinkPriority::kHigh),
                                {Used(kA, 0s), Used(kB, 5000s, LinkPriority::kHigh),
                                 Used(kD, 10s, LinkPriority::kLow)},
                                now_),
            (std::vector<Uuid>{kD, kA, kB}));
}

TEST_F(IdleLinksFirstTest, HigherPriorityMakesWayForNoneButPins) {
  const std::vector<LinkUse> cached = {Used(kA, 5000s, LinkPriority::kHigh), Used(kB, 5000s)};
  LinkUse newcomer = Used(kC, 0s, LinkPriority::kLow);
  EXPECT_TRUE(policy_.VictimLinks(newcomer, cached, now_).empty());
  newcomer.pinned = true;
  EXPECT_EQ(policy_.VictimLinks(newcomer, cached, now_), (std::vector<Uuid>{kB, kA}));
}

TEST_F(IdleLinksFirstTest, ForAPinnedBlockTheOthersGoIdleOnesFirstAndItsOwnLinkLast) {
  LinkUse newcomer = Used(kC, 0s);
  newcomer.pinned = true;
  LinkUse pinned = Used(kD, 9000s);
  pinned.pinned = true;
  const std::vector<LinkUse> cached = {Used(kC, 0s), Used(kA, 10s), pinned, Used(kB, 900s)};
  EXPECT_EQ(policy_.VictimLinks(newcomer, cached, now_), (std::vector<Uuid>{kB, kA, kC}));
}

}  // namespace
}  // namespace forebay
