#include "common/model/object_version.h"

#include <gtest/gtest.h>

#include <set>

#include "common/model/block_id.h"
#include "common/model/link.h"

namespace forebay {
namespace {

TEST(ObjectVersion, IsStableAcrossReleases) {
  // Stored in segments and snapshots: these values may never change.
  const ObjectIdentity identity{.domain = Uuid::Parse("00112233-4455-6677-8899-aabbccddeeff"),
                                .endpoint = "http://127.0.0.1:7480",
                                .bucket = "b",
                                .key = "train/a.jpg",
                                .etag = "d41d8cd98f00b204e9800998ecf8427e",
                                .size = 39000};
  EXPECT_EQ(ComputeObjectVersion(identity).ToString(), "67c0c3d2bf7af7f3105682d989937e5e");
  const BlockId block = BlockAt(ComputeObjectVersion(identity), 39000, kDefaultBlockBytes, 5);
  EXPECT_EQ(PartitionOf(block), 37583u);
}

TEST(ObjectVersion, FieldsCannotRunIntoEachOther) {
  const Uuid domain = Uuid::Random();
  std::set<std::string> versions;
  const auto add = [&](std::string_view bucket, std::string_view key, std::string_view etag) {
    versions.insert(ComputeObjectVersion({domain, "http://h", bucket, key, etag, 1}).ToString());
  };
  add("ab", "c", "d");
  add("a", "bc", "d");
  add("a", "b", "cd");
  add("", "abc", "d");
  EXPECT_EQ(versions.size(), 4u);
}

TEST(Uuid, RoundTripsAndRefusesAnythingElse) {
  const Uuid uuid = Uuid::Random();
  EXPECT_EQ(Uuid::Parse(uuid.ToString()), uuid);
  EXPECT_FALSE(uuid.IsZero());
  EXPECT_TRUE(Uuid::Parse("").IsZero());
  EXPECT_TRUE(Uuid::Parse("00112233-4455-6677-8899-aabbccddeefg").IsZero());
  EXPECT_TRUE(Uuid::Parse("0011223304455-6677-8899-aabbccddeeff").IsZero());
}

TEST(Endpoint, OneFormForEverySpelling) {
  EXPECT_EQ(NormalisedEndpoint("HTTP://LocalHost:80/"), "http://localhost");
  EXPECT_EQ(NormalisedEndpoint("https://s3.amazonaws.com:443//"), "https://s3.amazonaws.com");
  EXPECT_EQ(NormalisedEndpoint("http://127.0.0.1:7480"), "http://127.0.0.1:7480");
  EXPECT_EQ(NormalisedEndpoint("https://h/Path/"), "https://h/Path");
}

TEST(BlockAt, CutsTheLastBlockShort) {
  const ObjectVersion version{1, 2};
  EXPECT_EQ(BlockAt(version, 10'000'000, 4 << 20, 0).length, 4u << 20);
  EXPECT_EQ(BlockAt(version, 10'000'000, 4 << 20, 9'999'999),
            (BlockId{version, 8u << 20, 10'000'000 - (8u << 20)}));
  EXPECT_EQ(BlockAt(version, 4 << 20, 4 << 20, (4 << 20) - 1), (BlockId{version, 0, 4u << 20}));
}

TEST(EnclosingCells, CoversTheRangeAndNothingMore) {
  EXPECT_EQ(EnclosingCells({0, 1}, 100), (BlockRange{0, 100}));
  EXPECT_EQ(EnclosingCells({65'536, 65'537}, 200'000), (BlockRange{65'536, 131'072}));
  EXPECT_EQ(EnclosingCells({65'535, 65'537}, 200'000), (BlockRange{0, 131'072}));
  EXPECT_EQ(EnclosingCells({190'000, 200'000}, 200'000), (BlockRange{131'072, 200'000}));
}

TEST(S3Location, SplitsBucketAndPrefix) {
  const auto location = ParseS3Location("s3://bucket/a/b/");
  ASSERT_TRUE(location.has_value());
  EXPECT_EQ(location->bucket, "bucket");
  EXPECT_EQ(location->prefix, "a/b/");
  EXPECT_EQ(ParseS3Location("s3://bucket")->prefix, "");
  for (const char* bad :
       {"", "bucket/a", "s3:/b", "s3://", "s3://ab", "s3://with space/x", "https://bucket/x"}) {
    EXPECT_FALSE(ParseS3Location(bad).has_value()) << bad;
  }
}

TEST(S3Location, AnArnIsRefusedByItsName) {
  const auto arn = ParseS3Location("s3://arn:aws:s3:us-west-2:123456789012:accesspoint/ap/x");
  ASSERT_FALSE(arn.has_value());
  EXPECT_NE(arn.error().message.find("names an ARN"), std::string::npos);
}

TEST(AccountId, IsTwelveDigits) {
  EXPECT_TRUE(IsAccountId("012345678901"));
  for (const char* bad : {"", "01234567890", "0123456789012", "01234567890x"}) {
    EXPECT_FALSE(IsAccountId(bad)) << bad;
  }
}

TEST(LinkName, DefaultsToTheLastComponent) {
  EXPECT_EQ(DefaultLinkName({"bucket", "data/train/"}), "train");
  EXPECT_EQ(DefaultLinkName({"bucket", ""}), "bucket");
  EXPECT_EQ(DefaultLinkName({"bucket", "a b/.c d/"}), "c-d");
  EXPECT_TRUE(ValidateLinkName(DefaultLinkName({"bucket", "a/..-/"})).has_value());
  EXPECT_FALSE(ValidateLinkName("a/b").has_value());
  EXPECT_FALSE(ValidateLinkName("").has_value());
  EXPECT_FALSE(ValidateLinkName(".forebay").has_value());
}

}  // namespace
}  // namespace forebay
