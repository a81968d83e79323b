#include "coordinator/task_book.h"

#include <gtest/gtest.h>

#include "tests/unit/coordinator/testing.h"

namespace forebay {
namespace {

TEST(TaskBook, ShowsProgressAndTheEnd) {
  TaskBook book;
  const proto::TaskState task = TaskBook::Begin("link", "imagenet");
  book.Commit(task);
  book.Progress(task.id(), 10, 1000);
  EXPECT_EQ(book.Find(task.id())->done(), 10u);
  book.Commit(TaskBook::Ended(*book.Find(task.id()), "denied"));
  EXPECT_EQ(book.Find(task.id())->state(), static_cast<std::uint32_t>(TaskPhase::kFailed));
  EXPECT_EQ(book.Find(task.id())->error(), "denied");
  EXPECT_EQ(book.Find(task.id())->bytes(), 1000u);
  EXPECT_EQ(book.FailedSince(0).size(), 1u);
  EXPECT_TRUE(book.FailedSince(book.Find(task.id())->ended_unix_s() + 1).empty());
}

TEST(TaskBook, ShowsWhatARunningTaskWaitsForUntilItEnds) {
  TaskBook book;
  const proto::TaskState task = TaskBook::Begin("link", "imagenet");
  book.Commit(task);
  EXPECT_TRUE(book.ShowWaiting(task.id(), "no route to host"));
  EXPECT_FALSE(book.ShowWaiting(task.id(), "connection refused")) << "it waited before";
  EXPECT_EQ(book.Find(task.id())->waiting(), "connection refused");
  EXPECT_TRUE(book.ShowWaiting(task.id(), ""));
  EXPECT_FALSE(book.ShowWaiting(task.id(), ""));
  EXPECT_TRUE(book.ShowWaiting(task.id(), "no route to host"));
  book.Commit(TaskBook::Ended(*book.Find(task.id()), "denied"));
  EXPECT_EQ(book.Find(task.id())->waiting(), "");
  EXPECT_FALSE(book.ShowWaiting(task.id(), "late"));
  EXPECT_EQ(book.Find(task.id())->waiting(), "");
}

TEST(TaskBook, KeepsTheLatestHundredThatEndedAndAllThatRun) {
  TaskBook book;
  const proto::TaskState running = TaskBook::Begin("link", "runs");
  book.Commit(running);
  std::string first;
  for (int i = 0; i < 101; ++i) {
    proto::TaskState task = TaskBook::Ended(TaskBook::Begin("link", "x"), "");
    task.set_ended_unix_s(1000 + i);
    if (i == 0) first = task.id();
    book.Commit(task);
  }
  EXPECT_FALSE(book.Find(first).has_value());
  EXPECT_TRUE(book.Find(running.id()).has_value());
  ASSERT_EQ(book.TakeExpiredKeys().size(), 1u);
  EXPECT_TRUE(book.TakeExpiredKeys().empty());
}

/// Ended at `second`.
proto::TaskState EndedAt(const std::string& kind, int second, bool periodic, std::uint64_t added) {
  proto::TaskState task = TaskBook::Ended(TaskBook::Begin(kind, "x"), "");
  task.set_ended_unix_s(second);
  task.set_periodic(periodic);
  task.set_added(added);
  return task;
}

TEST(TaskBook, RefreshesPushOutNoPreload) {
  TaskBook book;
  const proto::TaskState preload = EndedAt("preload", 1, false, 0);
  book.Commit(preload);
  for (int i = 0; i < 150; ++i) book.Commit(EndedAt("refresh", 1000 + i, false, 0));
  EXPECT_TRUE(book.Find(preload.id()).has_value());
  EXPECT_EQ(book.All().size(), 101u);
  EXPECT_EQ(book.TakeExpiredKeys().size(), 50u);
}

TEST(TaskBook, PeriodicRefreshesThatFoundNothingPushOutNoneThatDid) {
  TaskBook book;
  const proto::TaskState asked = EndedAt("refresh", 1, false, 0);
  const proto::TaskState found = EndedAt("refresh", 2, true, 7);
  proto::TaskState failed = EndedAt("refresh", 3, true, 0);
  failed.set_state(static_cast<std::uint32_t>(TaskPhase::kFailed));
  for (const proto::TaskState& task : {asked, found, failed}) book.Commit(task);
  std::string newest;
  for (int i = 0; i < 300; ++i) {
    const proto::TaskState nothing = EndedAt("refresh", 1000 + i, true, 0);
    newest = nothing.id();
    book.Commit(nothing);
  }
  for (const proto::TaskState& task : {asked, found, failed})
    EXPECT_TRUE(book.Find(task.id()).has_value());
  EXPECT_TRUE(book.Find(newest).has_value());
  EXPECT_EQ(book.All().size(), 3 + TaskBook::kUneventfulKept);
}

TEST(TaskBook, ListsTheOldestFirstAndShowsOnlyRunningOnesAnew) {
  TaskBook book;
  for (int i = 0; i < 3; ++i) {
    proto::TaskState task = TaskBook::Begin("preload", std::to_string(i));
    task.set_started_unix_ms(1000 - i);
    book.Commit(task);
  }
  const std::vector<proto::TaskState> all = book.All();
  ASSERT_EQ(all.size(), 3u);
  EXPECT_EQ(all[0].target(), "2");
  EXPECT_EQ(all[2].target(), "0");
  proto::TaskState task = all[0];
  task.set_bytes(7);
  book.Show(task);
  EXPECT_EQ(book.Get(task.id())->bytes(), 7u);
  book.Commit(TaskBook::Ended(task, ""));
  task.set_bytes(8);
  book.Show(task);
  EXPECT_EQ(book.Get(task.id())->bytes(), 7u);
  EXPECT_EQ(book.Get("t-none").error().code, Code::kNotFound);
}

TEST(TaskBook, KeepsTheFirstThousandFailuresOverARestart) {
  MemoryStateStore store;
  const std::uint64_t fence = *store.Claim();
  TaskBook book;
  const proto::TaskState task = TaskBook::Begin("preload", "x");
  book.Commit(task);
  for (int i = 0; i < 11; ++i) {
    std::vector<proto::TaskFailure> failures(100);
    for (proto::TaskFailure& failure : failures) failure.set_key("key " + std::to_string(i));
    book.AddFailures(task.id(), failures);
  }
  StateBatch batch;
  TaskBook::Put(batch, task);
  book.PutFailures(batch, task.id());
  ASSERT_TRUE(store.Write(batch, fence).has_value());
  TaskBook restarted;
  ASSERT_TRUE(restarted.Load(store).has_value());
  const proto::TaskFailures failures = restarted.Failures(task.id());
  ASSERT_EQ(failures.failures_size(), TaskBook::kFailuresKept);
  EXPECT_EQ(failures.failures(0).key(), "key 0");
  EXPECT_EQ(failures.failures(999).key(), "key 9");
  restarted.ClearFailures(task.id());
  StateBatch cleared;
  restarted.PutFailures(cleared, task.id());
  ASSERT_TRUE(store.Write(cleared, fence).has_value());
  EXPECT_TRUE(store.Scan("task_failures/")->empty());
}

TEST(TaskBook, SurvivesARestart) {
  MemoryStateStore store;
  const std::uint64_t fence = *store.Claim();
  const proto::TaskState task = TaskBook::Begin("link", "imagenet");
  StateBatch batch;
  TaskBook::Put(batch, task);
  ASSERT_TRUE(store.Write(batch, fence).has_value());
  TaskBook book;
  ASSERT_TRUE(book.Load(store).has_value());
  EXPECT_EQ(book.Find(task.id())->target(), "imagenet");
}

}  // namespace
}  // namespace forebay
