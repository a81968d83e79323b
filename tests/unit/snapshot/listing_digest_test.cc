#include "common/snapshot/listing_digest.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/unit/snapshot/testing.h"

namespace forebay {
namespace {

class ListingDigestTest : public ::testing::Test {
 protected:
  std::string DigestOf(const std::vector<TestObject>& objects, const SnapshotOptions& options) {
    const auto snapshot = Build(options, objects, dir_.Path("snapshot"));
    return ListingDigest(*snapshot).value();
  }
  std::string DigestOf(const std::vector<TestObject>& objects) {
    return DigestOf(objects, TestOptions("p/"));
  }

  TempDir dir_;
  std::vector<TestObject> objects_ = {
      {.key = "p/a-b", .size = 1},
      {.key = "p/a/x", .size = 22, .etag = "opaque"},
      {.key = "p/a/b/y", .size = 333, .etag = "d41d8cd98f00b204e9800998ecf8427e-3"},
      {.key = "p/\xff z", .size = 0}};
};

TEST_F(ListingDigestTest, IsTheSha256OfKeysEtagsAndSizesInTheOrderOfTheTree) {
  // By Python: hashlib.sha256 over b"%s\0%s\0%d\0" % (key, etag, size), sorted by key.split(b"/").
  EXPECT_EQ(DigestOf(objects_), "2397225d949b8f2623a02679bb6883a3ecd36f7fe0e6f922fc270ccc779cb3d9");
  EXPECT_EQ(DigestOf({}), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
}

TEST_F(ListingDigestTest, IsTheSameForEveryLinkAndOrderAndTime) {
  const std::string before = DigestOf(objects_);
  std::ranges::reverse(objects_);
  for (TestObject& object : objects_) object.mtime += 5;
  SnapshotOptions options = TestOptions("p/");
  options.id.link = Uuid::Random();
  options.id.generation = 9;
  options.domain = Uuid::Random();
  options.listed_unix_s = 77;
  EXPECT_EQ(DigestOf(objects_, options), before);
  objects_.push_back({.key = "p/a//hidden"});
  objects_.push_back({.key = "p/empty/", .size = 0});
  EXPECT_EQ(DigestOf(objects_), before) << "files alone count";
}

TEST_F(ListingDigestTest, ChangesWithEveryKeyEtagAndSize) {
  const std::string before = DigestOf(objects_);
  std::vector<TestObject> other = objects_;
  other[0].size = 2;
  EXPECT_NE(DigestOf(other), before);
  other = objects_;
  other[1].etag = "opaque2";
  EXPECT_NE(DigestOf(other), before);
  other = objects_;
  other[2].key = "p/a/b/z";
  EXPECT_NE(DigestOf(other), before);
  other = objects_;
  other.pop_back();
  EXPECT_NE(DigestOf(other), before);
}

}  // namespace
}  // namespace forebay
