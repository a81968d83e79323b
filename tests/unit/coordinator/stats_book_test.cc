#include "coordinator/stats_book.h"

#include <gtest/gtest.h>

#include "common/wire/messages.h"

namespace forebay {
namespace {

using std::chrono::seconds;

proto::HeartbeatRequest Beat(const std::string& node, std::uint64_t incarnation, const Uuid& link,
                             std::uint64_t reads, std::uint64_t cached_bytes = 0) {
  proto::HeartbeatRequest beat;
  beat.set_node_id(node);
  beat.set_incarnation(incarnation);
  proto::LinkCounters& row = *beat.add_links();
  row.set_link(BytesOf(link));
  row.set_reads(reads);
  row.set_hit_bytes(reads * 10);
  row.set_cached_bytes(cached_bytes);
  row.set_cached_blocks(cached_bytes / 100);
  return beat;
}

class StatsBookTest : public testing::Test {
 protected:
  StatsBook book;
  const Uuid link = Uuid::Random();
  TimePoint now = TimePoint() + std::chrono::hours(1000);
};

TEST_F(StatsBookTest, NodesAddUp) {
  book.Report(Beat("n1", 1, link, 5), now);
  book.Report(Beat("n2", 1, link, 7), now);
  EXPECT_EQ(book.LinkTotals(link).reads, 12u);
  EXPECT_EQ(book.LinkTotals(link).hit_bytes, 120u);
  EXPECT_EQ(book.NodeTotals("n2").reads, 7u);
  EXPECT_EQ(book.LinkTotals(Uuid::Random()).reads, 0u);
}

TEST_F(StatsBookTest, ARestartedNodeDoesNotTakeItsShareAway) {
  book.Report(Beat("n1", 1, link, 100), now);
  book.Report(Beat("n1", 2, link, 3), now);
  EXPECT_EQ(book.LinkTotals(link).reads, 103u);
  book.Report(Beat("n1", 2, link, 4), now);
  EXPECT_EQ(book.LinkTotals(link).reads, 104u);
}

TEST_F(StatsBookTest, AnOlderReportOfTheSameProcessLowersNothing) {
  book.Report(Beat("n1", 1, link, 100), now);
  book.Report(Beat("n1", 1, link, 90), now);
  EXPECT_EQ(book.LinkTotals(link).reads, 100u);
}

TEST_F(StatsBookTest, ARestartOfTheCoordinatorNeitherLosesNorDoubles) {
  book.Report(Beat("n1", 1, link, 100), now);
  book.Report(Beat("n1", 2, link, 20), now);
  book.Report(Beat("n2", 9, link, 7), now);

  StatsBook next;
  for (const auto& [id, stored] : book.TakeUnsaved()) next.Restore(id, stored);
  EXPECT_EQ(next.LinkTotals(link), book.LinkTotals(link));
  next.Report(Beat("n1", 2, link, 25), now);  // the same process goes on
  next.Report(Beat("n2", 10, link, 1), now);  // another one
  EXPECT_EQ(next.LinkTotals(link).reads, 100u + 25u + 7u + 1u);
}

TEST_F(StatsBookTest, OnlyWhatChangedIsStoredAgain) {
  book.Report(Beat("n1", 1, link, 1), now);
  EXPECT_EQ(book.TakeUnsaved().size(), 1u);
  book.Report(Beat("n1", 1, link, 1), now);
  EXPECT_TRUE(book.TakeUnsaved().empty());
  book.MarkUnsaved("n1");
  EXPECT_EQ(book.TakeUnsaved().size(), 1u);
}

TEST_F(StatsBookTest, CachedBytesAreThoseOfPresentNodesAlone) {
  book.Report(Beat("n1", 1, link, 1, 500), now);
  book.Report(Beat("n2", 1, link, 1, 300), now);
  EXPECT_EQ(book.LinkCached(link, {"n1", "n2"}).bytes, 800u);
  EXPECT_EQ(book.LinkCached(link, {"n2"}).blocks, 3u);
  book.Report(Beat("n1", 2, link, 1, 100), now);
  EXPECT_EQ(book.LinkCached(link, {"n1", "n2"}).bytes, 400u) << "a gauge is never folded";
}

TEST_F(StatsBookTest, RoomIsWhatIsFreeAndWhatIdleLinksGiveAway) {
  const Uuid target = Uuid::Random();
  LinkPriorities priorities;
  EXPECT_EQ(book.NodeRoom("n1", 32'000, target, priorities), 31'000u) << "not heard of yet";
  proto::HeartbeatRequest beat = Beat("n1", 1, link, 1, 500);
  proto::DiskReport& disk = *beat.add_disks();
  disk.set_capacity_bytes(2000);
  disk.set_usable_bytes(1900);
  disk.set_used_bytes(1000);  // twice the bytes of the blocks
  proto::DiskReport& broken = *beat.add_disks();
  broken.set_capacity_bytes(9000);
  broken.set_used_bytes(9000);
  beat.mutable_links(0)->set_pinned_bytes(100);
  book.Report(beat, now);
  EXPECT_EQ(book.NodeUsable("n1", 32'000), 1900u);
  EXPECT_EQ(book.NodeRoom("n1", 32'000, target, priorities), 1900u - 200u)
      << "all but what is pinned";
  EXPECT_EQ(book.NodeRoom("n1", 32'000, link, priorities), 900u)
      << "a link replaces nothing of its own";
  beat.mutable_links(0)->set_in_use(true);
  book.Report(beat, now);
  EXPECT_EQ(book.NodeRoom("n1", 32'000, target, priorities), 900u);
  priorities[target] = LinkPriority::kHigh;
  EXPECT_EQ(book.NodeRoom("n1", 32'000, target, priorities), 1900u - 200u) << "though it is in use";
  beat.mutable_links(0)->set_in_use(false);
  book.Report(beat, now);
  priorities[link] = LinkPriority::kHigh;
  priorities[target] = LinkPriority::kNormal;
  EXPECT_EQ(book.NodeRoom("n1", 32'000, target, priorities), 900u) << "however idle";
}

TEST_F(StatsBookTest, AWindowBeginsAtTheYoungestSampleThatIsOldEnough) {
  EXPECT_TRUE(book.Begin(seconds(60), now).links.empty());
  for (std::uint64_t i = 0; i <= 20; ++i) {
    book.Report(Beat("n1", 1, link, i * 10), now);
    book.Sample(now);
    now += StatsBook::kSampleEvery;
  }
  // Samples at 0, 5 … 100 s; it is 105 s.
  const StatsBook::Window minute = book.Begin(seconds(60), now);
  EXPECT_EQ(minute.length, seconds(60));
  EXPECT_EQ(book.LinkTotals(link).Since(minute.links.at(link)).reads, 110u);
  EXPECT_EQ(book.Begin(std::chrono::hours(2), now).length, seconds(105)) << "as far as it goes";
}

TEST_F(StatsBookTest, SamplesOlderThanAnHourAreDropped) {
  for (int i = 0; i < 1000; ++i) {
    book.Sample(now);
    now += StatsBook::kSampleEvery;
  }
  EXPECT_LE(book.Begin(std::chrono::hours(9), now).length,
            StatsBook::kSamplesKept + StatsBook::kSampleEvery);
}

TEST_F(StatsBookTest, JobsAddUpOverNodesAndTheirRestarts) {
  const auto beat = [&](const std::string& node, std::uint64_t incarnation, std::uint64_t reads) {
    proto::HeartbeatRequest request;
    request.set_node_id(node);
    request.set_incarnation(incarnation);
    proto::JobCounters& job = *request.add_jobs();
    job.set_job("train-1");
    job.set_link(BytesOf(link));
    job.set_reads(reads);
    job.set_hits(reads / 2);
    book.Report(request, now);
  };
  beat("n1", 1, 10);
  beat("n2", 1, 20);
  beat("n1", 2, 4);
  const JobKey key{.job = "train-1", .link = link};
  EXPECT_EQ(book.Jobs().at(key).reads, 34u);
  EXPECT_EQ(book.Jobs().at(key).hits, 17u);
  now += std::chrono::hours(25);
  proto::HeartbeatRequest quiet;
  quiet.set_node_id("n1");
  quiet.set_incarnation(2);
  book.Report(quiet, now);
  book.Sample(now);
  EXPECT_TRUE(book.Jobs().empty()) << "a job of yesterday is not shown";
}

TEST_F(StatsBookTest, AJobThatANodeForgotAndThatReadsAgainAddsUp) {
  const JobKey key{.job = "train-1", .link = link};
  const auto beat = [&](std::uint64_t reads) {
    proto::HeartbeatRequest request;
    request.set_node_id("n1");
    request.set_incarnation(1);
    if (reads > 0) {
      proto::JobCounters& job = *request.add_jobs();
      job.set_job(key.job);
      job.set_link(BytesOf(link));
      job.set_reads(reads);
    }
    book.Report(request, now);
  };
  beat(10);
  beat(10);
  EXPECT_EQ(book.Jobs().at(key).reads, 10u);
  beat(0);
  beat(0);
  EXPECT_EQ(book.Jobs().at(key).reads, 10u);
  beat(4);
  EXPECT_EQ(book.Jobs().at(key).reads, 14u);
  beat(3);  // forgotten and read again between two heartbeats
  EXPECT_EQ(book.Jobs().at(key).reads, 17u);
}

TEST_F(StatsBookTest, TheNumberOfJobsIsBounded) {
  proto::HeartbeatRequest request;
  request.set_node_id("n1");
  request.set_incarnation(1);
  for (std::size_t i = 0; i < kMaxJobsShown + 10; ++i) {
    request.clear_jobs();
    proto::JobCounters& job = *request.add_jobs();
    job.set_job("j" + std::to_string(i));
    job.set_link(BytesOf(link));
    job.set_reads(1);
    now += std::chrono::milliseconds(1);
    book.Report(request, now);
  }
  book.Sample(now);
  EXPECT_EQ(book.Jobs().size(), kMaxJobsShown);
  EXPECT_FALSE(book.Jobs().contains(JobKey{.job = "j0", .link = link}));
}

TEST_F(StatsBookTest, ChecksumFailuresSurviveARestart) {
  proto::HeartbeatRequest beat;
  beat.set_node_id("n1");
  beat.set_incarnation(1);
  beat.set_checksum_failures(2);
  book.Report(beat, now);
  beat.set_incarnation(2);
  beat.set_checksum_failures(1);
  book.Report(beat, now);
  EXPECT_EQ(book.NodeChecksumFailures("n1"), 3u);
}

}  // namespace
}  // namespace forebay
