#include "cli/progress.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>

#include "cli/text.h"

namespace forebay {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;

struct Streams {
  std::ostringstream out;
  std::ostringstream err;
  std::istringstream in;
  Console console{.out = out, .err = err, .in = in};
};

TimePoint At(double seconds) {
  return TimePoint() + std::chrono::milliseconds(static_cast<std::int64_t>(seconds * 1000));
}

ProgressState State(std::uint64_t done, std::uint64_t total = 0, std::uint64_t failed = 0) {
  return {.task = "t", .done = done, .total = total, .failed = failed, .bytes = 1024 * done};
}

TEST(RateWindow, KnowsNothingInTheFirstSecond) {
  RateWindow rate;
  EXPECT_FALSE(rate.Current().has_value());
  rate.Add(At(0), 500, 0);
  rate.Add(At(0.9), 600, 0);
  EXPECT_FALSE(rate.Current().has_value());
  rate.Add(At(1), 700, 4096);
  EXPECT_DOUBLE_EQ(rate.Current()->objects_per_second, 200);
  EXPECT_DOUBLE_EQ(rate.Current()->bytes_per_second, 4096);
}

TEST(RateWindow, WhatWasLongAgoDoesNotCount) {
  RateWindow rate;
  for (unsigned i = 0; i <= 60; ++i) rate.Add(At(i), std::uint64_t{1000} * i, 0);
  for (int i = 61; i <= 80; ++i) rate.Add(At(i), 60'000, 0);
  EXPECT_DOUBLE_EQ(rate.Current()->objects_per_second, 0);
}

TEST(RateWindow, ATaskThatBeginsAnewIsMeasuredAnew) {
  RateWindow rate;
  rate.Add(At(0), 0, 0);
  rate.Add(At(2), 900, 0);
  rate.Add(At(3), 10, 0);
  EXPECT_FALSE(rate.Current().has_value());
  rate.Add(At(5), 30, 0);
  EXPECT_DOUBLE_EQ(rate.Current()->objects_per_second, 10);
}

TEST(SecondsLeft, IsOnlyKnownWithATotalAndASpeed) {
  const RateWindow::Speed speed{.objects_per_second = 10};
  EXPECT_DOUBLE_EQ(*SecondsLeft(State(20, 100), speed), 8);
  EXPECT_DOUBLE_EQ(*SecondsLeft(State(20, 100, 30), speed), 5);
  EXPECT_FALSE(SecondsLeft(State(20, 0), speed).has_value());
  EXPECT_FALSE(SecondsLeft(State(20, 100), std::nullopt).has_value());
  EXPECT_FALSE(SecondsLeft(State(20, 100), RateWindow::Speed{}).has_value());
  EXPECT_FALSE(SecondsLeft(State(120, 100), speed).has_value());
}

TEST(ProgressFigures, TheLineFitsAndKeepsWhatMattersMost) {
  const ProgressFigures figures(
      {.what = "preloading imagenet", .moves_bytes = true}, State(1000, 4000, 2),
      RateWindow::Speed{.objects_per_second = 100, .bytes_per_second = 2048});
  EXPECT_EQ(figures.Line(200, true),
            "preloading imagenet: [#######.......................]  25 %  1,000 of 4,000 objects, "
            "1000 KiB, 100/s, 2.00 KiB/s, 2 failed, ETA 30.0 s");
  EXPECT_EQ(figures.Line(200, false),
            "preloading imagenet:  25 %, 1,000 of 4,000 objects, 1000 KiB, 100/s, 2.00 KiB/s, "
            "2 failed, ETA 30.0 s");
  EXPECT_EQ(figures.Line(40, true), " 25 %, 2 failed, ETA 30.0 s");
  for (std::size_t columns = 0; columns <= 150; ++columns) {
    const std::string line = figures.Line(columns, true);
    EXPECT_LE(DisplayWidth(line), columns) << line;
    if (columns >= 6) EXPECT_THAT(line, HasSubstr("25 %"));
    if (columns >= 27) EXPECT_THAT(line, HasSubstr("2 failed"));
  }
}

TEST(ProgressFigures, AHundredPercentIsAll) {
  EXPECT_THAT(ProgressFigures({.what = "x"}, State(999, 1000), std::nullopt).Line(200, true),
              HasSubstr(" 99 %"));
  EXPECT_THAT(ProgressFigures({.what = "x"}, State(1000, 1000), std::nullopt).Line(200, true),
              HasSubstr("100 %"));
}

TEST(ProgressFigures, WithoutATotalThereIsNoBarAndNoPromise) {
  EXPECT_EQ(ProgressFigures({.what = "listing x"}, State(1000),
                            RateWindow::Speed{.objects_per_second = 100})
                .Line(200, true),
            "listing x: 1,000 objects, 1000 KiB, 100/s, ETA --");
}

TEST(Progress, ElsewhereThanOnATerminalALineEachTenSeconds) {
  Streams streams;
  Progress progress(streams.console, {.what = "listing x"}, At(0));
  for (int i = 1; i <= 50; ++i) {
    progress.Show({.task = "t", .done = static_cast<std::uint64_t>(100 * i), .bytes = 2048},
                  At(0.5 * i));
  }
  progress.Clear();
  EXPECT_EQ(streams.err.str(),
            "listing x: 2,000 objects, 2.00 KiB, 200/s, ETA --\n"
            "listing x: 4,000 objects, 2.00 KiB, 200/s, ETA --\n");
}

TEST(Progress, ADumbTerminalGetsLinesToo) {
  Streams streams;
  streams.console.err_is_terminal = true;
  streams.console.obeys_ansi = false;
  Progress progress(streams.console, {.what = "listing x"}, At(0));
  progress.Show(State(1), At(9));
  EXPECT_EQ(streams.err.str(), "");
  progress.Show(State(11), At(11));
  EXPECT_EQ(streams.err.str(), "listing x: 11 objects, 11.0 KiB, 5/s, ETA --\n");
}

TEST(Progress, ATerminalShowsALineThatIsDrawnOverAndTakenAway) {
  Streams streams;
  streams.console.err_is_terminal = true;
  streams.console.size = [] { return TerminalSize{.columns = 121, .rows = 24}; };
  Progress progress(streams.console, {.what = "listing x"}, At(0));
  progress.Show(State(0, 4000), At(0));
  progress.Show(State(1000, 4000, 2), At(10));
  EXPECT_THAT(streams.err.str(),
              EndsWith("\x1b[J\rlisting x: [#######.......................]  25 %  1,000 of 4,000 "
                       "objects, 1000 KiB, 100/s, 2 failed, ETA 30.0 s\x1b[J"));
  progress.Clear();
  progress.Clear();
  EXPECT_THAT(streams.err.str(), EndsWith("30.0 s\x1b[J\r\x1b[J"));
}

TEST(Progress, TheLineFollowsTheWindow) {
  Streams streams;
  streams.console.err_is_terminal = true;
  std::size_t columns = 120;
  streams.console.size = [&columns] { return TerminalSize{.columns = columns, .rows = 24}; };
  Progress progress(streams.console, {.what = "listing x"}, At(0));
  progress.Show(State(1000, 4000), At(0));
  EXPECT_THAT(streams.err.str(), HasSubstr("[#######......................."));
  for (const std::size_t narrow : {60UL, 40UL, 20UL, 8UL}) {
    columns = narrow;
    streams.err.str("");
    progress.Show(State(1000, 4000), At(1));
    const std::string line = streams.err.str().substr(1, streams.err.str().find('\x1b') - 1);
    EXPECT_LT(DisplayWidth(line), narrow) << line;
    EXPECT_THAT(line, HasSubstr("25 %"));
  }
}

TEST(Progress, ATaskThatWaitsForS3SaysSoAndWhy) {
  Streams streams;
  Progress progress(streams.console, {.what = "listing x"}, At(0));
  progress.Show({.task = "t", .done = 7, .waiting = "LIST of s3://b/: no route\nto host"}, At(11));
  EXPECT_EQ(streams.err.str(),
            "listing x: 7 objects, waits for S3: LIST of s3://b/: no route\\nto host\n");
  streams.err.str("");
  streams.console.err_is_terminal = true;
  streams.console.size = [] { return TerminalSize{.columns = 40, .rows = 24}; };
  Progress narrow(streams.console, {.what = "listing x"}, At(0));
  narrow.Show({.task = "t", .done = 7, .waiting = "LIST of s3://b/: no route"}, At(0));
  EXPECT_THAT(streams.err.str(), HasSubstr("listing x: 7 objects, waits for S3: LI…"));
}

TEST(Progress, WhatIsWorkedOnCannotCommandTheTerminal) {
  Streams streams;
  streams.console.err_is_terminal = true;
  Progress progress(streams.console, {.what = "listing \x1b[2J"}, At(0));
  progress.Show(State(1), At(0));
  EXPECT_THAT(streams.err.str(), Not(HasSubstr("\x1b[2J")));
}

TEST(Progress, JsonIsALineEachSecond) {
  Streams streams;
  streams.console.format = OutputFormat::kJson;
  streams.console.err_is_terminal = true;
  Progress progress(streams.console, {.what = "listing x"}, At(0));
  progress.Show({.task = "t", .done = 5}, At(0));
  EXPECT_EQ(streams.err.str(), "");
  progress.Show({.task = "t", .done = 15, .total = 35, .bytes = 7}, At(1));
  EXPECT_EQ(streams.err.str(),
            R"({"progress":{"task":"t","done":15,"total":35,"failed":0,"bytes":7,)"
            R"("per_second":10.0,"bytes_per_second":7.0,"eta_seconds":2.0,"waiting":null}})"
            "\n");
  streams.err.str("");
  progress.Show({.task = "t", .done = 4}, At(2));
  EXPECT_THAT(streams.err.str(), HasSubstr(R"("total":null)"));
  EXPECT_THAT(streams.err.str(), HasSubstr(R"("per_second":null,"bytes_per_second":null)"));
  EXPECT_THAT(streams.err.str(), HasSubstr(R"("eta_seconds":null)"));
}

}  // namespace
}  // namespace forebay
