#include "common/snapshot/name_groups.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "common/snapshot/snapshot_format.h"
#include "tests/unit/snapshot/testing.h"

namespace forebay {
namespace {

void ExpectRoundTrip(const std::vector<std::string>& names) {
  std::string coded = "in front";
  const std::size_t offset = coded.size();
  const std::vector<std::string_view> views(names.begin(), names.end());
  AppendNameGroup(views, coded);
  NameDecoder decoder;
  for (std::uint32_t i = 0; i < names.size(); ++i) {
    ASSERT_TRUE(i == 0 ? decoder.Start(coded, offset) : decoder.Next());
    ASSERT_EQ(decoder.name(), names[i]);
    for (const std::string& other : names) {
      ASSERT_EQ(GroupNameEquals(coded, offset, i, other), other == names[i]);
    }
    ASSERT_FALSE(GroupNameEquals(coded, offset, i, names[i] + "x"));
    ASSERT_FALSE(GroupNameEquals(coded, offset, i, "x" + names[i]));
    if (!names[i].empty()) {
      ASSERT_FALSE(GroupNameEquals(coded, offset, i, names[i].substr(1) + names[i].front() + "~"));
    }
  }
}

TEST(NameGroup, KeepsAnyNames) {
  const std::uint64_t seed = TestSeed();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937_64 random(seed);
  for (int round = 0; round < 3'000; ++round) {
    const std::size_t alphabet = round % 3 == 0 ? 256 : 2;
    const std::size_t longest = round % 5 == 0 ? 255 : 12;
    std::vector<std::string> names(1 + random() % kNameGroupRows);
    const std::string prefix(random() % (longest / 2), 'p');
    const std::string suffix(random() % (longest / 2), 's');
    for (std::string& name : names) {
      name = prefix;
      const std::size_t middle = random() % (longest - prefix.size() - suffix.size() + 1);
      for (std::size_t i = 0; i < middle; ++i) {
        name.push_back(static_cast<char>('a' + random() % alphabet));
      }
      name += suffix;
    }
    if (round % 2 == 0) std::ranges::sort(names);
    ASSERT_NO_FATAL_FAILURE(ExpectRoundTrip(names));
  }
}

TEST(NameGroup, SharesBothEndsOfLikeNames) {
  std::vector<std::string> names(16);
  for (std::size_t i = 0; i < names.size(); ++i) {
    names[i] = "n01440764_10" + std::to_string(26 + i) + ".JPEG";
  }
  const std::vector<std::string_view> views(names.begin(), names.end());
  std::string coded;
  AppendNameGroup(views, coded);
  EXPECT_LE(coded.size(), 3 + 19 + 15 * 3u);
  ExpectRoundTrip(names);
}

TEST(NameGroup, OfRandomBytesNeverReadsOutside) {
  const std::uint64_t seed = TestSeed();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937_64 random(seed);
  for (int round = 0; round < 20'000; ++round) {
    // On the heap and exactly as long as it is: the address sanitizer sees one byte too many.
    std::vector<char> bytes(random() % 64);
    for (char& byte : bytes) byte = static_cast<char>(random() % (round % 2 == 0 ? 256 : 8));
    const std::string_view names(bytes.data(), bytes.size());
    const std::size_t offset = random() % 70;
    NameDecoder decoder;
    if (decoder.Start(names, offset)) {
      for (int i = 0; i < 20 && decoder.Next(); ++i) EXPECT_LE(decoder.name().size(), 255u);
    }
    GroupNameEquals(names, offset, static_cast<std::uint32_t>(random() % 20), "some name");
  }
}

}  // namespace
}  // namespace forebay
