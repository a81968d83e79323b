#include "fuse-client/job_finder.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "tests/fakes/temp_dir.h"

namespace forebay {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

/// A /proc that the test writes.
class JobFinderTest : public ::testing::Test {
 protected:
  void Put(pid_t thread, const std::string& name, const std::string& text) {
    const std::string folder = proc_ / std::to_string(thread);
    std::filesystem::create_directories(folder);
    std::ofstream(folder + "/" + name) << text;
  }
  void PutThread(pid_t thread, pid_t process, std::uint64_t start, const std::string& cgroups) {
    // A name with a blank and a bracket, as prctl(PR_SET_NAME) allows.
    Put(thread, "stat",
        std::to_string(thread) + " (py) thon) S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 " +
            std::to_string(start) + " 20 21\n");
    Put(thread, "status", "Name:\tpython\nTgid:\t" + std::to_string(process) + "\nNgid:\t0\n");
    Put(thread, "cgroup", cgroups);
  }
  void Remove(pid_t thread) { std::filesystem::remove_all(proc_ / std::to_string(thread)); }

  std::string JobOf(pid_t thread) {
    const std::shared_ptr<JobReads> job = finder_.BeginRead(thread, link_, now_);
    job->End(now_, now_, ReadOutcome());
    return job->id();
  }

  static std::string Slurm(int job) {
    return "0::/system.slice/slurmstepd.scope/job_" + std::to_string(job) + "/step_0\n";
  }

