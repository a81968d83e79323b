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
