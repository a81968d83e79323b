#include "common/model/shard.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <set>
#include <string>
#include <vector>

namespace forebay {
namespace {

using ::testing::HasSubstr;

TEST(Shard, IsWrittenAsItIsRead) {
  for (const char* text : {"0/1", "3/4", "0/1000000", "1/3,seed=0", "1/3,seed=7,epoch=12",
                           "1/3,seed=18446744073709551615,epoch=18446744073709551615"}) {
    const Result<Shard> shard = Shard::Parse(text);
    ASSERT_TRUE(shard) << shard.error().message;
    EXPECT_EQ(shard->ToString(), text);
    EXPECT_EQ(Shard::Parse(shard->ToString()).value(), *shard);
  }
  EXPECT_EQ(Shard::Parse("1/3,epoch=2,seed=7").value(), Shard::Parse("1/3,seed=7,epoch=2").value());
  EXPECT_TRUE(Shard::Parse("0/1").value().is_all());
}

TEST(Shard, BadTextsAreRefusedWithTheReason) {
  const auto why = [](const char* text) { return Shard::Parse(text).error().message; };
  EXPECT_THAT(why("4/4"), HasSubstr("numbered from 0 to 3"));
  EXPECT_THAT(why("1"), HasSubstr("it has no /"));
  EXPECT_THAT(why("1/3,epoch=2"), HasSubstr("without a seed"));
  EXPECT_THAT(why("1/3,seed=1,seed=1"), HasSubstr("two seeds"));
  EXPECT_THAT(why("1/3,sed=1"), HasSubstr("\"sed=1\""));
  for (const char* text : {"", "/", "1/", "/3", "0/0", "-1/3", "1/3,", "1/3,seed=", "1/3,seed=x",
                           "0/1000001", "1/3 ", "4294967296/5"}) {
    const Result<Shard> shard = Shard::Parse(text);
    ASSERT_FALSE(shard) << text;
    EXPECT_EQ(shard.error().code, Code::kInvalid);
  }
}

TEST(Shard, ThePartsOfATotalFollowOneAnotherAndDifferByOneAtMost) {
  std::mt19937_64 random(6);
  for (int round = 0; round < 200; ++round) {
    const std::uint64_t total = random() >> (random() % 64);
    const auto count = static_cast<std::uint32_t>(1 + random() % 100);
    std::uint64_t next = 0;
    for (std::uint32_t i = 0; i < count; ++i) {
      const Shard shard{.index = i, .count = count};
      EXPECT_EQ(shard.Begin(total), next);
      next = shard.End(total);
      EXPECT_LE(next - shard.Begin(total) - total / count, 1u) << total << " by " << count;
    }
    EXPECT_EQ(next, total);
  }
}

TEST(Shard, TheOrderIsAnotherOneForEachSeedAndEpoch) {
  std::set<std::uint64_t> places;
  places.insert(Shard::Parse("0/2").value().PlaceOf("a"));
  for (const char* text : {"0/2,seed=0", "0/2,seed=1", "0/2,seed=0,epoch=1", "0/2,seed=1,epoch=1"})
    places.insert(Shard::Parse(text).value().PlaceOf("a"));
  EXPECT_EQ(places.size(), 5u);
  // What other machines run must deal alike: these numbers never change.
  EXPECT_EQ(Shard::Parse("1/2").value().PlaceOf("train/a.jpg"), 14553425563482006925u);
  EXPECT_EQ(Shard::Parse("1/2,seed=7,epoch=2").value().PlaceOf("train/a.jpg"),
            12668694524019122884u);
}

TEST(Shard, TheEndingOfAPathIsBehindTheLastDotOfItsName) {
  EXPECT_EQ(WithoutEnding("1.jpg"), "1");
  EXPECT_EQ(WithoutEnding("a/1.jpg"), "a/1");
  EXPECT_EQ(WithoutEnding("a/1.tar.gz"), "a/1.tar");
  EXPECT_EQ(WithoutEnding("a/1."), "a/1");
  EXPECT_EQ(WithoutEnding("a.d/1"), "a.d/1");
  EXPECT_EQ(WithoutEnding("a.d/.hidden"), "a.d/.hidden");
  EXPECT_EQ(WithoutEnding("a/.hidden.txt"), "a/.hidden");
  EXPECT_EQ(WithoutEnding("a/..."), "a/...");
  EXPECT_EQ(WithoutEnding(""), "");
}

TEST(Shard, ByNameEachPathIsInOneShardAndAllShardsHaveSome) {
  for (const std::uint32_t count : {1u, 2u, 3u, 7u, 1000u}) {
    std::vector<int> files(count, 0);
    for (int i = 0; i < 5000; ++i) {
      const std::string name = "c/" + std::to_string(i);
      std::uint32_t shards = 0;
      for (std::uint32_t index = 0; index < count; ++index) {
        const Shard shard{.index = index, .count = count, .seed = 7};
        const bool has = shard.HasName(name + ".jpg");
        EXPECT_EQ(has, shard.HasName(name + ".txt"));
        shards += has ? 1 : 0;
        files[index] += has ? 1 : 0;
      }
      EXPECT_EQ(shards, 1u) << name;
    }
    // Of 5,000 files a share of less than half its due is a chance of 1e-10 for up to 7 shards.
    if (count > 7) continue;
    for (const int each : files) EXPECT_GT(each, 2500 / static_cast<int>(count));
  }
}

}  // namespace
}  // namespace forebay