  fakes::TempDir proc_;
  Uuid link_ = Uuid::Random();
  JobTable table_{"own", ProcessFiles(proc_.path())};
  JobFinder finder_{table_, JobFrom::kCgroup};
  TimePoint now_ = Clock::now();
};

TEST_F(JobFinderTest, AThreadWithAKillBeforeItIsDying) {
  const ProcessFiles processes(proc_.path());
  const auto with = [&](const std::string& own, const std::string& shared) {
    Put(10, "status", "Name:\tpython\nTgid:\t10\nSigPnd:\t" + own + "\nShdPnd:\t" + shared + "\n");
    return processes.IsDying(10);
  };
  EXPECT_TRUE(with("0000000000000100", "0000000000000000"));
  EXPECT_TRUE(with("8000000000002100", "0000000000004000"));
  // SIGALRM and SIGTERM that have handlers, and a SIGKILL that the kernel has not dealt out yet.
  EXPECT_FALSE(with("0000000000002000", "0000000000004000"));
  EXPECT_FALSE(with("0000000000000000", "0000000000000100"));
  EXPECT_FALSE(processes.IsDying(11));
}

TEST_F(JobFinderTest, TwoJobsOnOneMountAreTwo) {
  PutThread(10, 10, 100, Slurm(1));
  PutThread(20, 20, 200, Slurm(2));
  PutThread(30, 30, 300, "0::/user.slice\n");
  EXPECT_EQ(JobOf(10), "1");
  EXPECT_EQ(JobOf(20), "2");
  EXPECT_EQ(JobOf(30), "own");
}

TEST_F(JobFinderTest, ReadersThatNobodyCanNameBelongToTheMountsJob) {
  EXPECT_EQ(JobOf(0), "own");
  EXPECT_EQ(JobOf(12345), "own") << "gone";
  Put(40, "stat", "not what the kernel writes");
  EXPECT_EQ(JobOf(40), "own");
}

TEST_F(JobFinderTest, AProcessThatAnnouncesIsOfTheJobOfItsReads) {
  PutThread(10, 10, 5, Slurm(1));
  EXPECT_EQ(JobOfProcess(table_, JobFrom::kCgroup, 10), "1");
  EXPECT_EQ(JobOfProcess(table_, JobFrom::kMount, 10), "own");
  EXPECT_EQ(JobOfProcess(table_, JobFrom::kCgroup, 0), "own") << "of another pid namespace";
  EXPECT_EQ(JobOfProcess(table_, JobFrom::kCgroup, 11), "own") << "gone";
}

TEST_F(JobFinderTest, WithFromMountNobodyLooksAtCgroups) {
  PutThread(10, 10, 100, Slurm(1));
  JobFinder finder(table_, JobFrom::kMount);
  EXPECT_EQ(finder.BeginRead(10, link_, now_)->id(), "own");
}

TEST_F(JobFinderTest, AKnownThreadCostsNoLookIntoProc) {
  PutThread(10, 10, 100, Slurm(1));
  EXPECT_EQ(JobOf(10), "1");
  Remove(10);
  now_ += JobFinder::kBelieved - milliseconds(1);
  EXPECT_EQ(JobOf(10), "1") << "what would be read again is not there";
  now_ += milliseconds(1);
  EXPECT_EQ(JobOf(10), "own");
}

TEST_F(JobFinderTest, ANumberGivenToAnotherThreadIsNoticed) {
  PutThread(10, 10, 100, Slurm(1));
  EXPECT_EQ(JobOf(10), "1");
  PutThread(10, 10, 999, Slurm(2));
  now_ += JobFinder::kBelieved;
  EXPECT_EQ(JobOf(10), "2");
}

TEST_F(JobFinderTest, AProcessThatIsMovedToAJobIsNoticed) {
  PutThread(10, 10, 100, "0::/user.slice\n");
  EXPECT_EQ(JobOf(10), "own");
  PutThread(10, 10, 100, Slurm(7));
  for (int i = 0; i < 9; ++i) {
    now_ += seconds(1);
    EXPECT_EQ(JobOf(10), "own");
  }
  now_ += seconds(1);
  EXPECT_EQ(JobOf(10), "7");
}

TEST_F(JobFinderTest, ThreadsOfOneProcessAreOneProcess) {
  PutThread(10, 10, 100, Slurm(1));
  PutThread(11, 10, 101, Slurm(1));
  PutThread(12, 12, 102, Slurm(1));
  for (const pid_t thread : {10, 11, 12}) JobOf(thread);
  const std::shared_ptr<JobReads> job = table_.Open("1", link_);
  EXPECT_EQ(job->CountProcesses(table_.files()), 2u);
  Remove(12);
  EXPECT_EQ(job->CountProcesses(table_.files()), 1u);
  PutThread(10, 10, 555, Slurm(1));
  EXPECT_EQ(job->CountProcesses(table_.files()), 0u) << "another process with its number";
}

TEST_F(JobFinderTest, AJobThatEndedBeginsAnewWithItsNextRead) {
  PutThread(10, 10, 100, Slurm(1));
  EXPECT_EQ(JobOf(10), "1");
  const std::shared_ptr<JobReads> before = table_.Open("1", link_);
  ASSERT_TRUE(before->EndUnlessReading());
  EXPECT_EQ(JobOf(10), "1");
  const std::shared_ptr<JobReads> after = table_.Open("1", link_);
  EXPECT_NE(before->serial(), after->serial());
  EXPECT_EQ(before->Look().totals.reads, 1u);
  EXPECT_EQ(after->Look().totals.reads, 1u);
}

TEST_F(JobFinderTest, MoreThreadsThanAreRememberedAreFoundAsWell) {
  for (pid_t thread = 1; thread <= static_cast<pid_t>(JobFinder::kMaxThreads) + 10; ++thread) {
    if (thread % 1000 == 1) PutThread(thread, thread, 100, Slurm(thread));
    const std::string expected = thread % 1000 == 1 ? std::to_string(thread) : "own";
    EXPECT_EQ(JobOf(thread), expected);
  }
  EXPECT_EQ(JobOf(1001), "1001");
}

TEST(ProcessFiles, KnowThisProcess) {
  const ProcessFiles files;
  const pid_t self = ::getpid();
  EXPECT_TRUE(files.StartOf(self).has_value());
  EXPECT_EQ(files.StartOf(self), files.StartOf(self));
  EXPECT_EQ(files.ProcessOf(self), self);
  EXPECT_NE(files.CgroupsOf(self).value_or("").find(':'), std::string::npos);
}

}  // namespace
}  // namespace forebay
