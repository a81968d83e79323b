#include "common/s3/link_manifest.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace forebay {
namespace {

using testing::HasSubstr;

const S3Location kNoRoot;

std::vector<std::string> Keys(const LinkManifest& manifest) {
  std::vector<std::string> keys;
  keys.reserve(manifest.names.size());
  for (const LinkManifest::Name& name : manifest.names) keys.push_back(name.key);
  return keys;
}

LinkManifest Read(std::string_view text, const S3Location& base = {"bkt", ""},
                  const S3Location& root = kNoRoot) {
  Result<LinkManifest> manifest = ParseLinkManifest(std::string(text), base, root);
  EXPECT_TRUE(manifest.has_value()) << manifest.error().message;
  return manifest ? *std::move(manifest) : LinkManifest();
}

std::string Refusal(std::string_view text, const S3Location& root = kNoRoot) {
  const Result<LinkManifest> manifest = ParseLinkManifest(std::string(text), {"bkt", ""}, root);
  return manifest ? "" : manifest.error().message;
}

TEST(LinkManifest, OfSageMakerNamesObjectsBehindItsPrefix) {
  const LinkManifest manifest = Read(
      R"([{"prefix": "s3://customer/some/prefix/"}, "z/1.jpg", "a/ä.jpg", "s3://x", "z/1.jpg"])");
  EXPECT_EQ(manifest.bucket, "customer");
  EXPECT_EQ(manifest.prefix, "some/prefix/");
  EXPECT_EQ(Keys(manifest), (std::vector<std::string>{"some/prefix/a/ä.jpg", "some/prefix/s3://x",
                                                      "some/prefix/z/1.jpg"}));
  EXPECT_EQ(manifest.names.back().line, 2U) << "the first of two that are the same";
  EXPECT_TRUE(manifest.bad.empty());
}

TEST(LinkManifest, APrefixOfSageMakerMayEndInTheMiddleOfAName) {
  const LinkManifest manifest = Read(R"([{"prefix":"s3://customer/some/pre"},"fix/a","/b"])");
  EXPECT_EQ(manifest.prefix, "some/");
  EXPECT_EQ(Keys(manifest), (std::vector<std::string>{"some/pre/b", "some/prefix/a"}));
}

TEST(LinkManifest, AListHasANameOnEachLine) {
  const LinkManifest manifest = Read("\xef\xbb\xbfs3://bkt/p/b/2\r\n\r\np/a/1\np/a/ x \n");
  EXPECT_EQ(manifest.bucket, "bkt");
  EXPECT_EQ(manifest.prefix, "p/");
  EXPECT_EQ(Keys(manifest), (std::vector<std::string>{"p/a/ x ", "p/a/1", "p/b/2"}));
  EXPECT_EQ(manifest.names.back().line, 1U);
  EXPECT_EQ(manifest.names.front().line, 4U);
}

TEST(LinkManifest, AnAugmentedOneHasAnObjectOnEachLine) {
  const LinkManifest manifest = Read(
      "{\"source-ref\": \"s3://bkt/p/b\", \"class\": 1}\r\n"
      "\n"
      "  {\"source-ref\": \"s3://bkt/p/a\", \"x\": {\"y\": [1, \"\u00e4\"]}} \n"
      "{\"class\": 2, \"source-ref\": \"s3://bkt/p/b\"}");
  EXPECT_EQ(manifest.prefix, "p/");
  ASSERT_EQ(Keys(manifest), (std::vector<std::string>{"p/a", "p/b"}));
  EXPECT_TRUE(manifest.bad.empty());
  ASSERT_EQ(manifest.names[0].lines.size(), 1U);
  EXPECT_EQ(manifest.names[0].lines[0].line, 3U);
  EXPECT_EQ(manifest.names[0].lines[0].json,
            "{\"source-ref\": \"s3://bkt/p/a\", \"x\": {\"y\": [1, \"\u00e4\"]}}");
  // An object that two lines name has both.
  ASSERT_EQ(manifest.names[1].lines.size(), 2U);
  EXPECT_EQ(manifest.names[1].line, 1U);
  EXPECT_EQ(manifest.names[1].lines[0].json, "{\"source-ref\": \"s3://bkt/p/b\", \"class\": 1}");
  EXPECT_EQ(manifest.names[1].lines[1].line, 4U);
}

TEST(LinkManifest, LinesOfAnAugmentedOneStandInItsText) {
  // A manifest may be moved, also one that is shorter than what a string holds without memory.
  LinkManifest first = Read("{\"source-ref\": \"s3://bkt/k\"}");
  const LinkManifest moved = std::move(first);
  EXPECT_EQ(moved.names.at(0).lines.at(0).json, *moved.text);
  EXPECT_EQ(moved.names.at(0).lines.at(0).json.data(), moved.text->data()) << "not a copy";
  EXPECT_EQ(Read("p/a\n").text, nullptr);
}

TEST(LinkManifest, BadLinesOfAnAugmentedOneAreNamedWithTheReason) {
  const LinkManifest manifest = Read(
      "{\"source-ref\": \"s3://bkt/a\"}\n"
      "{\"source-ref\": \"a\"}\n"
      "{\"source\": \"some text\"}\n"
      "{\"source-ref\": 5}\n"
      "{\"source-ref\": \"s3://bkt/b\"\n"
      "{\"source-ref\": \"s3://other/b\"}\n"
      "[]\n");
  EXPECT_EQ(Keys(manifest), std::vector<std::string>{"a"});
  ASSERT_EQ(manifest.bad.size(), 6U);
  for (std::size_t i = 0; i < 6; ++i) EXPECT_EQ(manifest.bad[i].line, i + 2);
  EXPECT_THAT(manifest.bad[0].reason, HasSubstr("line 2 names no object in \"source-ref\""));
  EXPECT_THAT(manifest.bad[3].reason, HasSubstr("line 5 is no JSON"));
  EXPECT_THAT(manifest.bad[4].reason, HasSubstr("is not in bucket bkt"));
}

TEST(LinkManifest, NamesMayStandBehindAPrefixThatIsGiven) {
  const LinkManifest manifest = Read("a\ns3://bkt/p/b\n", {"bkt", "p/"}, {"bkt", "p/"});
  EXPECT_EQ(manifest.prefix, "p/");
  EXPECT_EQ(Keys(manifest), (std::vector<std::string>{"p/a", "p/b"}));
}

TEST(LinkManifest, OneObjectLiesInItsFolder) {
  EXPECT_EQ(Read("p/a/1").prefix, "p/a/");
  EXPECT_EQ(Read("1").prefix, "");
}

TEST(LinkManifest, EachBadLineIsASentence) {
  const LinkManifest manifest = Read("s3://bkt/p/a\ns3://other/p/b\ns3://bkt/\ns3://bkt/q/c\n" +
                                         std::string(1020, 'k') + "\ns3://no such/x\n",
                                     {"bkt", "p/"}, {"bkt", "p/"});
  ASSERT_EQ(manifest.bad.size(), 4U);
  EXPECT_EQ(manifest.bad[0].line, 2U);
  EXPECT_EQ(
      manifest.bad[0].reason,
      "line 2 's3://other/p/b' is not in bucket bkt: a link reads one bucket: make a link for "
      "each");
  EXPECT_THAT(manifest.bad[1].reason, HasSubstr("line 3 's3://bkt/' names a bucket"));
  EXPECT_THAT(manifest.bad[2].reason, HasSubstr("'s3://bkt/q/c' is not below s3://bkt/p/"));
  EXPECT_THAT(manifest.bad[3].reason, HasSubstr("line 6 "));
  EXPECT_EQ(Keys(manifest).size(), 2U) << "1020 bytes behind p/ are a key";
}

TEST(LinkManifest, OfAFileThatIsNoneTheFirstBadLinesAreKeptAndTheRestCounted) {
  std::string text;
  for (int i = 0; i < 5000; ++i) text += "s3://other/k\n";
  const LinkManifest manifest = Read(text, {"bkt", "p/"}, {"bkt", "p/"});
  EXPECT_EQ(manifest.bad.size(), kMostBadKept);
  EXPECT_EQ(manifest.bad.back().line, 1000U);
  EXPECT_EQ(manifest.bad_lines(), 5000U);
  EXPECT_TRUE(manifest.names.empty());
}

TEST(LinkManifest, MoreNamesThanItMayHaveAreRefused) {
  std::string list;
  std::string json = R"([{"prefix":"s3://bkt/p/"})";
  for (std::size_t i = 0; i <= kMaxManifestNames; ++i) {
    list += "k\n";
    json += ",1";
  }
  EXPECT_THAT(Refusal(list), HasSubstr("names more than 2000000 objects: split it"));
  EXPECT_THAT(Refusal(json + "]"), HasSubstr("names more than 2000000 objects: split it"));
}

TEST(LinkManifest, EntriesOfJsonAreNamesOrBad) {
  const LinkManifest manifest = Read(R"([{"prefix":"s3://bkt/p/"}, "a", 7, "", {"x": 1}])");
  EXPECT_EQ(Keys(manifest), (std::vector<std::string>{"p/a"}));
  ASSERT_EQ(manifest.bad.size(), 3U);
  EXPECT_EQ(manifest.bad[0].reason,
            "entry 3 is no text: write the name of an object behind the prefix");
  EXPECT_EQ(manifest.bad[1].reason, "entry 4 names nothing: take it out");
}

TEST(LinkManifest, WhatIsNoManifestIsRefusedWithAReason) {
  EXPECT_THAT(Refusal(""), HasSubstr("names no object"));
  EXPECT_THAT(Refusal("\n\n"), HasSubstr("names no object"));
  EXPECT_THAT(Refusal("[1"), HasSubstr("no JSON array"));
  EXPECT_THAT(Refusal(R"(["a"])"), HasSubstr("its first entry is not"));
  EXPECT_THAT(Refusal(R"([{"prefix":"p"},"a"])"), HasSubstr("its prefix"));
  EXPECT_THAT(Refusal(R"([{"prefix":"s3://bkt/p/"}])"), HasSubstr("names no object"));
  EXPECT_THAT(Refusal(R"([{"prefix":"s3://bkt/p/"},"a"])", {"other", "p/"}),
              HasSubstr("its prefix is in bucket"));
}

}  // namespace
}  // namespace forebay
