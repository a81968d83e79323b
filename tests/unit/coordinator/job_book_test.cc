#include "coordinator/job_book.h"

#include <gtest/gtest.h>

#include "common/wire/messages.h"

namespace forebay {
namespace {

using std::chrono::hours;
using std::chrono::minutes;
using std::chrono::seconds;

class JobBookTest : public ::testing::Test {
 protected:
  proto::MountJob Row(const std::string& job, std::uint64_t reads, std::uint64_t serial = 1) const {
    proto::MountJob row;
    row.set_job(job);
    row.set_link(BytesOf(link_));
    row.set_serial(serial);
    row.set_generation(3);
    row.set_link_blocks(100);
    row.set_processes(2);
    row.mutable_waits()->set_reads(reads);
    row.mutable_waits()->set_s3_us(reads * 10);
    return row;
  }
  proto::JobProgress Report(std::uint64_t mount, const proto::MountJob& row) {
    proto::ReportJobsRequest request;
    request.set_incarnation(mount);
    *request.add_jobs() = row;
    proto::ReportJobsReply reply;
    second_epochs_ += book_.Report(request, now_, reply).size();
    return reply.jobs(0);
  }
  JobBook::View View(const std::string& job) const {
    const auto jobs = book_.Jobs(now_);
    const auto found = jobs.find(JobKey{job, link_});
    return found == jobs.end() ? JobBook::View() : found->second;
  }
  static void AddTouches(proto::MountJob& row, std::uint32_t from, std::uint32_t until) {
    for (std::uint32_t i = from; i < until; ++i) row.add_touched(i * 8);
  }

