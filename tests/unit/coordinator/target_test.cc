#include "coordinator/target.h"

#include <gtest/gtest.h>

#include "tests/unit/coordinator/testing.h"

namespace forebay {
namespace {

class TargetTest : public testing::Test {
 protected:
  std::string Resolve(std::string_view text) {
    const Result<ResolvedTarget> target = ResolveTarget(text, links);
    if (!target) return "error: " + target.error().message;
    return target->link.name + "|" + target->path;
  }

  std::vector<LinkSpec> links = {
      TestLink("imagenet", "data", "imagenet/"), TestLink("val", "data", "imagenet/val/"),
      TestLink("whole", "other", ""), TestLink("one", "data", "weights/model.bin")};
};

TEST_F(TargetTest, ANameIsTheWholeLink) {
  EXPECT_EQ(Resolve("imagenet"), "imagenet|");
  EXPECT_EQ(Resolve("imagenet/"), "imagenet|");
}

TEST_F(TargetTest, ANameAndAPathIsAPartOfIt) {
  EXPECT_EQ(Resolve("imagenet/train/n01"), "imagenet|train/n01");
  EXPECT_EQ(Resolve("imagenet/train/n01///"), "imagenet|train/n01");
}

TEST_F(TargetTest, ALocationBelongsToTheLinkWithTheLongestPrefix) {
  EXPECT_EQ(Resolve("s3://data/imagenet/train"), "imagenet|train");
  EXPECT_EQ(Resolve("s3://data/imagenet/val/a.jpg"), "val|a.jpg");
  EXPECT_EQ(Resolve("s3://other/x/y/"), "whole|x/y");
  EXPECT_EQ(Resolve("s3://other"), "whole|");
  EXPECT_EQ(Resolve("s3://data/weights/model.bin"), "one|model.bin");
}

TEST_F(TargetTest, ASlashAtTheEndChangesNothing) {
  for (const std::string text : {"s3://data/imagenet", "s3://data/imagenet/val", "imagenet/a"}) {
    EXPECT_EQ(Resolve(text), Resolve(text + "/")) << text;
  }
  EXPECT_EQ(Resolve("s3://data/imagenet"), "imagenet|");
}

TEST_F(TargetTest, APrefixNeverTakesItsLongerNeighbour) {
  EXPECT_TRUE(Resolve("s3://data/imagenet2").starts_with("error: no link covers"));
  EXPECT_TRUE(Resolve("s3://data/weights/model.bin2").starts_with("error: no link covers"));
  EXPECT_TRUE(Resolve("s3://data").starts_with("error: no link covers"));
}

TEST_F(TargetTest, WhatIsUnknownNamesTheNearest) {
  EXPECT_EQ(Resolve("imagnet/x"), "error: no link 'imagnet'; the nearest is 'imagenet'");
  EXPECT_NE(Resolve("s3://data/imagnet/x").find("'imagenet'"), std::string::npos);
  EXPECT_EQ(Resolve("s3:/x"), "error: no link 's3:': `forebay links` shows what there is");
  EXPECT_EQ(Resolve("s3://another/bucket"),
            "error: no link covers s3://another/bucket: link it first, `forebay link "
            "s3://another/bucket --as NAME`");
  links.clear();
  EXPECT_NE(Resolve("imagenet").find("no links yet"), std::string::npos);
  EXPECT_NE(Resolve("s3://data/x").find("no links yet"), std::string::npos);
}

TEST_F(TargetTest, NonsenseIsInvalid) {
  EXPECT_EQ(ResolveTarget("", links).error().code, Code::kInvalid);
  EXPECT_EQ(ResolveTarget("/x", links).error().code, Code::kInvalid);
  EXPECT_EQ(ResolveTarget("s3://", links).error().code, Code::kInvalid);
}

class SetTarget : public TargetTest {
 protected:
  SetTarget() {
    for (const std::string part : {"images", "labels"}) {
      LinkSpec link = TestLink("clip." + part, part == "images" ? "pics" : "text", part + "/");
      link.set = "clip";
      links.push_back(link);
    }
  }
};

TEST_F(SetTarget, APartIsFoundBelowItsSetByItsNameAndByItsPlace) {
  EXPECT_EQ(Resolve("clip/images"), "clip.images|");
  EXPECT_EQ(Resolve("clip/labels/x/y.txt"), "clip.labels|x/y.txt");
  EXPECT_EQ(Resolve("clip//images/"), "clip.images|");
  EXPECT_EQ(Resolve("clip.images/x"), "clip.images|x");
  EXPECT_EQ(Resolve("s3://text/labels/x"), "clip.labels|x");
}

TEST_F(SetTarget, WhatIsNoPartNamesThoseThatAre) {
  EXPECT_EQ(Resolve("clip/masks/x"),
            "error: the set 'clip' has no part 'masks'; it has 'images', 'labels'");
  EXPECT_EQ(Resolve("clip"),
            "error: 'clip' is a set, and this is about one link: name one of clip.images, "
            "clip.labels");
}

TEST_F(SetTarget, OnlyTheWholeSetNamesItsParts) {
  EXPECT_EQ(PartsNamed("clip", links).size(), 2u);
  EXPECT_EQ(PartsNamed("clip/", links).size(), 2u);
  for (const std::string text :
       {"clip/images", "clip.images", "imagenet", "", "/", "s3://pics", "no"})
    EXPECT_TRUE(PartsNamed(text, links).empty()) << text;
}

}  // namespace
}  // namespace forebay
