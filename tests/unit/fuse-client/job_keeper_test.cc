#include "fuse-client/job_keeper.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <memory>

#include "fuse-client/supervisor/handover.h"
#include "fuse-client/supervisor/request_slots.h"

namespace forebay {
namespace {

using std::chrono::milliseconds;

/// A supervisor and, one after the other, its workers.
class JobKeeperTest : public ::testing::Test {
 protected:
  std::unique_ptr<Keeper> NextWorker() {
    auto ends = HandoverChannel::Pair();
    EXPECT_TRUE(ends);
    supervisor_ = std::move(ends->first);
    const auto slots = RequestSlots::Create(1);
    EXPECT_TRUE(slots);
    EXPECT_TRUE(
        supervisor_.Send(HandoverKind::kHello, std::to_string(kHandoverFormat), "", slots->fd()));
    for (const auto& [key, kept] : kept_) {
      EXPECT_TRUE(supervisor_.Send(HandoverKind::kKept, key, kept.value));
    }
    EXPECT_TRUE(supervisor_.Send(HandoverKind::kGo, "", ""));
    auto keeper = Keeper::Connect(OwnedFd(::dup(ends->second.fd())));
    EXPECT_TRUE(keeper);
    EXPECT_TRUE(supervisor_.Receive(true));  // it is prepared
    return std::move(*keeper);
  }

  void TakeMessages() {
    while (auto message = supervisor_.Receive(false)) {
      if (message->kind == HandoverKind::kKeep) {
        kept_[message->key].value = message->value;
      } else {
        std::erase_if(kept_, [&](const auto& e) { return e.first.starts_with(message->key); });
      }
    }
  }

  static void Read(JobTable& table, const std::string& id) {
    const std::shared_ptr<JobReads> job = table.Open(id, kLink);
    const TimePoint now = Clock::now();
    ASSERT_TRUE(job->Begin(now));
    ReadOutcome outcome;
    outcome.bytes[static_cast<std::size_t>(Tier::kS3)] = 1000;
    outcome.slowest = Tier::kS3;
    job->End(now, now + milliseconds(20), outcome);
    job->Touch(BlockId{.version = {}, .offset = 0, .length = 4096});
  }

  static constexpr Uuid kLink{.bytes = {1, 2, 3}};
  HandoverChannel supervisor_;
  KeptEntries kept_;
};

LinkFacts Facts() { return LinkFacts{.name = "data", .generation = 7, .blocks = 100}; }

TEST_F(JobKeeperTest, TheNextWorkerGoesOnWithTheJobs) {
  const auto first = NextWorker();
  JobTable before("own");
  before.SetLink(kLink, Facts());
  JobKeeper keeping(*first, before);
  EXPECT_EQ(keeping.Resume(), std::nullopt);
  Read(before, "j1");
  Read(before, "j1");
  Read(before, "j2");
  before.answers().Count("n1", milliseconds(5));
  keeping.Save(4711);
  TakeMessages();

  const auto second = NextWorker();
  JobTable after("own");
  JobKeeper resuming(*second, after);
  EXPECT_EQ(resuming.Resume(), 4711U);
  after.SetLink(kLink, Facts());
  const std::shared_ptr<JobReads> job = after.Open("j1", kLink);
  EXPECT_EQ(job->serial(), before.Open("j1", kLink)->serial());
  EXPECT_EQ(job->facts().generation, 7U);
  EXPECT_EQ(job->Look().totals.reads, 2U);
  EXPECT_EQ(job->Look().totals.bytes[static_cast<std::size_t>(Tier::kS3)], 2000U);
  EXPECT_EQ(job->Look().totals.AllWaits(), milliseconds(40));
  EXPECT_EQ(job->Unconfirmed().places, before.Open("j1", kLink)->Unconfirmed().places);
  EXPECT_EQ(after.answers().Sums().at("n1").reads, 1U);
  // A job that begins now is told apart from those.
  EXPECT_GT(after.Open("j3", kLink)->serial(), before.Open("j2", kLink)->serial());
}

TEST_F(JobKeeperTest, OnlyWhatHasChangedIsSentAndWhatIsOverIsDropped) {
  const auto worker = NextWorker();
  JobTable table("own");
  table.SetLink(kLink, Facts());
  JobKeeper keeping(*worker, table);
  Read(table, "j1");
  keeping.Save(1);
  TakeMessages();
  EXPECT_EQ(kept_.size(), 2U);  // the job, and the reporter
  keeping.Save(1);
  EXPECT_EQ(supervisor_.Receive(false).error().code, Code::kTimeout);
  const std::shared_ptr<JobReads> job = table.Open("j1", kLink);
  ASSERT_TRUE(job->EndUnlessReading());
  Read(table, "j1");  // another one of this name
  table.Remove(job);
  keeping.Save(1);
  TakeMessages();
  EXPECT_EQ(kept_.size(), 2U);
}

}  // namespace
}  // namespace forebay
