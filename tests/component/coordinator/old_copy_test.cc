// A coordinator that was started from an old copy of its state, beside one that nodes know.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "common/wire/messages.h"
#include "tests/component/coordinator/cluster_fixture.h"

namespace forebay {
namespace {

proto::RegisterNodeRequest RegistrationOf(const std::string& id) {
  proto::RegisterNodeRequest request;
  request.mutable_node()->set_id(id);
  request.mutable_node()->set_address("127.0.0.1:1");
  request.mutable_node()->set_capacity_bytes(1 << 20);
  request.set_incarnation(1);
  return request;
}

class OldCoordinatorTest : public ClusterTest {
 protected:
  Result<proto::RegisterNodeReply> Register(const proto::Fence& heard) {
    proto::RegisterNodeRequest request = RegistrationOf("n1");
    *request.mutable_fence() = heard;
    return node_.Ask<proto::RegisterNodeReply>(address(), Method::kRegisterNode, request);
  }
  Result<proto::HeartbeatReply> Beat(const proto::Fence& heard) {
    proto::HeartbeatRequest request;
    request.set_node_id("n1");
    request.set_incarnation(1);
    *request.mutable_fence() = heard;
    return node_.Ask<proto::HeartbeatReply>(address(), Method::kHeartbeat, request);
  }
  std::vector<std::string> Alerts() {
    const auto stats =
        admin.Ask<proto::StatsReply>(address(), Method::kStats, proto::StatsRequest());
    std::vector<std::string> names;
    if (!stats) return {"no statistics: " + stats.error().message};
    for (const proto::Alert& alert : stats->alerts()) names.push_back(alert.name());
    return names;
  }

