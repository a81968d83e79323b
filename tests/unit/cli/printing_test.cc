// Text, tables, JSON text, progress.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <boost/json/array.hpp>
#include <sstream>

#include "cli/json.h"
#include "cli/progress.h"
#include "cli/table.h"
#include "cli/text.h"

namespace forebay {
namespace {

using ::testing::HasSubstr;

struct Streams {
  std::ostringstream out;
  std::ostringstream err;
  std::istringstream in;
  Console console{.out = out, .err = err, .in = in};
};

TEST(Text, NothingThatATerminalObeysIsLeft) {
  EXPECT_EQ(Escaped("plain ünïcode 画像"), "plain ünïcode 画像");
  EXPECT_EQ(Escaped("a\nb\tc\rd"), "a\\nb\\tc\\x0dd");
  EXPECT_EQ(Escaped("\x1b[2J\x7F"), "\\x1b[2J\\x7f");
  EXPECT_EQ(Escaped("\xC2\x9B"), "\\xc2\\x9b");  // CSI in one 8-bit control
  EXPECT_EQ(Escaped("a\\x1b"), "a\\\\x1b");
  EXPECT_EQ(Escaped(std::string_view("\0", 1)), "\\x00");
  EXPECT_EQ(Escaped("\xFF\xC3"), "\\xff\\xc3");
}

TEST(Text, OnlyWellFormedUtf8IsKept) {
  const std::string replaced = "\xEF\xBF\xBD";
  EXPECT_EQ(ValidUtf8("ü画\xF0\x9F\x98\x80"), "ü画\xF0\x9F\x98\x80");
  EXPECT_EQ(ValidUtf8("a\xFFz"), "a" + replaced + "z");
  EXPECT_EQ(ValidUtf8("\xC0\xAF"), replaced + replaced);                 // overlong
  EXPECT_EQ(ValidUtf8("\xED\xA0\x80"), replaced + replaced + replaced);  // surrogate
  EXPECT_EQ(ValidUtf8("\xF4\x90\x80\x80").size(), 4 * replaced.size());  // above U+10FFFF
  EXPECT_EQ(ValidUtf8("\xE7\x94"), replaced + replaced);                 // cut off
}

TEST(Text, TimesAreUtc) {
  EXPECT_EQ(Rfc3339(0), "1970-01-01T00:00:00Z");
  EXPECT_EQ(Rfc3339(951'827'696), "2000-02-29T12:34:56Z");
  EXPECT_EQ(Rfc3339Ms(1'767'323'045'007), "2026-01-02T03:04:05.007Z");
  EXPECT_EQ(Rfc3339(-1), "1969-12-31T23:59:59Z");
}

TEST(Text, RatiosStayBetweenZeroAndOne) {
  EXPECT_EQ(Ratio(0, 0), 1.0);
  EXPECT_EQ(Ratio(1, 4), 0.25);
  EXPECT_EQ(Ratio(9, 4), 1.0);
  EXPECT_EQ(HitRatio(0, 0), 0.0);
}

TEST(Table, ColumnsAreAlignedByWhatIsSeen) {
  Streams streams;
  Table table({{.heading = "NAME"}, {.heading = "SIZE", .right = true}, {.heading = "STATE"}});
  table.Add({Cell("ünï"), Cell("1"), Cell("up", Tone::kGood)});
  table.Add({Cell("a\nb"), Cell("1,000,000"), Cell("")});
  streams.console.colour = true;
  table.Print(streams.console);
  EXPECT_EQ(streams.out.str(),
            "\x1b[2mNAME\x1b[0m       \x1b[2mSIZE\x1b[0m  \x1b[2mSTATE\x1b[0m\n"
            "ünï           1  \x1b[32mup\x1b[0m\n"
            "a\\nb  1,000,000\n");
}

TEST(Table, LaterRowsFollowWithoutASecondHeading) {
  Streams streams;
  Table table({{.heading = "N", .right = true, .min_width = 3}, {.heading = "NAME"}});
  table.Add({Cell("1"), Cell("a")});
  table.Print(streams.console);
  table.Add({Cell("20"), Cell("b")});
  table.Print(streams.console);
  EXPECT_EQ(streams.out.str(), "  N  NAME\n  1  a\n 20  b\n");
}

TEST(JsonText, FractionsReadAsPeopleWriteThem) {
  boost::json::object object;
  object["ratio"] = 0.41;
  object["third"] = 1.0 / 3;
  object["whole"] = 1.0;
  object["none"] = 0.0;
  object["count"] = std::uint64_t{18'446'744'073'709'551'615ULL};
  object["list"] = boost::json::array{1, nullptr, true, "a\"b\n"};
  EXPECT_EQ(JsonText(object), R"({"ratio":0.41,"third":0.333333,"whole":1.0,"none":0.0,)"
                              R"("count":18446744073709551615,"list":[1,null,true,"a\"b\n"]})");
}

