#include "common/model/link_set.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace forebay {
namespace {

std::string Said(const std::string& set, const std::vector<std::string>& sources) {
  std::vector<SetPart> parts;
  for (const std::string& source : sources) {
    Result<SetPart> part = ParseSetPart(source);
    if (!part) return part.error().message;
    parts.push_back(*part);
  }
  const Status good = ValidateParts(set, parts);
  return good ? "" : good.error().message;
}

TEST(LinkSet, APartIsNamedByItsPrefixOrByTheUser) {
  EXPECT_EQ(ParseSetPart("s3://pics/data/images/")->name, "images");
  EXPECT_EQ(ParseSetPart("s3://bucket")->name, "bucket");
  const Result<SetPart> named = ParseSetPart("train=s3://pics/images/v=2/");
  ASSERT_TRUE(named);
  EXPECT_EQ(named->name, "train");
  EXPECT_EQ(named->location.bucket, "pics");
  EXPECT_EQ(named->location.prefix, "images/v=2/");
  EXPECT_EQ(ParseSetPart("s3://pics/date=1/")->name, "date-1") << "the = is the prefix's";
}

TEST(LinkSet, ALinkOfAPartSaysWhichPartItIs) {
  LinkSpec link;
  link.name = LinkOfPart("my.clip", "images.v2");
  EXPECT_EQ(PartOf(link), "");
  link.set = "my.clip";
  EXPECT_EQ(PartOf(link), "images.v2");
}

TEST(LinkSet, GoodPartsArePassed) {
  EXPECT_EQ(Said("clip", {"s3://pics/images", "s3://text/labels/", "x=s3://text/images"}), "");
}

TEST(LinkSet, EachWrongSetIsRefusedWithItsSentence) {
  EXPECT_EQ(
      Said("clip", {"s3://pics/images", "s3://text/images/"}),
      "s3://pics/images and s3://text/images/ would both be 'images': name one of them otherwise, "
      "as in images2=s3://text/images/");
  EXPECT_EQ(Said("clip", {"s3://pics/images", "x=s3://pics/images/"}),
            "the source s3://pics/images is given twice");
  EXPECT_EQ(Said("clip", {"s3://pics/images"}),
            "a set has 2 to 16 sources, and 'clip' would have 1");
  EXPECT_NE(Said("clip", {"s3://pics/images", "a/b=s3://text/x"}).find("'a/b' is no link name"),
            std::string::npos);
  EXPECT_NE(Said("clip", {"s3://pics/images", "x=/mnt"}).find("/mnt"), std::string::npos);
  EXPECT_NE(
      Said(std::string(60, 'c'), {"s3://pics/images", "s3://text/labels"}).find("63 characters"),
      std::string::npos);
}

}  // namespace
}  // namespace forebay
