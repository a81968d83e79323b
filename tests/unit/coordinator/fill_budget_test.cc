#include "coordinator/fill_budget.h"

#include <gtest/gtest.h>

#include "coordinator/member_table.h"
#include "tests/unit/coordinator/testing.h"

namespace forebay {
namespace {

class FillBudgetTest : public testing::Test {
 protected:
  FillBudgetTest() : fence_(*store_.Claim()), budget_(store_, fence_) {}

  bool Set(const proto::SetFillLimitsRequest& request, std::int64_t now = 1000) {
    const Result<bool> changed = budget_.Set(request, now);
    EXPECT_TRUE(changed.has_value());
    return changed.value_or(false);
  }
  proto::SetFillLimitsRequest Bytes(std::uint64_t rate) {
    proto::SetFillLimitsRequest request;
    request.set_bytes_per_s(rate);
    return request;
  }
  proto::SetFillLimitsRequest Paused(bool paused) {
    proto::SetFillLimitsRequest request;
    request.set_paused(paused);
    return request;
  }

  MemoryStateStore store_;
  const std::uint64_t fence_;
  FillBudget budget_;
};

TEST_F(FillBudgetTest, LimitAndPauseChangeOneAtATime) {
  EXPECT_TRUE(Set(Bytes(500)));
  EXPECT_TRUE(Set(Paused(true), 1234));
  EXPECT_EQ(budget_.record().limits().bytes_per_s(), 500u);
  EXPECT_EQ(budget_.record().limits().paused_since_unix_s(), 1234);
  EXPECT_FALSE(Set(Paused(true), 5678)) << "since when stays";
  EXPECT_EQ(budget_.record().limits().paused_since_unix_s(), 1234);
  proto::SetFillLimitsRequest requests;
  requests.set_requests_per_s(20);
  EXPECT_TRUE(Set(requests));
  EXPECT_EQ(budget_.record().limits().bytes_per_s(), 0u) << "one budget at a time";
  proto::SetFillLimitsRequest none;
  none.set_no_limit(true);
  EXPECT_TRUE(Set(none));
  EXPECT_EQ(budget_.record().limits().requests_per_s(), 0u);
  EXPECT_TRUE(Set(Paused(false)));
  EXPECT_FALSE(Set(Paused(false)));
}

TEST_F(FillBudgetTest, ARestartKnowsItAndEachChangeHasAHigherVersion) {
  Set(Bytes(500));
  Set(Paused(true), 1234);
  const std::uint64_t version = budget_.record().version();
  FillBudget again(store_, fence_);
  ASSERT_TRUE(again.Load().has_value());
  EXPECT_EQ(again.record().SerializeAsString(), budget_.record().SerializeAsString());
  ASSERT_TRUE(*again.Set(Paused(false), 0));
  EXPECT_GT(again.record().version(), version);
}

TEST_F(FillBudgetTest, WhatCannotBeStoredDoesNotHold) {
  store_.fail_writes = true;
  EXPECT_FALSE(budget_.Set(Bytes(500), 0).has_value());
  EXPECT_EQ(budget_.record().limits().bytes_per_s(), 0u);
}

TEST_F(FillBudgetTest, TheSharesOfTheNodesThatAreUpAreTheWhole) {
  Set(Bytes(1000));
  const TimePoint now = TimePoint() + std::chrono::hours(1);
  MemberTable members;
  for (const auto& [id, capacity] : {std::pair("a", 100), {"b", 300}, {"silent", 600}}) {
    Member member;
    member.info.id = id;
    member.info.capacity_bytes = static_cast<std::uint64_t>(capacity);
    member.heard = now;
    member.heard_since_start = true;
    members.Commit(member);
  }
  EXPECT_DOUBLE_EQ(ShareOf(budget_.record(), members.CapacityShare("b", now)).bytes_per_s, 300);
  const TimePoint later = now + std::chrono::minutes(1);
  members.Heartbeat("a", 0, later);
  members.Heartbeat("b", 0, later);
  double sum = 0;
  for (const char* id : {"a", "b"}) {
    sum += ShareOf(budget_.record(), members.CapacityShare(id, later)).bytes_per_s;
  }
  EXPECT_DOUBLE_EQ(sum, 1000);
  EXPECT_DOUBLE_EQ(members.CapacityShare("a", later), 0.25);
}

}  // namespace
}  // namespace forebay
