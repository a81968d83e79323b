#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/cli/scripted_session.h"

namespace forebay::testing {
namespace {

proto::RefreshReply Reply(const std::string& task, bool started) {
  proto::RefreshReply reply;
  reply.set_link("train");
  reply.set_task_id(task);
  reply.set_started(started);
  return reply;
}

proto::TaskState Done(std::uint64_t added) {
  proto::TaskState task;
  task.set_state(1);
  task.set_added(added);
  task.set_removed(1);
  return task;
}

TEST(Refresh, SaysWhatIsNewGoneAndChanged) {
  ScriptedSession session;
  session.Answer(Method::kRefresh, Reply("t-1", true));
  session.Answer(Method::kGetTask, Done(1234));
  const Ran ran = RunForebay(session, {"refresh", "train/a"});
  EXPECT_EQ(ran.exit, 0);
  EXPECT_EQ(ran.out, "train/a: +1,234 -1 ~0 files\n");
  EXPECT_EQ(session.Asked<proto::RefreshRequest>(0).target().text(), "train/a");
}

TEST(Refresh, WaitsForAListingThatRunsAndThenAsksAgain) {
  ScriptedSession session;
  session.Answer(Method::kRefresh, Reply("t-1", false));
  session.Answer(Method::kGetTask, Done(7));
  session.Answer(Method::kRefresh, Reply("t-2", true));
  session.Answer(Method::kGetTask, Done(2));
  const Ran ran = RunForebay(session, {"refresh", "train"});
  EXPECT_EQ(ran.exit, 0);
  EXPECT_EQ(ran.out, "train: +2 -1 ~0 files\n");
  EXPECT_EQ(session.Asked<proto::GetTaskRequest>(3).id(), "t-2");
}

TEST(Refresh, ATargetThatIsNeitherThereNorWasIsSaidSo) {
  proto::TaskState nothing;
  nothing.set_state(1);
  ScriptedSession session;
  session.Answer(Method::kRefresh, Reply("t-1", true));
  session.Answer(Method::kGetTask, nothing);
  session.Refuse(Method::kListTarget, Error{Code::kNotFound, "no 'nope' in link 'train'"});
  const Ran ran = RunForebay(session, {"refresh", "train/nope"});
  EXPECT_EQ(ran.exit, 0);
  EXPECT_EQ(ran.out, "train/nope: +0 -0 ~0 files\n");
  EXPECT_EQ(ran.err, "train/nope: there is nothing of that name, neither before nor now\n");
  session.Answer(Method::kRefresh, Reply("t-2", true));
  session.Answer(Method::kGetTask, nothing);
  session.Answer(Method::kListTarget, proto::ListTargetReply());
  EXPECT_EQ(RunForebay(session, {"refresh", "train"}).err, "");
}

TEST(Refresh, DetachPrintsTheTask) {
  ScriptedSession session;
  session.Answer(Method::kRefresh, Reply("t-1", true));
  const Ran ran = RunForebay(session, {"refresh", "train", "--detach"});
  EXPECT_EQ(ran.exit, 0);
  EXPECT_EQ(ran.out, "t-1\n");
}

}  // namespace
}  // namespace forebay::testing
