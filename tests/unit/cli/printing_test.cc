// Text, tables, JSON text.
#include <gtest/gtest.h>

#include <boost/json/array.hpp>
#include <sstream>

#include "cli/json.h"
#include "cli/table.h"
#include "cli/text.h"

namespace forebay {
namespace {

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

TEST(Text, TheBackslashOfASentenceIsMeant) {
  EXPECT_EQ(EscapedSentence("write \\[ for\x1b it\n"), "write \\[ for\\x1b it\\n");
  EXPECT_EQ(Escaped("a\\b"), "a\\\\b") << "of a name it is doubled";
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

TEST(Text, WidthIsWhatATerminalShows) {
  EXPECT_EQ(VisibleWidth("ünï"), 3u);
  EXPECT_EQ(VisibleWidth("\x1b[32mup\x1b[0m now"), 6u);
  EXPECT_EQ(VisibleWidth("cut \x1b[3"), 4u);
  EXPECT_EQ(FirstColumns("abc", 3), "abc");
  EXPECT_EQ(FirstColumns("äbcd", 3), "äb…");
  EXPECT_EQ(FirstColumns("abcd", 1), "…");
  EXPECT_EQ(FirstColumns("abcd", 0), "");
}

}  // namespace
}  // namespace forebay
