#include "fuse-client/intake.h"

#include <gtest/gtest.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <chrono>
#include <cstdint>
#include <functional>
#include <future>
#include <memory>
#include <semaphore>
#include <thread>

#include "common/base/executors.h"

namespace forebay {
namespace {

using std::chrono::seconds;

constexpr std::size_t kThreads = 3;

/// A queue that three threads take from, in the order in which the kernel wakes them: the first
/// one that sleeps.
class IntakeTest : public ::testing::Test {
 protected:
  struct Thread {
    std::atomic<bool> full{false};  // of slots
    std::atomic<int> looks{0};
    std::atomic<int> taken{0};
    std::shared_ptr<Intake> intake;
  };

  IntakeTest() {
    for (std::size_t i = 0; i < kThreads; ++i) {
      threads_[i].intake =
          std::make_shared<Intake>(pool_.At(i), [this, i] { return Take(threads_[i]); }, [] {});
    }
    for (std::size_t i = 0; i < kThreads; ++i) {
      threads_[i].intake->SetNext(threads_[(i + 1) % kThreads].intake);
    }
    pool_.Start();
  }

  ~IntakeTest() override {
    for (std::size_t i = 0; i < kThreads; ++i) {
      OnThread(i, [intake = threads_[i].intake] { intake->Stop(); });
    }
    for (std::size_t i = 0; i < kThreads; ++i) {
      bool running = true;
      const auto look = [&] { running = threads_[i].intake->running(); };
      EXPECT_TRUE(Eventually([&] {
        OnThread(i, look);
        return !running;
      }));
    }
    pool_.Stop();
    ::close(queue_);
  }

  void OnThread(std::size_t i, const std::function<void()>& call) {
    std::promise<void> done;
    asio::post(pool_.At(i), [&] {
      call();
      done.set_value();
    });
    done.get_future().get();
  }

  static bool Eventually(const std::function<bool()>& condition) {
    const auto until = std::chrono::steady_clock::now() + seconds(20);
    while (!condition() && std::chrono::steady_clock::now() < until) std::this_thread::yield();
    return condition();
  }

  FuseSession::Drained Take(Thread& thread) {
    ++thread.looks;
    if (thread.full) return FuseSession::Drained::kFull;
    std::uint64_t one = 0;
    if (::read(queue_, &one, sizeof one) != sizeof one) return FuseSession::Drained::kIdle;
    ++thread.taken;
    taken_.release();
    return FuseSession::Drained::kMore;
  }

  /// Starts them one after the other: each waits before the next one does.
  void StartAll() {
    for (Thread& thread : threads_) {
      ASSERT_TRUE(thread.intake->Start(queue_));
      ASSERT_TRUE(Eventually([&] { return thread.looks > 0; }));
    }
  }

  void Put() {
    const std::uint64_t one = 1;
    ASSERT_EQ(::write(queue_, &one, sizeof one), static_cast<ssize_t>(sizeof one));
  }
  bool IsTaken() { return taken_.try_acquire_for(seconds(20)); }

  const int queue_ = ::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC | EFD_SEMAPHORE);
  std::counting_semaphore<> taken_{0};
  IoPool pool_{"intake", kThreads};  // the intakes' descriptors are its contexts'
  std::array<Thread, kThreads> threads_;
};

TEST_F(IntakeTest, WhatAThreadWithoutSlotsCannotTakeIsTakenByOthers) {
  threads_[0].full = true;
  StartAll();
  for (int i = 0; i < 100; ++i) {
    Put();
    ASSERT_TRUE(IsTaken()) << "request " << i << " woke nobody who has room";
  }
  EXPECT_EQ(threads_[0].taken, 0);
}

/// The slots of a thread are those of all links of the process: they fill up while it waits.
TEST_F(IntakeTest, WhatWokeAThreadWithoutSlotsIsTakenByOthers) {
  threads_[1].full = true;  // since earlier: it hands on
  StartAll();
  // The first one waits by now, or comes to it; once it has stood back it is the last to be woken.
  Put();
  ASSERT_TRUE(IsTaken());
  threads_[0].full = true;
  Put();
  ASSERT_TRUE(IsTaken()) << "the one that was woken has no room, and told nobody";
  EXPECT_EQ(threads_[1].taken, 0);
}

TEST_F(IntakeTest, AThreadThatHasSlotsAgainTakesWhatWaits) {
  for (Thread& thread : threads_) thread.full = true;
  StartAll();
  Put();
  Put();
  threads_[0].full = false;
  EXPECT_TRUE(IsTaken());
  EXPECT_TRUE(IsTaken());
  // It waits with the others again.
  Put();
  EXPECT_TRUE(IsTaken());
  EXPECT_EQ(threads_[0].taken, 3);
}

}  // namespace
}  // namespace forebay
