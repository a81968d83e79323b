#include "common/base/loop_watch.h"

#include <gtest/gtest.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <chrono>
#include <functional>
#include <future>
#include <thread>

namespace forebay {
namespace {

using namespace std::chrono_literals;

/// True when `condition` holds within 20 s.
bool Within20s(const std::function<bool()>& condition) {
  const auto end = std::chrono::steady_clock::now() + 20s;
  while (!condition() && std::chrono::steady_clock::now() < end) std::this_thread::yield();
  return condition();
}

TEST(LoopWatch, NamesTheLoopThatNoLongerTurnsUntilItDoes) {
  IoPool pool("loop", 3);
  pool.Start();
  LoopWatch watch(1us);
  watch.Watch({&pool});
  std::promise<void> release;
  asio::post(pool.At(1), [end = release.get_future().share()] { end.wait(); });
  watch.Ask();
  EXPECT_TRUE(Within20s([&] { return watch.Stuck() == "loop1"; }));
  watch.Ask();
  EXPECT_TRUE(Within20s([&] { return watch.Stuck() == "loop1"; }))
      << "asking again changes nothing";
  release.set_value();
  EXPECT_TRUE(Within20s([&] { return watch.Stuck().empty(); }));
}

TEST(LoopWatch, PatienceIsNotOverAtOnce) {
  IoPool pool("loop", 1);  // which never runs
  LoopWatch watch(1h);
  watch.Watch({&pool});
  watch.Ask();
  EXPECT_EQ(watch.Stuck(), "");
}

TEST(LoopWatch, WhatIsForgottenMayGo) {
  LoopWatch watch(1us);
  {
    IoPool pool("loop", 2);
    watch.Watch({&pool});
    watch.Ask();
    watch.Forget();
  }
  watch.Ask();
  EXPECT_EQ(watch.Stuck(), "");
}

}  // namespace
}  // namespace forebay
