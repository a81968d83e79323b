#include <vector>

#include "cachenode/cluster_view.h"
#include "common/wire/messages.h"
#include "common/wire/rpc_rules.h"
#include "tests/component/cachenode/node_fixture.h"

// A coordinator that was replaced, or one that was started from an old copy of its state.
namespace forebay {
namespace {

std::vector<Method> MethodsForCoordinators() {
  std::vector<Method> methods;
  for (const RpcRule& rule : AllRules()) {
    if (rule.servers.Has(proto::ROLE_NODE) && rule.callers.Has(proto::ROLE_COORDINATOR))
      methods.push_back(rule.method);
  }
  return methods;
}

class OldCoordinator : public NodeTest {
 protected:
  void KeepABlock() {
    StartNode();
    const proto::ReadBlockRequest read = RequestFor("data/a", 39'000);
    ASSERT_TRUE(Read(read).has_value());
    ASSERT_TRUE(Eventually([&] { return IsCached(read.block()); }));
    *evict_.add_blocks() = read.block();
  }
  Code EvictAs(Caller& coordinator) {
    const Result<RpcReply> reply = Call(coordinator, Method::kEvictBlocks, evict_);
    return reply ? Code::kNotFound : reply.error().code;  // which is no refusal
  }
  bool IsKept() { return IsCached(evict_.blocks(0)); }
  std::uint64_t KeptEpoch() const {
    ClusterView view;
    return view.KeepIn({dir_ / "cache/cluster_state"}) ? view.fence().epoch : 0;
  }

  proto::EvictBlocksRequest evict_;
};

TEST_F(OldCoordinator, CommandsNothing) {
  coordinator_->SetFence(5);
  KeepABlock();
  Caller old(proto::ROLE_COORDINATOR, Fence{.epoch = 4, .claim = Uuid::Random()});
  Caller twin(proto::ROLE_COORDINATOR, Fence{.epoch = 5, .claim = Uuid::Random()});
  const std::vector<Method> methods = MethodsForCoordinators();
  ASSERT_GE(methods.size(), 7u);
  for (const Method method : methods) {
    for (Caller* caller : {&old, &twin}) {
      const Result<RpcReply> reply = Call(*caller, method, evict_);
      ASSERT_FALSE(reply.has_value()) << static_cast<int>(method);
      EXPECT_EQ(reply.error().code, Code::kDenied) << reply.error().message;
      EXPECT_NE(reply.error().message.find("an old one"), std::string::npos);
    }
  }
  EXPECT_TRUE(IsKept());
  const std::string counted = "forebay_rpc_refused_total{what=\"coordinator\"} " +
                              std::to_string(2 * methods.size()) + "\n";
  EXPECT_NE(metrics_.Render().find(counted), std::string::npos) << metrics_.Render();
}

TEST_F(OldCoordinator, IsOldAsSoonAsANewerOneAsksForSomething) {
  KeepABlock();
  Caller first(proto::ROLE_COORDINATOR, Fence{.epoch = 8, .claim = Uuid::Random()});
  Caller next(proto::ROLE_COORDINATOR, Fence{.epoch = 9, .claim = Uuid::Random()});
  evict_.set_dry_run(true);
  EXPECT_EQ(EvictAs(first), Code::kNotFound);
  EXPECT_EQ(EvictAs(next), Code::kNotFound);
  EXPECT_EQ(EvictAs(first), Code::kDenied) << "over the connection that it was believed on";
  EXPECT_EQ(EvictAs(next), Code::kNotFound);
}

// A copy of its state that was made while the last one ran claims the next epoch, as that one does.
TEST_F(OldCoordinator, IsTheOneThatBeganWithLessThanTheNodeKnows) {
  KeepABlock();
  const auto next = [](const StateVersion& state) {
    return Fence{.epoch = 9, .claim = Uuid::Random(), .state = state};
  };
  ASSERT_TRUE(Eventually([&] { return coordinator_->last_heartbeat().links_version() > 1; }));
  const StateVersion known = FromProto(coordinator_->last_heartbeat().fence()).state.value();
  EXPECT_GT(known.links, 0U);
  Caller copy(proto::ROLE_COORDINATOR, next({.links = known.links - 1, .ring = known.ring}));
  EXPECT_EQ(EvictAs(copy), Code::kDenied);
  EXPECT_TRUE(IsKept());
  Caller right(proto::ROLE_COORDINATOR, next(known));
  EXPECT_EQ(EvictAs(right), Code::kNotFound);
  EXPECT_FALSE(IsKept());
}

TEST_F(OldCoordinator, IsRefusedByANodeThatWasStartedAgain) {
  coordinator_->SetFence(5);
  KeepABlock();
  ASSERT_TRUE(Eventually([&] { return KeptEpoch() == 5; }));
  StopNode();
  coordinator_->Stop();  // Nobody says it a second time.
  StartNode();
  Caller old(proto::ROLE_COORDINATOR, Fence{.epoch = 4, .claim = Uuid::Random()});
  EXPECT_EQ(EvictAs(old), Code::kDenied);
  EXPECT_TRUE(IsKept());
}

// Of the release before.
TEST_F(OldCoordinator, OneThatDoesNotSayWhichItIsIsObeyed) {
  coordinator_->SetFence(5);
  KeepABlock();
  Caller before(proto::ROLE_COORDINATOR);
  EXPECT_EQ(EvictAs(before), Code::kNotFound);
  EXPECT_FALSE(IsKept());
}

}  // namespace
}  // namespace forebay
