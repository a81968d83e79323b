#include "common/model/key_rules.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

namespace forebay {
namespace {

using Kind = KeyVerdict::Kind;

TEST(KeyRules, ShowRawBytesAsTheyAre) {
  const std::vector<std::string> paths = {"a",
                                          "a/b",
                                          "...",
                                          "a/..b",
                                          "a b",
                                          "\xff\xfe/\x01",
                                          "CR\r/LF\n",
                                          "~/x",
                                          "a/b.c",
                                          "A/a",
                                          "x/.forebay",
                                          "a\\b",
                                          std::string(255, 'x') + "/y",
                                          "%2F",
                                          "a/%2e.",
                                          ".foreba",
                                          ".forebay2/x",
                                          "e\xcc\x81/x",
                                          ".hidden"};
  for (const std::string& path : paths) {
    const KeyVerdict verdict = JudgeKey(path);
    EXPECT_EQ(verdict.kind, Kind::kFile) << path;
    EXPECT_EQ(verdict.path, path);
    const std::string marker = path + "/";
    EXPECT_EQ(JudgeKey(marker).kind, Kind::kDirectoryMarker) << path;
    EXPECT_EQ(JudgeKey(marker).path, path);
  }
  EXPECT_EQ(JudgeKey("").kind, Kind::kRootMarker);
}

TEST(KeyRules, HideWhatAPathCannotHold) {
  using R = HiddenReason;
  const std::vector<std::pair<std::string, R>> cases = {
      {"/", R::kEmptyComponent},
      {"/a", R::kEmptyComponent},
      {"a//b", R::kEmptyComponent},
      {"a//", R::kEmptyComponent},
      {".", R::kDotComponent},
      {"..", R::kDotComponent},
      {"./a", R::kDotComponent},
      {"a/../b", R::kDotComponent},
      {"a/./", R::kDotComponent},
      {std::string("\0", 1), R::kNulByte},
      {std::string("a/b\0c/d", 7), R::kNulByte},
      {std::string(256, 'x'), R::kTooLong},
      {"a/" + std::string(256, 'x') + "/b", R::kTooLong},
      {".forebay", R::kReservedName},
      {".forebay/", R::kReservedName},
      {".forebay/stats", R::kReservedName},
  };
  for (const auto& [key, reason] : cases) {
    const KeyVerdict verdict = JudgeKey(key);
    EXPECT_EQ(verdict.kind, Kind::kHidden) << key;
    EXPECT_EQ(verdict.reason, reason) << key;
  }
  std::string endless;
  while (endless.size() <= kMaxListedKeyBytes) endless += "abcdefg/";
  EXPECT_EQ(JudgeKey(endless).reason, R::kTooLong);
}

TEST(KeyRules, EveryReasonHasItsOwnSentence) {
  std::vector<std::string_view> texts;
  for (int value = 1; value <= static_cast<int>(HiddenReason::kOutOfRange); ++value) {
    texts.push_back(HiddenReasonText(static_cast<HiddenReason>(value)));
  }
  std::ranges::sort(texts);
  EXPECT_TRUE(std::ranges::adjacent_find(texts) == texts.end());
  EXPECT_TRUE(std::ranges::find(texts, "unknown reason") == texts.end());
  EXPECT_EQ(HiddenReasonText(static_cast<HiddenReason>(200)), "unknown reason");
}

TEST(RelativeKey, NeverTakesANeighbourOfThePrefix) {
  EXPECT_EQ(RelativeKey("", "a/b"), "a/b");
  EXPECT_EQ(RelativeKey("pre/", "pre/a"), "a");
  EXPECT_EQ(RelativeKey("pre/", "pre/"), "");
  EXPECT_EQ(RelativeKey("pre/", "prefix2/a"), std::nullopt);
  EXPECT_EQ(RelativeKey("pre/", "pre"), std::nullopt);
  EXPECT_EQ(RelativeKey("pre", "prefix2"), std::nullopt);
  EXPECT_EQ(RelativeKey("pre", "pre/a"), std::nullopt);
  EXPECT_EQ(RelativeKey("pre", "pre"), "pre");
  EXPECT_EQ(RelativeKey("a/b/x.tar", "a/b/x.tar"), "x.tar");
}

TEST(KeyAtPath, UndoesRelativeKey) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"", "a/b"}, {"p/q/", "p/q/a/b"}, {"one/object.tar", "one/object.tar"}};
  for (const auto& [prefix, key] : cases) {
    EXPECT_EQ(KeyAtPath(prefix, *RelativeKey(prefix, key)), key);
  }
}

TEST(ComparePaths, OrdersAsAWalkDoes) {
  const std::vector<std::string> walk = {"a",   "a/",    "a/a", "a/b/c", "a/b/d", "a/b.x",
                                         "a\1", "a-b/x", "a.b", "ab",    "b",     "\xff"};
  for (std::size_t i = 0; i < walk.size(); ++i) {
    for (std::size_t j = 0; j < walk.size(); ++j) {
      const int compared = ComparePaths(walk[i], walk[j]);
      EXPECT_EQ(compared < 0, i < j) << walk[i] << " " << walk[j];
      EXPECT_EQ(compared == 0, i == j) << walk[i] << " " << walk[j];
    }
  }
}

}  // namespace
}  // namespace forebay
