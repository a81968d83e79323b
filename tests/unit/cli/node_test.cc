// node drain, undrain, remove, fence; and how `nodes` shows what came of it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/model/membership.h"
#include "tests/unit/cli/json_doc.h"
#include "tests/unit/cli/scripted_session.h"

namespace forebay::testing {
namespace {

using ::testing::HasSubstr;

proto::ChangeNodeReply Changed(bool changed, const std::string& task = "") {
  proto::ChangeNodeReply reply;
  reply.set_changed(changed);
  reply.set_ring_epoch(7);
  reply.set_task_id(task);
  return reply;
}

/// 4,000 blocks of node n2, of which the others have room for all but `not_kept`.
proto::TaskState Drained(std::uint64_t not_kept) {
  proto::TaskState task;
  task.set_id("t-1");
  task.set_kind("drain");
  task.set_target("n2");
  task.set_state(1);
  task.set_total(4000);
  task.set_done(4000 - not_kept);
  task.set_total_bytes(4'096'000);
  task.set_bytes((4000 - not_kept) * 1024);
  task.set_not_kept(not_kept);
  task.set_not_kept_bytes(not_kept * 1024);
  task.set_started_unix_s(1'767'323'035);
  task.set_ended_unix_s(1'767'323'095);
  return task;
}

Failure Refusal(Code code, const std::string& message) { return Failure(Error{code, message}); }

TEST(Node, SaysWhatHasHappenedToTheNode) {
  const struct {
    const char* action;
    NodeChange change;
    const char* text;
  } kActions[] = {{"remove", NodeChange::kRemove, "node n2 is removed"},
                  {"fence", NodeChange::kFence, "node n2 is fenced"},
                  {"undrain", NodeChange::kUndrain, "node n2 is taken back"}};
  for (const auto& action : kActions) {
    ScriptedSession session;
    session.Answer(Method::kChangeNode, Changed(true));
    session.Answer(Method::kChangeNode, Changed(false));
    const Ran ran = RunForebay(session, {"node", action.action, "n2"});
    EXPECT_EQ(ran.exit, 0);
    EXPECT_THAT(ran.out, HasSubstr(action.text));
    const auto asked = session.Asked<proto::ChangeNodeRequest>(0);
    EXPECT_EQ(asked.node(), "n2");
    EXPECT_EQ(asked.change(), static_cast<std::uint32_t>(action.change));
    const Ran again = RunForebay(session, {"node", action.action, "n2"});
    EXPECT_EQ(again.exit, 0);
    EXPECT_THAT(again.out, HasSubstr("nothing was changed"));
  }
}

TEST(Node, DrainFollowsTheTaskAndSaysThatTheMachineMayBeStopped) {
  ScriptedSession session;
  session.Answer(Method::kChangeNode, Changed(true, "t-1"));
  session.AnswerTask(0, 1000, 4000);
  session.Answer(Method::kGetTask, Drained(0));
  const Ran ran = RunForebay(session, {"node", "drain", "n2"});
  EXPECT_EQ(ran.exit, 0) << ran.err;
  EXPECT_EQ(ran.out,
            "node n2 is drained: 4,000 blocks with 3.91 MiB are at other nodes; its machine may be "
            "stopped\n");
}

TEST(Node, WhatFoundNoRoomElsewhereMakesItPartly) {
  ScriptedSession session;
  session.Answer(Method::kChangeNode, Changed(true, "t-1"));
  session.Answer(Method::kGetTask, Drained(10));
  const Ran ran = RunForebay(session, {"node", "drain", "n2"});
  EXPECT_EQ(ran.exit, 3);
  EXPECT_THAT(ran.out, HasSubstr("no room for 10 blocks with 10.0 KiB"));
}

TEST(Node, ADrainThatRunsAlreadyIsJoined) {
  ScriptedSession session;
  session.Answer(Method::kChangeNode, Changed(false, "t-1"));
  session.Answer(Method::kGetTask, Drained(0));
  const Ran ran = RunForebay(session, {"node", "drain", "n2"});
  EXPECT_EQ(ran.exit, 0);
  EXPECT_THAT(ran.err, HasSubstr("node n2 has a drain already: joined task t-1\n"));
}

TEST(Node, ADrainGoesOnAfterTheTimeout) {
  ScriptedSession session;
  session.Answer(Method::kChangeNode, Changed(true, "t-1"));
  session.AnswerTask(0, 1000, 4000);
  session.TimeOutAtPause(1);
  const Ran ran = RunForebay(session, {"--timeout", "1s", "node", "drain", "n2"});
  EXPECT_EQ(ran.exit, 4);
  EXPECT_THAT(ran.err, HasSubstr("goes on as task t-1"));
}

TEST(Node, ADrainThatFailsSaysHowToGoOn) {
  ScriptedSession session;
  session.Answer(Method::kChangeNode, Changed(true, "t-1"));
  session.AnswerTask(2, 1000, 4000, "node n2 is out of the cluster: it was not heard any more");
  const Ran ran = RunForebay(session, {"node", "drain", "n2"});
  EXPECT_EQ(ran.exit, 1);
  EXPECT_THAT(ran.err, HasSubstr("not heard any more"));
  EXPECT_THAT(ran.err, HasSubstr("forebay node undrain n2"));
}

TEST(Node, ARefusalIsPrintedAsItCame) {
  ScriptedSession session;
  session.Refuse(Method::kChangeNode,
                 Refusal(Code::kInvalid, "node n1 is the last one that can serve"));
  const Ran ran = RunForebay(session, {"node", "remove", "n1"});
  EXPECT_NE(ran.exit, 0);
  EXPECT_THAT(ran.err, HasSubstr("the last one that can serve"));
  EXPECT_EQ(ran.out, "");
}

TEST(Node, BadUsageAsksNobody) {
  ScriptedSession session;
  EXPECT_EQ(RunForebay(session, {"node"}).exit, 2);
  EXPECT_EQ(RunForebay(session, {"node", "drain"}).exit, 2);
  EXPECT_EQ(RunForebay(session, {"node", "drian", "n1"}).exit, 2);
  EXPECT_EQ(session.calls(), 0u);
}

TEST(Nodes, SaysWhyANodeIsOut) {
  ScriptedSession session;
  proto::StatsReply stats = SampleStats();
  stats.mutable_nodes(0)->mutable_info()->set_state(static_cast<std::uint32_t>(NodeState::kOut));
  stats.mutable_nodes(0)->set_dismissal(static_cast<std::uint32_t>(Dismissal::kFenced));
  stats.mutable_nodes(1)->mutable_info()->set_state(static_cast<std::uint32_t>(NodeState::kOut));
  session.Answer(Method::kStats, stats);
  const Ran ran = RunForebay(session, {"nodes"});
  EXPECT_THAT(ran.out, HasSubstr("  out, fenced  "));
  EXPECT_THAT(ran.out, HasSubstr("  out, silent  "));
}

class NodeJsonDoc : public JsonDoc {};

TEST_F(NodeJsonDoc, NodeVerbs) {
  session_.Answer(Method::kChangeNode, Changed(true));
  Run("node remove", {"node", "remove", "n2"});
  session_.Answer(Method::kChangeNode, Changed(true, "t-1"));
  session_.Answer(Method::kGetTask, Drained(0));
  Run("node drain", {"node", "drain", "n2"});
  session_.Answer(Method::kChangeNode, Changed(true, "t-1"));
  Run("node drain --detach", {"node", "drain", "--detach", "n2"});
}

}  // namespace
}  // namespace forebay::testing