 private:
  Caller node_{proto::ROLE_NODE, "n1", secret};
};

// From an old copy of its state a coordinator has a lower epoch than its nodes have heard of.
TEST_F(OldCoordinatorTest, IsRefusedByItsNodesAndAlarms) {
  StartCoordinator();
  const auto registered = Register({});
  ASSERT_TRUE(registered.has_value());
  proto::Fence newer = registered->fence();
  EXPECT_GT(newer.epoch(), 0u);
  EXPECT_TRUE(Beat(newer).has_value());
  EXPECT_EQ(std::ranges::count(Alerts(), "coordinator_outdated"), 0);
  newer.set_epoch(newer.epoch() + 1);
  for (int i = 0; i < 2; ++i) {
    const auto refused = Beat(newer);
    ASSERT_FALSE(refused.has_value());
    EXPECT_EQ(refused.error().code, Code::kUnavailable);
    EXPECT_NE(refused.error().message.find("older one than node n1 has heard of"),
              std::string::npos);
  }
  EXPECT_FALSE(Register(newer).has_value());
  EXPECT_EQ(std::ranges::count(Alerts(), "coordinator_outdated"), 1);
  // The node has lost what it kept, and has heard of nobody; the coordinator remembers.
  EXPECT_TRUE(Register({}).has_value());
  EXPECT_EQ(std::ranges::count(Alerts(), "coordinator_outdated"), 1);
  StopCoordinator();
  StartCoordinator();
  EXPECT_TRUE(Register({}).has_value());
  EXPECT_EQ(std::ranges::count(Alerts(), "coordinator_outdated"), 1);
}

// It need not hear of it: its nodes may report to the newer one alone.
TEST_F(OldCoordinatorTest, IsToldByNodesThatRefuseWhatItAsks) {
  StartCoordinator();
  store.Put("p/a", 100);
  MakeLink("data", "p/");
  FakeNode node("n2", secret);
  const auto registered = node.Register(address());
  ASSERT_TRUE(registered.has_value());
  proto::EvictTargetRequest evict;
  evict.mutable_target()->set_text("data");
  const auto ask = [&] {
    return admin.Ask<proto::EvictTargetReply>(address(), Method::kEvictTarget, evict);
  };
  ASSERT_TRUE(ask().has_value());
  EXPECT_EQ(node.heard(), FromProto(registered->fence())) << "as its answers to nodes say";
  EXPECT_EQ(std::ranges::count(Alerts(), "coordinator_refused"), 0);
  node.Refuse(Error{Code::kDenied, "this coordinator is an old one"});
  const auto refused = ask();
  ASSERT_TRUE(refused.has_value());
  ASSERT_EQ(refused->nodes_size(), 1);
  EXPECT_NE(refused->nodes(0).error().find("an old one"), std::string::npos);
  EXPECT_EQ(std::ranges::count(Alerts(), "coordinator_refused"), 1);
  node.Refuse(std::nullopt);
  // It has not been heard of for long by now, and who is silent is not asked.
  ASSERT_TRUE(node.Heartbeat(address()).has_value());
  ASSERT_TRUE(ask().has_value());
  EXPECT_EQ(std::ranges::count(Alerts(), "coordinator_refused"), 0);
}

// Two that were started from copies of one state count up to the same epoch.
TEST_F(OldCoordinatorTest, ATwinFromACopyOfTheSameStateIsToldApart) {
  StartCoordinator();
  const proto::Fence first = Register({})->fence();
  StopCoordinator();
  const std::filesystem::path original = dir / state_name;
  const std::filesystem::path copy = dir / "copy";
  std::filesystem::copy(original, copy, std::filesystem::copy_options::recursive);
  StartCoordinator();
  const proto::Fence one = Register(first)->fence();
  EXPECT_GT(one.epoch(), first.epoch());
  StopCoordinator();
  state_name = "copy";
  StartCoordinator();
  const auto twin = Register(one);
  ASSERT_FALSE(twin.has_value());
  EXPECT_EQ(twin.error().code, Code::kUnavailable);
  EXPECT_EQ(std::ranges::count(Alerts(), "coordinator_outdated"), 1);
}

// It has the epoch of the coordinator that ran when it was made: only what was written since tells.
TEST_F(OldCoordinatorTest, ACopyThatWasMadeWhileTheLastOneRanIsRefused) {
  StartCoordinator();
  ASSERT_TRUE(Register({}).has_value());
  StopCoordinator();
  const std::filesystem::path copy = dir / "copy";
  StartCoordinator();
  std::filesystem::copy(dir / state_name, copy, std::filesystem::copy_options::recursive);
  store.Put("p/a", 100);
  MakeLink("data", "p/");
  FakeNode node("n1", secret);
  const auto last = node.Register(address());
  ASSERT_TRUE(last.has_value());
  proto::Fence heard = last->fence();
  heard.mutable_state()->set_links(last->links_version());
  StopCoordinator();
  // What runs on where the last one was goes on as ever.
  StartCoordinator();
  const auto goes_on = Register(heard);
  ASSERT_TRUE(goes_on.has_value()) << goes_on.error().message;
  EXPECT_EQ(goes_on->fence().epoch(), heard.epoch() + 1);
  StopCoordinator();
  state_name = "copy";
  StartCoordinator();
  const auto refused = Register(heard);
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code, Code::kUnavailable);
  EXPECT_EQ(std::ranges::count(Alerts(), "coordinator_outdated"), 1);
  // However many links it makes, and however often it is started.
  for (int i = 0; i < 4; ++i) MakeLink("mine" + std::to_string(i), "p/");
  EXPECT_FALSE(Register(heard).has_value());
  StopCoordinator();
  StartCoordinator();
  EXPECT_FALSE(Register(heard).has_value());
}

// Each start of it claims one more: it must not count up to what nodes know.
TEST_F(OldCoordinatorTest, ACopyDoesNotCountUpToTheNewerOne) {
  StartCoordinator();
  proto::Fence newer = Register({})->fence();
  newer.set_epoch(newer.epoch() + 2);
  proto::Fence copy;
  for (int restart = 0; restart < 4; ++restart) {
    StopCoordinator();
    StartCoordinator();
    const auto refused = Register(newer);
    ASSERT_FALSE(refused.has_value()) << "after restart " << restart;
    EXPECT_EQ(refused.error().code, Code::kUnavailable);
    // Who has followed it goes on to.
    const auto follows = Register(copy);
    ASSERT_TRUE(follows.has_value()) << follows.error().message;
    copy = follows->fence();
  }
  EXPECT_LT(copy.epoch(), newer.epoch());
  // It writes all the same, each time under a claim of its own.
  store.Put("q/a", 100);
  MakeLink("data", "q/");
}

}  // namespace
}  // namespace forebay
