#include "cli/watch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/cli/scripted_session.h"

namespace forebay::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(Watch, ATerminalIsDrawnOverAndNotScrolled) {
  ScriptedSession session;
  session.Answer(Method::kStats, SampleStats());
  session.Answer(Method::kStats, SampleStats());
  session.InterruptAtPause(2);
  const Ran ran = RunForebay(session, {"links", "--watch", "2s"}, {.out = true});
  EXPECT_EQ(ran.exit, 130);
  const std::string heading = "\x1b[Hforebay links, every 2s; Ctrl-C ends it\x1b[K\n";
  const std::size_t first = ran.out.find(heading);
  ASSERT_NE(first, std::string::npos) << ran.out;
  EXPECT_NE(ran.out.find(heading, first + 1), std::string::npos) << ran.out;
  EXPECT_THAT(ran.out, HasSubstr("imagenet  s3://bucket/imagenet/"));
  EXPECT_THAT(ran.out, Not(HasSubstr("\x1b[2J")));
}

TEST(Watch, WhatDoesNotFitTheTerminalIsNotDrawn) {
  ScriptedSession session;
  proto::StatsReply stats = SampleStats();
  for (int i = 0; i < 50; ++i) *stats.add_nodes() = stats.nodes(0);
  session.Answer(Method::kStats, stats);
  session.InterruptAtPause(1);
  const Ran ran = RunForebay(session, {"nodes", "--watch", "2s"}, {.out = true});
  // 24 lines: the heading, 22 of the list, one free.
  EXPECT_EQ(std::count(ran.out.begin(), ran.out.end(), '\n'), 23);
}

TEST(Watch, ATerminalWaitsForACoordinatorThatIsAway) {
  ScriptedSession session;
  session.Refuse(Method::kStats, Error{Code::kUnavailable, "no coordinator answers"});
  session.Answer(Method::kStats, SampleStats());
  session.InterruptAtPause(2);
  const Ran ran = RunForebay(session, {"links", "--watch", "2s"}, {.out = true});
  EXPECT_EQ(ran.exit, 130);
  EXPECT_THAT(ran.out, HasSubstr("no coordinator answers\x1b[K\n"));
  EXPECT_THAT(ran.out, HasSubstr("imagenet"));
}

TEST(Watch, OtherFailuresEndIt) {
  ScriptedSession session;
  session.Refuse(Method::kStats, Error{Code::kDenied, "wrong secret"});
  EXPECT_EQ(RunForebay(session, {"links", "--watch", "2s"}, {.out = true}).exit, 1);
  session.Refuse(Method::kStats, Error{Code::kUnavailable, "no coordinator answers"});
  EXPECT_EQ(RunForebay(session, {"links", "--watch", "2s"}).exit, 1);
}

TEST(Watch, JsonIsOneLineEachTimeAlsoOnATerminal) {
  ScriptedSession session;
  session.Answer(Method::kStats, SampleStats());
  session.Answer(Method::kStats, SampleStats());
  session.InterruptAtPause(2);
  const Ran ran = RunForebay(session, {"links", "-o", "json", "--watch", "2s"}, {.out = true});
  EXPECT_EQ(std::count(ran.out.begin(), ran.out.end(), '\n'), 2);
  EXPECT_THAT(ran.out, Not(HasSubstr("\x1b")));
}

TEST(Watch, EndsWithTheExitCodeOfItsLastResultAtTheTimeout) {
  ScriptedSession session;
  session.Answer(Method::kStats, proto::StatsReply());
  session.TimeOutAtPause(1);
  EXPECT_EQ(RunForebay(session, {"status", "--watch", "2s", "--timeout", "1s"}).exit, 3);
}

TEST(Watch, TakesATimeAndNotTooShortAOne) {
  ScriptedSession session;
  for (const char* wrong : {"2", "0", "10ms", "often"}) {
    EXPECT_EQ(RunForebay(session, {"links", "--watch", wrong}).exit, 2) << wrong;
  }
}

}  // namespace
}  // namespace forebay::testing
