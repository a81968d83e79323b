#include "common/model/key_filter.h"

#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

namespace forebay {
namespace {

bool Matches(std::string_view pattern, std::string_view key) {
  const Result<KeyGlob> glob = KeyGlob::Parse(pattern);
  EXPECT_TRUE(glob.has_value()) << pattern;
  return glob && glob->Matches(key);
}

std::string Refusal(std::string_view pattern) {
  const Result<KeyGlob> glob = KeyGlob::Parse(pattern);
  return glob ? "" : glob.error().message;
}

TEST(KeyGlob, AStarStopsAtASlashAndTwoDoNot) {
  EXPECT_TRUE(Matches("*.jpg", "a.jpg"));
  EXPECT_TRUE(Matches("*.jpg", ".jpg"));
  EXPECT_FALSE(Matches("*.jpg", "a.jpg.tmp"));
  EXPECT_FALSE(Matches("/train/*.jpg", "train/x/a.jpg"));
  EXPECT_TRUE(Matches("/train/**.jpg", "train/x/y/a.jpg"));
  EXPECT_TRUE(Matches("/train/**/a.jpg", "train/x/y/a.jpg"));
  EXPECT_TRUE(Matches("**", "any/thing"));
  EXPECT_TRUE(Matches("/a**z", "az"));
}

TEST(KeyGlob, OneWithoutASlashInFrontMatchesBehindAnySlash) {
  EXPECT_TRUE(Matches("*.jpg", "train/x/a.jpg"));
  EXPECT_TRUE(Matches("x/*.jpg", "train/x/a.jpg"));
  EXPECT_FALSE(Matches("x/*.jpg", "train/ax/a.jpg")) << "from the beginning of a name only";
  EXPECT_FALSE(Matches("/x/*.jpg", "train/x/a.jpg"));
  EXPECT_TRUE(Matches("/x/*.jpg", "x/a.jpg"));
}

TEST(KeyGlob, OneThatEndsWithASlashMeansAllBelow) {
  EXPECT_TRUE(Matches("tmp/", "tmp/a"));
  EXPECT_TRUE(Matches("tmp/", "x/tmp/y/a"));
  EXPECT_TRUE(Matches("tmp/", "tmp/")) << "the folder's marker";
  EXPECT_FALSE(Matches("tmp/", "tmp"));
  EXPECT_FALSE(Matches("/tmp/", "x/tmp/a"));
}

TEST(KeyGlob, SetsRangesAndAlternatives) {
  EXPECT_TRUE(Matches("shard-[0-9][0-9].tar", "shard-07.tar"));
  EXPECT_FALSE(Matches("shard-[0-9].tar", "shard-x.tar"));
  EXPECT_TRUE(Matches("[!a-c].txt", "d.txt"));
  EXPECT_FALSE(Matches("[^a-c].txt", "b.txt"));
  EXPECT_FALSE(Matches("a[!b]c", "a/c")) << "no '/' for a set";
  EXPECT_TRUE(Matches("[]a]", "]"));
  EXPECT_TRUE(Matches("[a-]", "-"));
  EXPECT_TRUE(Matches("*.{jpg,jpeg,png}", "a.jpeg"));
  EXPECT_FALSE(Matches("*.{jpg,jpeg}", "a.png"));
  EXPECT_TRUE(Matches("{train,val{1,2}}/*", "val2/x"));
  EXPECT_TRUE(Matches("a{,b}c", "ac"));
  EXPECT_TRUE(Matches("[{]", "{")) << "inside a set it is a character";
}

TEST(KeyGlob, ABackslashTakesTheCharacterAsItIs) {
  EXPECT_TRUE(Matches(R"(a\*b)", "a*b"));
  EXPECT_FALSE(Matches(R"(a\*b)", "axb"));
  EXPECT_TRUE(Matches(R"(\{a,b\})", "{a,b}"));
  EXPECT_TRUE(Matches(R"([\]])", "]"));
  EXPECT_TRUE(Matches(R"({a\,b,c})", "a,b"));
}

TEST(KeyGlob, AQuestionMarkIsOneCharacterAndForeignBytesAreOneEach) {
  EXPECT_TRUE(Matches("?.txt", "ä.txt"));
  EXPECT_FALSE(Matches("??.txt", "ä.txt"));
  EXPECT_TRUE(Matches("??.txt", "\xff\xfe.txt"));
  EXPECT_TRUE(Matches("\xff*", "\xff\xfe"));
  EXPECT_FALSE(Matches("ÿ", "\xff"));
  EXPECT_FALSE(Matches("a?b", "a/b"));
  EXPECT_TRUE(Matches("[ä-ü]", "ö"));
}

TEST(KeyGlob, WhatIsWrongIsSaidWithThePattern) {
  EXPECT_EQ(Refusal("a[b"), "glob 'a[b': a '[' is not closed: write \\[ for the character itself");
  EXPECT_EQ(Refusal("{a,b"),
            "glob '{a,b': a '{' is not closed: write \\{ for the character itself");
  EXPECT_NE(Refusal("a\\"), "");
  EXPECT_NE(Refusal("[z-a]"), "");
  EXPECT_NE(Refusal(""), "");
  EXPECT_NE(Refusal("/"), "");
  EXPECT_NE(Refusal(std::string(1025, 'a')), "");
  EXPECT_NE(Refusal("{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}"), "");
}

TEST(KeyGlob, NoPatternTakesForEver) {
  std::string pattern;
  for (int i = 0; i < 200; ++i) pattern += "**a";
  EXPECT_FALSE(Matches(pattern + "b", std::string(1024, 'a')));
}

TEST(KeyFilter, ExcludesWinAndWithoutIncludesAllElseIsShown) {
  const auto shows = [](std::vector<std::string> includes, std::vector<std::string> excludes,
                        std::string_view key) {
    const Result<KeyFilter> filter = KeyFilter::Parse(includes, excludes);
    EXPECT_TRUE(filter.has_value());
    return filter && filter->Shows(key);
  };
  EXPECT_TRUE(shows({}, {}, "a"));
  EXPECT_TRUE(shows({"*.jpg", "*.png"}, {}, "x/a.png"));
  EXPECT_FALSE(shows({"*.jpg"}, {}, "a.txt"));
  EXPECT_FALSE(shows({"*.jpg"}, {"/tmp/"}, "tmp/a.jpg"));
  EXPECT_TRUE(shows({}, {"*.tmp"}, "a.jpg"));
  EXPECT_FALSE(shows({}, {"*.tmp"}, "a.tmp"));
  EXPECT_FALSE(
      KeyFilter::Parse({std::vector<std::string>(60, "a")}, {std::vector<std::string>(60, "b")}));
  EXPECT_FALSE(KeyFilter::Parse({"a"}, {"["}));
}

}  // namespace
}  // namespace forebay
