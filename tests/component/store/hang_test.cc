#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <condition_variable>
#include <csignal>
#include <fstream>
#include <mutex>
#include <thread>
#include <tuple>

#include "cachenode/store/disk_lane.h"
#include "common/base/failpoint.h"
#include "common/base/wall_clock.h"
#include "tests/component/store/store_fixture.h"

// Disks that hang, by work that waits until a test lets it go, and by a clock in the test's hands;
// and blocks that crash the program.
namespace forebay {
namespace {

using std::chrono::seconds;

/// Closed at first. Work that waits here is in the kernel, as far as a lane knows.
class Gate {
 public:
  ~Gate() { Open(); }
  void Open() {
    const std::scoped_lock lock(mutex_);
    open_ = true;
    changed_.notify_all();
  }
  void Pass() {
    std::unique_lock lock(mutex_);
    ++waiting_;
    changed_.notify_all();
    changed_.wait(lock, [this] { return open_; });
  }
  /// Until so many wait here.
  void Await(int waiting) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return waiting_ >= waiting; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  int waiting_ = 0;
  bool open_ = false;
};

Result<int> Answer(DiskLane& lane, int value) {
  return fakes::RunTask(lane.Run([value]() -> Result<int> { return value; }));
}

TEST(DiskLane, AnswersOnManyThreads) {
  DiskLane lane("lane", 3, 100);
  std::vector<std::thread> callers;
  callers.reserve(8);
  std::atomic<int> sum{0};
  for (int i = 0; i < 8; ++i) {
    callers.emplace_back([&lane, &sum, i] { sum += Answer(lane, i).value_or(-1000); });
  }
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(sum, 28);
}

TEST(DiskLane, OneCallThatHangsIsGivenUpAndTheOthersGoOn) {
  DiskLane lane("lane", 2, 100);
  auto gate = std::make_shared<Gate>();
  Result<int> stuck = 0;
  std::thread caller([&] {
    stuck = fakes::RunTask(lane.Run([gate]() -> Result<int> {
      gate->Pass();
      return 1;
    }));
  });
  gate->Await(1);
  const TimePoint later = Clock::now() + seconds(2);
  EXPECT_EQ(Answer(lane, 5).value_or(0), 5) << "the other thread works";
  // By its clock that end was long ago, too; so the lane hangs until the thread is back.
  const DiskLane::Looked looked = lane.Look(later, seconds(1), false);
  caller.join();
  EXPECT_EQ(looked.given_up, 1U);
  EXPECT_TRUE(looked.hangs);
  ASSERT_FALSE(stuck.has_value());
  EXPECT_EQ(stuck.error().code, Code::kTimeout);
  EXPECT_TRUE(lane.Hangs());
  EXPECT_EQ(Answer(lane, 5).error().code, Code::kTimeout) << "refused at once";
  gate->Open();
  lane.Stop();
  EXPECT_FALSE(lane.Hangs()) << "the thread is back";
}

TEST(DiskLane, SlowWorkIsSparedWhileOtherWorkEnds) {
  DiskLane lane("lane", 2, 100);
  auto gate = std::make_shared<Gate>();
  lane.Post([gate] { gate->Pass(); });
  gate->Await(1);
  EXPECT_TRUE(Answer(lane, 1).has_value());
  EXPECT_EQ(lane.Look(Clock::now(), seconds(3), true).given_up, 0U);
  EXPECT_FALSE(lane.Hangs());
  EXPECT_EQ(lane.Look(Clock::now() + seconds(4), seconds(3), true).given_up, 1U);
  EXPECT_TRUE(lane.Hangs());
  gate->Open();
}

TEST(DiskLane, WhatWaitsTooLongForAThreadIsGivenUpAndNeverRun) {
  DiskLane lane("lane", 1, 100);
  auto gate = std::make_shared<Gate>();
  lane.Post([gate] { gate->Pass(); });
  gate->Await(1);
  std::atomic<bool> ran{false};
  std::thread caller([&] {
    const Status late = fakes::RunTask(lane.Run([&ran]() -> Status {
      ran = true;
      return {};
    }));
    EXPECT_EQ(late.error().code, Code::kTimeout);
  });
  // Looked at until the call is there.
  while (!lane.Hangs()) lane.Look(Clock::now() + seconds(2), seconds(1), false);
  caller.join();
  gate->Open();
  lane.Stop();
  EXPECT_FALSE(ran);
}

TEST(DiskLane, AFullQueueIsSaidAtOnce) {
  DiskLane lane("lane", 1, 1);
  auto gate = std::make_shared<Gate>();
  lane.Post([gate] { gate->Pass(); });
  gate->Await(1);
  lane.Post([] {});
  EXPECT_EQ(Answer(lane, 1).error().code, Code::kOverloaded);
  gate->Open();
}

class PoisonTest : public ::testing::Test {
 protected:
  static constexpr std::uint64_t kPoison = 7;
  static BlockId Block(std::uint64_t number) { return BlockNumber(number, 200'000); }

  /// In a child of ours: the block's handling aborts. Answers the signal that it died of; 0 = it
  /// lived.
  template <typename Work>
  int Child(Work work) {
    const pid_t child = ::fork();
    if (child == 0) {
      Failpoints::Instance().Arm("store.poison:1:error,store.poison." + std::to_string(kPoison) +
                                 ":1:abort");
      work();
      ::_exit(0);
    }
    int status = 0;
    EXPECT_EQ(::waitpid(child, &status, 0), child);
    return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
  }
  int ReadInChild() {
    return Child([this] {
      TestStore store(options_);
      std::ignore = store.Read(Block(kPoison), {0, 1});
    });
  }

  fakes::TempDir dir_;
  BlockStoreOptions options_ = OneDirectory(dir_ / "a");
};

TEST_F(PoisonTest, ABlockThatCrashesEachAdmissionIsSetAsideAfterThree) {
  {
    TestStore store(options_);
  }
  for (int crash = 0; crash < 3; ++crash) {
    EXPECT_EQ(Child([this] {
                TestStore store(options_);
                std::ignore = store.Admit(LinkNumber(1), Block(1));
                std::ignore = store.Admit(LinkNumber(1), Block(kPoison));
              }),
              SIGABRT);
  }
  EXPECT_EQ(Child([this] {
              TestStore store(options_);
              if (store.Admit(LinkNumber(1), Block(kPoison))) ::_exit(2);
            }),
            0)
      << "the fourth start serves";
  TestStore store(options_);
  EXPECT_EQ(store->SetAsideCount(), 1U);
  EXPECT_TRUE(store.Serves(Block(1))) << "others are kept";
  EXPECT_FALSE(store.Admit(LinkNumber(1), Block(kPoison)).has_value());
  EXPECT_FALSE(store->Contains(Block(kPoison)));
  EXPECT_FALSE(store.Serves(Block(kPoison)));
}

TEST_F(PoisonTest, ACachedBlockThatCrashesEachStartIsNotRecovered) {
  {
    TestStore store(options_);
    ASSERT_TRUE(store.Admit(LinkNumber(1), Block(1)).has_value());
    ASSERT_TRUE(store.Admit(LinkNumber(1), Block(kPoison)).has_value());
    ASSERT_TRUE(store->Close(Patience()).has_value());
  }
  for (int crash = 0; crash < 3; ++crash) EXPECT_EQ(ReadInChild(), SIGABRT);
  EXPECT_EQ(ReadInChild(), 0) << "the fourth start serves";
  TestStore store(options_);
  EXPECT_TRUE(store.Serves(Block(1)));
  EXPECT_FALSE(store.Serves(Block(kPoison)));
  EXPECT_EQ(store->BlockCount(), 1U);
}

TEST_F(PoisonTest, TwoCrashesAreForgiven) {
  {
    TestStore store(options_);
    ASSERT_TRUE(store.Admit(LinkNumber(1), Block(kPoison)).has_value());
    ASSERT_TRUE(store->Close(Patience()).has_value());
  }
  EXPECT_EQ(ReadInChild(), SIGABRT);
  EXPECT_EQ(ReadInChild(), SIGABRT);
  TestStore store(options_);
  EXPECT_EQ(store->SetAsideCount(), 0U);
  EXPECT_TRUE(store.Serves(Block(kPoison)));
}

TEST_F(PoisonTest, AnEvictionGivesABlockAnotherChance) {
  {
    TestStore store(options_);
  }
  for (int crash = 0; crash < 3; ++crash) {
    EXPECT_EQ(Child([this] {
                TestStore store(options_);
                std::ignore = store.Admit(LinkNumber(1), Block(kPoison));
              }),
              SIGABRT);
  }
  {
    TestStore store(options_);
    ASSERT_EQ(store->SetAsideCount(), 1U);
    EXPECT_TRUE(store.Evict({Block(kPoison)}).has_value());
    EXPECT_EQ(store->SetAsideCount(), 0U);
    EXPECT_TRUE(store.Admit(LinkNumber(1), Block(kPoison)).has_value());
    ASSERT_TRUE(store->Close(Patience()).has_value());
  }
  TestStore again(options_);
  EXPECT_EQ(again->SetAsideCount(), 0U) << "for good";
  EXPECT_TRUE(again.Serves(Block(kPoison)));
}

/// An entry of the file, as docs/STORE_FORMAT.md describes it.
std::string CrashEntry(const BlockId& block, std::int64_t seconds) {
  std::array<std::uint64_t, 7> entry{0x0A48535243424603, block.version.high,
                                     block.version.low,  block.offset,
                                     block.length,       static_cast<std::uint64_t>(seconds),
                                     0x0A48535243424603};
  for (std::size_t i = 0; i < 6; ++i) entry[6] = (entry[6] ^ entry.at(i)) * 0x9E3779B97F4A7C15ULL;
  return {reinterpret_cast<const char*>(entry.data()), sizeof(entry)};
}

TEST_F(PoisonTest, CrashesAreForgottenAfterAWeek) {
  {
    TestStore store(options_);
  }
  const std::int64_t now = UnixSeconds();
  const std::int64_t day = std::int64_t{24} * 3600;
  std::ofstream book(dir_ / "a/crashes");
  for (int i = 0; i < 3; ++i) {
    book << CrashEntry(Block(1), now - 6 * day) << CrashEntry(Block(2), now - 8 * day)
         << CrashEntry(Block(3), now - (6 + i) * day);
  }
  book.close();
  TestStore store(options_);
  EXPECT_EQ(store->SetAsideCount(), 1U);
  EXPECT_FALSE(store.Admit(LinkNumber(1), Block(1)).has_value());
  EXPECT_TRUE(store.Admit(LinkNumber(1), Block(2)).has_value());
  EXPECT_TRUE(store.Admit(LinkNumber(1), Block(3)).has_value()) << "one of the three is too old";
}

TEST_F(PoisonTest, ADamagedBookIsNoReasonNotToStart) {
  {
    TestStore store(options_);
  }
  std::ofstream(dir_ / "a/crashes") << std::string(1000, 'x');
  TestStore store(options_);
  ASSERT_TRUE(store.open());
  EXPECT_EQ(store->SetAsideCount(), 0U);
  EXPECT_TRUE(store.Admit(LinkNumber(1), Block(1)).has_value());
  EXPECT_EQ(std::filesystem::file_size(dir_ / "a/crashes"), 0U) << "tidied up";
}

}  // namespace
}  // namespace forebay
