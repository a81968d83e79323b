#include "coordinator/request_budgets.h"

#include <gtest/gtest.h>

#include "common/wire/messages.h"

namespace forebay {
namespace {

using namespace std::chrono_literals;

class RequestBudgetsTest : public testing::Test {
 protected:
  RequestBudgetsTest() {
    for (LinkSpec* link : {&link_, &same_place_, &elsewhere_}) {
      link->id = Uuid::Random();
      link->origin.bucket = "bucket";
      link->origin.prefix = "train/";
      link->origin.endpoint = "http://s3";
    }
    elsewhere_.origin.prefix = "test/";
  }

  void Report(const std::string& node, const LinkSpec& link, std::uint64_t requests,
              std::uint64_t throttled, std::uint64_t incarnation = 1) {
    proto::HeartbeatRequest heartbeat;
    heartbeat.set_node_id(node);
    heartbeat.set_incarnation(incarnation);
    budgets_.Report(heartbeat, now_);  // it came up before it asked S3
    Add(heartbeat, link, requests, throttled);
  }
  void Add(proto::HeartbeatRequest heartbeat, const LinkSpec& link, std::uint64_t requests,
           std::uint64_t throttled) {
    proto::RequestUse& use = *heartbeat.add_request_use();
    use.set_link(BytesOf(link.id));
    use.set_requests(requests);
    use.set_throttled(throttled);
    budgets_.Report(heartbeat, now_);
  }
  void Tick() {
    budgets_.Tick({link_, same_place_, elsewhere_}, now_, 17);
    now_ += 1s;
  }
  double LeaseOf(const std::string& node, const LinkSpec& link) const {
    for (const proto::RequestLease& lease : budgets_.LeasesOf(node))
      if (lease.link() == BytesOf(link.id)) return lease.requests_per_s();
    return 0;
  }

  LinkSpec link_;
  LinkSpec same_place_;
  LinkSpec elsewhere_;
  RequestBudgets budgets_;
  TimePoint now_ = TimePoint() + 1h;
};

TEST_F(RequestBudgetsTest, LinksToOnePlaceShareItsBudgetAndOtherPlacesHaveNone) {
  Report("n1", link_, 1000, 100);
  Report("n2", same_place_, 1000, 0);
  Report("n3", elsewhere_, 1000, 0);
  Tick();
  ASSERT_EQ(budgets_.Throttled().size(), 1U);
  const proto::ThrottledPlace place = budgets_.Throttled().front();
  EXPECT_EQ(place.prefix(), "train/");
  EXPECT_EQ(place.since_unix_s(), 17);
  EXPECT_NEAR(place.requests_per_s(), 0.8 * 1900, 1);
  EXPECT_NEAR(LeaseOf("n1", link_) + LeaseOf("n2", same_place_), place.requests_per_s(), 1e-6);
  EXPECT_EQ(LeaseOf("n3", elsewhere_), 0);
  EXPECT_EQ(budgets_.LimitOf(elsewhere_.origin), 0);
  EXPECT_NEAR(budgets_.LimitOf(link_.origin), 0.8 * 1900, 1);
}

TEST_F(RequestBudgetsTest, TheCoordinatorsOwnListingsCountAndGetTheirPart) {
  const S3Place place = S3Place::Of(link_.origin);
  Report("n1", link_, 900, 0);
  budgets_.ReportOwn({{.place = place, .requests = 100, .throttled = 50}}, now_);
  Tick();
  EXPECT_NEAR(budgets_.LimitOf(link_.origin), 0.8 * 950, 1) << "its refusals are S3's word, too";
  const std::map<S3Place, double> own = budgets_.OwnLeases();
  ASSERT_TRUE(own.contains(place));
  EXPECT_GT(own.at(place), 50);
  EXPECT_NEAR(own.at(place) + LeaseOf("n1", link_), budgets_.LimitOf(link_.origin), 1e-6);
}

TEST_F(RequestBudgetsTest, WhatNodesAskedBeforeACoordinatorCameIsNotTakenForTheirRate) {
  proto::HeartbeatRequest heartbeat;
  heartbeat.set_node_id("n1");
  heartbeat.set_incarnation(7);
  Add(heartbeat, link_, 5'000'000, 3000);  // totals of a day, heard of for the first time
  Tick();
  EXPECT_TRUE(budgets_.Throttled().empty()) << "nobody knows when that was";
  Add(heartbeat, link_, 5'000'100, 3010);
  Tick();
  EXPECT_NEAR(budgets_.LimitOf(link_.origin), 0.8 * 90, 1);
}

TEST_F(RequestBudgetsTest, ANodeThatBeganAnewCountsFromNothing) {
  Report("n1", link_, 1000, 0, 1);
  Tick();
  Report("n1", link_, 100, 50, 2);
  Tick();
  EXPECT_NEAR(budgets_.LimitOf(link_.origin), 0.8 * 50, 1);
}

TEST_F(RequestBudgetsTest, ASilentNodeHasNoPart) {
  Report("n1", link_, 1000, 100);
  Report("n2", link_, 1000, 100);
  Tick();
  ASSERT_GT(LeaseOf("n2", link_), 0);
  for (int second = 1; second <= 12; ++second) {
    Report("n1", link_, 1000 + static_cast<std::uint64_t>(second) * 500, 100);
    Tick();
  }
  EXPECT_EQ(LeaseOf("n2", link_), 0);
  EXPECT_NEAR(LeaseOf("n1", link_), budgets_.LimitOf(link_.origin), 1e-6);
}

}  // namespace
}  // namespace forebay