TEST(JsonText, NamesThatAreNoTextKeepTheirBytes) {
  boost::json::object object;
  PutBytes(object, "name", "ok");
  PutBytes(object, "other", "a\xFF");
  EXPECT_EQ(JsonText(object),
            "{\"name\":\"ok\",\"other\":\"a\xEF\xBF\xBD\",\"other_hex\":\"61ff\"}");
}

TimePoint At(double seconds) {
  return TimePoint() + std::chrono::milliseconds(static_cast<std::int64_t>(seconds * 1000));
}

TEST(Progress, ElsewhereThanOnATerminalALineEachTenSeconds) {
  Streams streams;
  Progress progress(streams.console, "listing x", At(0));
  for (int i = 1; i <= 50; ++i) {
    progress.Show({.task = "t", .done = static_cast<std::uint64_t>(100 * i), .bytes = 2048},
                  At(0.5 * i));
  }
  progress.Clear();
  EXPECT_EQ(streams.err.str(),
            "listing x: 2,000 objects, 2.00 KiB, 200/s\n"
            "listing x: 4,000 objects, 2.00 KiB, 200/s\n");
}

TEST(Progress, ATerminalShowsABarRateAndTimeLeft) {
  Streams streams;
  streams.console.err_is_terminal = true;
  Progress progress(streams.console, "listing x", At(0));
  progress.Show({.task = "t", .done = 1000, .total = 4000, .failed = 2, .bytes = 1024}, At(10));
  EXPECT_EQ(
      streams.err.str(),
      "\rlisting x: [#######.......................]  25 %  1,000 of 4,000 objects, 1.00 KiB, "
      "100/s, 2 failed, 30.0 s left\x1b[K");
  progress.Clear();
  progress.Clear();
  EXPECT_TRUE(streams.err.str().ends_with("left\x1b[K\r\x1b[K"));
}

TEST(Progress, JsonIsALineEachSecond) {
  Streams streams;
  streams.console.format = OutputFormat::kJson;
  streams.console.err_is_terminal = true;
  Progress progress(streams.console, "listing x", At(0));
  progress.Show({.task = "t", .done = 5}, At(0.5));
  EXPECT_EQ(streams.err.str(), "");
  progress.Show({.task = "t", .done = 10, .total = 30, .bytes = 7}, At(1));
  EXPECT_EQ(streams.err.str(),
            R"({"progress":{"task":"t","done":10,"total":30,"failed":0,"bytes":7,)"
            R"("per_second":10.0,"eta_seconds":2.0}})"
            "\n");
  progress.Show({.task = "t", .done = 20}, At(2));
  EXPECT_THAT(streams.err.str(), HasSubstr(R"("total":null)"));
  EXPECT_THAT(streams.err.str(), HasSubstr(R"("eta_seconds":null)"));
}

}  // namespace
}  // namespace forebay
