#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/cli/scripted_session.h"

namespace forebay::testing {
namespace {

using ::testing::HasSubstr;

proto::ChangeTaskReply Changed(const proto::TaskState& task, bool changed) {
  proto::ChangeTaskReply reply;
  *reply.mutable_task() = task;
  reply.set_changed(changed);
  return reply;
}

TEST(Tasks, AreOneLineEach) {
  ScriptedSession session;
  proto::ListTasksReply reply;
  proto::TaskState& task = *reply.add_tasks();
  task = SamplePreload(0);
  task.set_done(2500);
  task.set_bytes(2'560'000);
  task.set_failed(1);
  task.set_not_kept(10);
  task.set_bytes_per_second(1'024'000);
  session.Answer(Method::kListTasks, reply);
  const Ran ran = RunForebay(session, {"tasks"});
  EXPECT_EQ(ran.exit, 0);
  EXPECT_EQ(ran.out,
            "ID   KIND     STATE    TOTAL   DONE  FAILED  NOT KEPT     BYTES        RATE     ETA  "
            "STARTED               TARGET\n"
            "t-1  preload  running  5,000  2,500       1        10  2.44 MiB  1000 KiB/s  2.50 s  "
            "2026-01-02T03:04:05Z  imagenet/train\n");
}

TEST(Task, OneThatIsNotThereIsLookedForAmongTasks) {
  ScriptedSession session;
  session.Refuse(Method::kGetTask, Error{Code::kNotFound, "no task 't-0'"});
  const Ran ran = RunForebay(session, {"task", "wait", "t-0", "-o", "json"});
  EXPECT_EQ(ran.exit, 1);
  EXPECT_THAT(ran.err, HasSubstr("`forebay tasks` shows which there are"));
}

TEST(Tasks, NoneIsSaid) {
  ScriptedSession session;
  session.Answer(Method::kListTasks, proto::ListTasksReply());
  EXPECT_EQ(RunForebay(session, {"tasks"}).out, "no tasks\n");
}

TEST(Task, ShowNamesWhatFailedAndWhy) {
  ScriptedSession session;
  proto::TaskState task = SamplePreload(2);
  task.set_failed(2000);
  for (int i = 0; i < 1000; ++i) {
    proto::TaskFailure& failure = *task.add_failures();
    failure.set_key("k\n" + std::to_string(i));
    failure.set_reason("S3 answered 412");
  }
  session.Answer(Method::kGetTask, task);
  const Ran ran = RunForebay(session, {"task", "show", "t-1"});
  EXPECT_EQ(ran.exit, 0);
  EXPECT_TRUE(session.Asked<proto::GetTaskRequest>(0).with_failures());
  EXPECT_THAT(ran.out, HasSubstr("t-1: preload of imagenet/train, failed\n"));
  EXPECT_THAT(ran.out, HasSubstr("the first 1,000 of the 2,000 objects that failed:\n"));
  EXPECT_THAT(ran.out, HasSubstr("  k\\n7: S3 answered 412\n"));
}

TEST(Task, ABackgroundFillSaysForWhomItIsAndWhyItEnded) {
  ScriptedSession session;
  proto::TaskState task = SampleFill(1);
  session.Answer(Method::kGetTask, task);
  Ran ran = RunForebay(session, {"task", "show", "t-1"});
  EXPECT_THAT(ran.out, HasSubstr("t-1: fill of imagenet, done\n"));
  EXPECT_THAT(ran.out, HasSubstr("  jobs      job-17\n"));
  EXPECT_THAT(ran.out, HasSubstr("  why       nothing is free in the cache any more\n"));
  task.set_no_room(false);
  task.set_job_left(true);
  session.Answer(Method::kGetTask, task);
  ran = RunForebay(session, {"task", "show", "t-1"});
  EXPECT_THAT(ran.out, HasSubstr("  why       no job reads the link any more\n"));
}

TEST(Status, NamesTheBackgroundFillsThatRun) {
  ScriptedSession session;
  session.Answer(Method::kStats, SampleStatsWithFill());
  EXPECT_THAT(RunForebay(session, {"status"}).out,
              HasSubstr("\nfilling      the rest of imagenet: 50.0 %, 2.50 s left (task t-1)\n"));
}

TEST(Task, CancelCanBeRepeated) {
  ScriptedSession session;
  session.Answer(Method::kCancelTask, Changed(SamplePreload(3), true));
  EXPECT_EQ(RunForebay(session, {"task", "cancel", "t-1"}).out,
            "task t-1 (preload of imagenet/train) is cancelled\n");
  session.Answer(Method::kCancelTask, Changed(SamplePreload(3), false));
  const Ran again = RunForebay(session, {"task", "cancel", "t-1"});
  EXPECT_EQ(again.exit, 0);
  EXPECT_EQ(again.out, "task t-1 (preload of imagenet/train) was cancelled already\n");
}

TEST(Task, RefusalsAreTheCoordinatorsSentence) {
  ScriptedSession session;
  session.Refuse(
      Method::kRetryTask,
      Error{Code::kInvalid, "task t-1 is done: only one that failed can be tried again"});
  const Ran ran = RunForebay(session, {"task", "retry", "t-1"});
  EXPECT_EQ(ran.exit, 2);
  EXPECT_THAT(ran.err, HasSubstr("only one that failed"));
  EXPECT_EQ(RunForebay(session, {"task", "stop", "t-1"}).exit, 2) << "no such action";
}

TEST(Task, RetryWaitsForTheNewEnd) {
  ScriptedSession session;
  session.Answer(Method::kRetryTask, Changed(SamplePreload(0), true));
  session.Answer(Method::kGetTask, SamplePreload(0));
  session.Answer(Method::kGetTask, SamplePreload(0));
  proto::TaskState done = SamplePreload(1);
  done.set_done(5000);
  session.Answer(Method::kGetTask, done);
  const Ran ran = RunForebay(session, {"task", "retry", "t-1"});
  EXPECT_EQ(ran.exit, 0) << ran.err;
  EXPECT_THAT(ran.out, HasSubstr("5,000 of 5,000 objects are cached"));
}

TEST(Task, WaitIsExit4AfterItsTimeoutAndSaysHowToComeBack) {
  ScriptedSession session;
  session.Answer(Method::kGetTask, SamplePreload(0));
  session.Answer(Method::kGetTask, SamplePreload(0));
  session.TimeOutAtPause(1);
  const Ran ran = RunForebay(session, {"task", "wait", "t-1", "--timeout", "1s"});
  EXPECT_EQ(ran.exit, 4);
  EXPECT_THAT(ran.err, HasSubstr("forebay task wait t-1"));
}

TEST(Task, WaitWorksForListingsToo) {
  ScriptedSession session;
  proto::TaskState listing = SamplePreload(1);
  listing.set_kind("link");
  listing.set_target("imagenet");
  session.Answer(Method::kGetTask, listing);
  session.Answer(Method::kGetTask, listing);
  const Ran ran = RunForebay(session, {"task", "wait", "t-1"});
  EXPECT_EQ(ran.exit, 0);
  EXPECT_THAT(ran.out, HasSubstr("t-1: link of imagenet, done"));
}

}  // namespace
}  // namespace forebay::testing