  const Uuid link_ = Uuid::Random();
  TimePoint now_ = Clock::now();
  JobBook book_;
  std::size_t second_epochs_ = 0;
};

TEST_F(JobBookTest, MountsOfOneJobAddUp) {
  Report(1, Row("a", 10));
  Report(2, Row("a", 5));
  Report(2, Row("b", 7, 2));
  EXPECT_EQ(View("a").waits.reads(), 15u);
  EXPECT_EQ(View("a").waits.s3_us(), 150u);
  EXPECT_EQ(View("a").mounts, 2u);
  EXPECT_EQ(View("a").processes, 4u);
  EXPECT_EQ(View("a").generation, 3u);
  EXPECT_EQ(View("b").mounts, 1u);
}

TEST_F(JobBookTest, TheListingIsThatOfTheNewestGenerationThatAMountReads) {
  proto::MountJob row = Row("a", 1);
  row.set_listing_digest("third");
  Report(1, row);
  EXPECT_EQ(View("a").listing_digest, "third");
  proto::MountJob newer = row;
  newer.set_generation(4);
  newer.set_listing_digest("fourth");
  Report(2, newer);
  Report(1, row);
  EXPECT_EQ(View("a").generation, 4u);
  EXPECT_EQ(View("a").listing_digest, "fourth");
}

TEST_F(JobBookTest, AReportThatComesTwiceCountsOnce) {
  Report(1, Row("a", 10));
  Report(1, Row("a", 10));
  EXPECT_EQ(View("a").waits.reads(), 10u);
}

TEST_F(JobBookTest, WhatEndedStaysInTheSum) {
  proto::MountJob last = Row("a", 10);
  last.set_ended(true);
  Report(1, last);
  EXPECT_EQ(View("a").mounts, 0u);
  now_ += minutes(6);
  book_.Tidy(now_);
  EXPECT_EQ(View("a").waits.reads(), 10u);
  Report(1, Row("a", 3, 2));
  EXPECT_EQ(View("a").waits.reads(), 13u) << "a new serial of the same mount";
  EXPECT_EQ(View("a").mounts, 1u);
}

TEST_F(JobBookTest, ASilentMountNoLongerReadsAndComesBackWithoutCountingTwice) {
  Report(1, Row("a", 10));
  now_ += seconds(91);
  book_.Tidy(now_);
  EXPECT_EQ(View("a").mounts, 0u);
  now_ += hours(1);
  book_.Tidy(now_);
  Report(1, Row("a", 12));
  EXPECT_EQ(View("a").waits.reads(), 12u);
  EXPECT_EQ(View("a").mounts, 1u);
}

TEST_F(JobBookTest, TwoMountsThatReadHalfEachAreOneEpochTogether) {
  proto::MountJob half = Row("a", 50);
  AddTouches(half, 0, 50);
  EXPECT_NEAR(Report(1, half).progress(), 0.5, 0.01);
  proto::MountJob other = Row("a", 50);
  AddTouches(other, 50, 100);
  const proto::JobProgress all = Report(2, other);
  EXPECT_EQ(all.epoch(), 1u);
  EXPECT_NEAR(all.progress(), 1, 0.01);
  EXPECT_EQ(all.touched_until(), 50u);
  EXPECT_EQ(second_epochs_, 0u);

  proto::MountJob again = Row("a", 60);
  again.set_touched_from(50);
  AddTouches(again, 50, 60);
  EXPECT_EQ(Report(1, again).epoch(), 2u);
  EXPECT_EQ(second_epochs_, 1u);
}

TEST_F(JobBookTest, WhoReadsALinkIsKnownByNameUntilItsMountsSayThatItEnded) {
  const JobKey a{"a", link_};
  EXPECT_FALSE(book_.HasEnded(a)) << "nobody has told of it";
  Report(1, Row("a", 1));
  Report(2, Row("a", 1));
  Report(2, Row("b", 1, 2));
  EXPECT_EQ(book_.Readers(link_, now_), (std::set<std::string>{"a", "b"}));
  EXPECT_TRUE(book_.Readers(Uuid::Random(), now_).empty());
  proto::MountJob over = Row("a", 1);
  over.set_ended(true);
  Report(1, over);
  EXPECT_FALSE(book_.HasEnded(a)) << "at the other mount it goes on";
  Report(2, over);
  EXPECT_TRUE(book_.HasEnded(a));
  EXPECT_EQ(book_.Readers(link_, now_), std::set<std::string>{"b"});
  now_ += JobBook::kMountSilent;
  EXPECT_TRUE(book_.Readers(link_, now_).empty());
  EXPECT_FALSE(book_.HasEnded({"b", link_})) << "it may be silent";
  now_ += JobBook::kEndedKept;
  book_.Tidy(now_);
  EXPECT_TRUE(book_.HasEnded(a)) << "also when its mounts are forgotten";
}

TEST_F(JobBookTest, TouchesWhoseConfirmationWasLostAreTakenOnce) {
  proto::MountJob row = Row("a", 100);
  AddTouches(row, 0, 100);
  EXPECT_EQ(Report(1, row).epoch(), 1u);
  EXPECT_EQ(Report(1, row).epoch(), 1u) << "else the repetition would be the next epoch";
  EXPECT_EQ(Report(1, row).touched_until(), 100u);
}

TEST_F(JobBookTest, AfterARestartTheMountsSayWhichEpochItWas) {
  proto::MountJob row = Row("a", 100);
  row.set_epoch(9);
  AddTouches(row, 0, 10);
  EXPECT_EQ(Report(1, row).epoch(), 9u);
  EXPECT_NEAR(View("a").progress, 0.1, 0.01);
}

TEST_F(JobBookTest, AnUnknownSizeIsAnUnknownEpoch) {
  proto::MountJob row = Row("a", 100);
  row.set_link_blocks(0);
  EXPECT_EQ(Report(1, row).epoch(), 0u);
}

TEST_F(JobBookTest, NonsenseChangesNothing) {
  Report(1, Row("", 10));
  Report(1, Row(std::string(256, 'j'), 10));
  EXPECT_TRUE(book_.Jobs(now_).empty());
  proto::MountJob row = Row("a", 1);
  row.add_touched(1 << 30);
  EXPECT_EQ(Report(1, row).progress(), 0);
}

TEST_F(JobBookTest, JobsAreForgottenAfterADay) {
  Report(1, Row("a", 10));
  now_ += hours(25);
  book_.Tidy(now_);
  EXPECT_TRUE(book_.Jobs(now_).empty());
}

TEST_F(JobBookTest, TheNumberOfJobsIsBounded) {
  for (std::size_t i = 0; i < kMaxJobsShown + 10; ++i) {
    proto::MountJob row = Row("j" + std::to_string(i), 1);
    row.set_link_blocks(0);
    now_ += std::chrono::milliseconds(1);
    Report(1, row);
  }
  EXPECT_EQ(book_.Jobs(now_).size(), kMaxJobsShown);
  EXPECT_EQ(View("j0").waits.reads(), 0u);
  EXPECT_EQ(View("j100").waits.reads(), 1u);
}

// A peer that names ever new mounts and jobs has the coordinator keep no more than it ever does.
TEST_F(JobBookTest, TheNumberOfMountsIsBoundedOverAllJobs) {
  const auto report = [&](const std::string& job, std::uint64_t first, std::size_t count,
                          bool ended) {
    for (std::size_t done = 0; done < count;) {
      proto::ReportJobsRequest request;
      request.set_incarnation(7);
      for (; done < count && request.jobs_size() < 4096; ++done) {
        proto::MountJob& row = *request.add_jobs();
        row = Row(job, 1, first + done);
        row.set_ended(ended);
      }
      proto::ReportJobsReply reply;
      book_.Report(request, now_, reply);
      ASSERT_LE(book_.mounts(), JobBook::kMaxMounts);
    }
    now_ += std::chrono::milliseconds(1);
  };
  constexpr std::size_t kHalf = JobBook::kMaxMounts / 2;
  Report(1, Row("first", 5));
  report("a", 1, kHalf, false);
  report("over", 1, kHalf - 1, true);
  EXPECT_EQ(book_.mounts(), JobBook::kMaxMounts);
  report("b", 1, 100, false);
  EXPECT_EQ(View("first").mounts, 1u) << "those that ended leave first";
  EXPECT_EQ(View("a").mounts, kHalf);
  EXPECT_EQ(View("over").waits.reads(), kHalf - 1) << "what they have read stays in the sum";
  report("b", 101, JobBook::kMaxMounts, false);
  EXPECT_EQ(View("first").mounts, 0u) << "and then those heard least recently";
  EXPECT_EQ(View("first").waits.reads(), 5u);
  EXPECT_GT(View("b").mounts, kHalf);
  now_ += hours(25);
  book_.Tidy(now_);
  EXPECT_EQ(book_.mounts(), 0u);
}

TEST_F(JobBookTest, WhatIsSaidOfNodesIsBounded) {
  for (std::uint64_t mount = 0; mount < 80; ++mount) {
    proto::ReportJobsRequest request;
    request.set_incarnation(mount);
    for (int i = 0; i < 4096; ++i) request.add_nodes()->set_node("n" + std::to_string(i));
    request.mutable_nodes(0)->set_node(std::string(256, 'n'));
    proto::ReportJobsReply reply;
    book_.Report(request, now_, reply);
  }
  EXPECT_EQ(book_.answers(), JobBook::kMaxAnswers);
  EXPECT_FALSE(book_.SlowNodes(now_).contains(std::string(256, 'n')));
  now_ += hours(25);
  book_.Tidy(now_);
  EXPECT_EQ(book_.answers(), 0u);
  proto::MountJob row = Row("a", 1);
  row.set_listing_digest(std::string(1000, 'd'));
  Report(1, row);
  EXPECT_LT(View("a").listing_digest.size(), 256u);
}

TEST_F(JobBookTest, NodesAreJudgedByTheMountsOfTheJob) {
  const auto report = [&](std::uint64_t mount, const std::string& job, std::uint64_t reads) {
    proto::ReportJobsRequest request;
    request.set_incarnation(mount);
    *request.add_jobs() = Row(job, 1);
    proto::NodeAnswers& answers = *request.add_nodes();
    answers.set_node("n1");
    answers.set_reads(reads);
    answers.set_wait_us(reads * 100);
    proto::ReportJobsReply reply;
    book_.Report(request, now_, reply);
  };
  report(1, "a", 10);
  report(2, "a", 5);
  report(2, "a", 6);
  report(3, "b", 100);
  const auto answers = book_.AnswersTo("a");
  ASSERT_EQ(answers.size(), 1u);
  EXPECT_EQ(answers.at("n1").reads(), 16u);
  EXPECT_EQ(answers.at("n1").wait_us(), 1600u);
}

TEST_F(JobBookTest, ANodeIsSlowWhenItIsToMostOfTheMountsThatReadFromIt) {
  const auto report = [&](std::uint64_t mount, bool slow) {
    proto::ReportJobsRequest request;
    request.set_incarnation(mount);
    *request.add_jobs() = Row("a", 1);
    proto::NodeAnswers& answers = *request.add_nodes();
    answers.set_node("n1");
    answers.set_slow(slow);
    proto::ReportJobsReply reply;
    book_.Report(request, now_, reply);
  };
  report(1, false);
  report(2, false);
  EXPECT_TRUE(book_.SlowNodes(now_).empty());
  report(3, true);
  EXPECT_TRUE(book_.SlowNodes(now_).empty()) << "its own way there is slow, the node is not";
  report(1, true);
  EXPECT_EQ(book_.SlowNodes(now_), (std::map<std::string, std::uint32_t>{{"n1", 2}}));
  report(3, false);
  EXPECT_TRUE(book_.SlowNodes(now_).empty());
  report(3, true);
  now_ += JobBook::kMountSilent + std::chrono::seconds(1);
  report(2, false);
  EXPECT_TRUE(book_.SlowNodes(now_).empty()) << "who is not heard any more has no say";
}

}  // namespace
}  // namespace forebay
