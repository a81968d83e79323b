#include <cstdint>

#include "cachenode/cluster_view.h"
#include "common/base/bucket_counts.h"
#include "tests/component/store/store_fixture.h"
#include "tests/fakes/file_system.h"
#include "tests/fakes/lock_count.h"
#include "tests/unit/cachenode/reader_rig.h"

namespace forebay {
namespace {

constexpr int kAttempts = 100;  // a kernel may take pages away at any moment

/// What Service does for a read of a block that is here.
Task<Result<std::uint64_t>> LocksOfRead(ClusterView& cluster, BlockReader& reader,
                                        BucketCounts& durations, CheckedRead read) {
  const TimePoint begin = Clock::now();
  const std::uint64_t before = fakes::LocksTaken();
  read.link = cluster.FindLink(read.link->id);
  const Result<Cells> cells = co_await reader.Read(std::move(read), Patience());
  durations.Observe(Clock::now() - begin);
  const std::uint64_t taken = fakes::LocksTaken() - before;
  if (!cells) co_return Fail(cells.error());
  co_return taken;
}

class NodeHit : public ReaderRig {
 protected:
  fakes::TempDir dir_;
  TestStore disk_{OneDirectory(dir_ / "cache")};
};

TEST_F(NodeHit, FromTheLinkToTheTallyTakesNoLock) {
  if (!fakes::KnowsNoWait(dir_.path())) GTEST_SKIP() << "this file system has no RWF_NOWAIT";
  ASSERT_TRUE(disk_.open());
  ClusterView cluster;
  cluster.SetLinks({*link_}, 1);
  BucketCounts durations(metric::kReadDuration);
  ReplyRoom replies(1 << 20);
  BlockReader reader(*disk_, filler_, replies, counters_, history_);
  CheckedRead read = ReadOf(TestObject("data/a", kBlock), 0, {0, kBlock});
  read.request.job = "a job whose name is longer than a short string";
  ASSERT_TRUE(disk_.Admit(link_->id, read.request.block).has_value());
  // The first reads open the segment and make the counters of link and job.
  bool in_place = false;
  for (int i = 0; i < kAttempts && !in_place; ++i) {
    const std::uint64_t before = disk_->counters().reads_in_place;
    const Result<std::uint64_t> locks =
        fakes::RunTask(LocksOfRead(cluster, reader, durations, read));
    ASSERT_TRUE(locks.has_value()) << locks.error().message;
    in_place = i > 0 && disk_->counters().reads_in_place == before + 1;
    if (in_place) {
      EXPECT_EQ(*locks, 0U);
    }
  }
  ASSERT_TRUE(in_place);
  EXPECT_GE(count().hits, 2U);
  ASSERT_EQ(counters_.Jobs().size(), 1U);
  EXPECT_EQ(counters_.Jobs()[0].reads, count().reads) << "each read is counted all the same";
  EXPECT_EQ(history_.Find(read.request.block).job, read.request.job);
}

}  // namespace
}  // namespace forebay
