#include "cachenode/last_run.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "tests/fakes/temp_dir.h"

namespace forebay {
namespace {

class LastRunTest : public ::testing::Test {
 protected:
  LastRunTest() {
    std::filesystem::create_directories(proc_ + "/sys/kernel/random");
    Boot("b1");
    Kills(3);
  }
  void Boot(const std::string& id) const {
    std::ofstream(proc_ + "/sys/kernel/random/boot_id") << id << '\n';
  }
  void Kills(int count) const {
    std::ofstream(proc_ + "/vmstat") << "nr_free_pages 7\noom_kill " << count << "\nballoon 0\n";
  }
  LastRun Run() const { return {file_, proc_}; }

  const fakes::TempDir dir_;
  const std::string file_ = dir_ / "running";
  const std::string proc_ = dir_ / "proc";
};

TEST_F(LastRunTest, TheFirstAndTheOneAfterAStopFollowAGoodEnd) {
  LastRun first = Run();
  EXPECT_EQ(first.Begin(), RunEnd::kStopped);
  ASSERT_TRUE(first.End().has_value());
  Kills(4);
  EXPECT_EQ(Run().Begin(), RunEnd::kStopped);
}

TEST_F(LastRunTest, WhoDoesNotStopWasKilled) {
  EXPECT_EQ(Run().Begin(), RunEnd::kStopped);
  EXPECT_EQ(Run().Begin(), RunEnd::kKilled);
}

TEST_F(LastRunTest, AKillForWantOfMemoryMeanwhileWasProbablyThisOne) {
  EXPECT_EQ(Run().Begin(), RunEnd::kStopped);
  Kills(4);
  EXPECT_EQ(Run().Begin(), RunEnd::kOutOfMemory);
  EXPECT_EQ(Run().Begin(), RunEnd::kKilled) << "it counts once";
}

TEST_F(LastRunTest, AKillThatTheRunHasSeenWasAnothers) {
  LastRun run = Run();
  EXPECT_EQ(run.Begin(), RunEnd::kStopped);
  Kills(5);
  ASSERT_TRUE(run.Look().has_value());
  EXPECT_EQ(Run().Begin(), RunEnd::kKilled);
}

TEST_F(LastRunTest, AfterABootTheCountSaysNothing) {
  EXPECT_EQ(Run().Begin(), RunEnd::kStopped);
  Boot("b2");
  Kills(9);
  EXPECT_EQ(Run().Begin(), RunEnd::kKilled);
}

TEST_F(LastRunTest, ADamagedFileIsAnEndWithoutAStop) {
  std::ofstream(file_) << "rubbish";
  EXPECT_EQ(Run().Begin(), RunEnd::kKilled);
}

}  // namespace
}  // namespace forebay
