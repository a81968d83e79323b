#include "common/model/system_link.h"

#include <gtest/gtest.h>

namespace forebay {
namespace {

LinkSpec LinkNamed(const std::string& name) {
  LinkSpec link;
  link.id = Uuid::Parse("00112233-4455-6677-8899-aabbccddeeff");
  link.name = name;
  link.set = "set";
  link.domain = Uuid::Random();
  link.origin.endpoint = "http://s3";
  link.origin.bucket = "bucket";
  link.origin.prefix = "p/";
  link.quota_bytes = 1;
  link.pins = {""};
  return link;
}

// So that who may read the link may read its listing, and what is decided about the link's data
// does not hold for it.
TEST(SystemLink, BearsTheNameOfItsLinkAndNothingElseOfIt) {
  const LinkSpec link = LinkNamed("data");
  const LinkSpec system = SystemLinkOf(link);
  EXPECT_TRUE(IsSystemLink(system));
  EXPECT_FALSE(IsSystemLink(link));
  EXPECT_EQ(system.name, "data");
  EXPECT_EQ(system.set, "set");
  EXPECT_EQ(OwnerOfSystemLink(system), link.id);
  EXPECT_NE(system.id, link.id);
  EXPECT_NE(system.domain, link.domain);
  EXPECT_TRUE(system.pins.empty());
  EXPECT_EQ(system.quota_bytes, 0u);
}

// Nodes have blocks on disk under it.
TEST(SystemLink, HasAnIdThatNeverChanges) {
  const LinkSpec link = LinkNamed("data");
  EXPECT_EQ(SystemLinkId(link.id), SystemLinkOf(LinkNamed("other")).id);
  EXPECT_NE(SystemLinkId(link.id), SystemLinkId(Uuid::Random()));
}

TEST(SystemLink, NamesItsObjectsInOneWay) {
  for (const SnapshotObject object : {SnapshotObject{12, 0}, SnapshotObject{12, 11}}) {
    EXPECT_EQ(ParseSnapshotKey(SnapshotKey(object)), object);
  }
  EXPECT_EQ(SnapshotKey({12, 0}), "12.fbs");
  EXPECT_EQ(SnapshotKey({12, 11}), "11-12.fbd");
  for (const char* wrong :
       {"", ".fbs", "0.fbs", "012.fbs", "+1.fbs", "-1.fbs", "1-2.fbs", "1.fbd", "0-2.fbd", "1-.fbd",
        "1-2-3.fbd", "a/1.fbs", "1.fbs/", "12", "99999999999999999999.fbs"}) {
    EXPECT_FALSE(ParseSnapshotKey(wrong)) << wrong;
  }
}

TEST(SystemLink, WritesDigestsAsETags) {
  EXPECT_EQ(SnapshotEtag(1, 0xabc), "00000000000000010000000000000abc");
  const auto digest = ParseSnapshotEtag("fedcba98765432100000000000000abc");
  ASSERT_TRUE(digest);
  EXPECT_EQ(digest->high, 0xfedcba9876543210u);
  EXPECT_EQ(digest->low, 0xabcu);
  for (const char* wrong :
       {"", "1", "FEDCBA98765432100000000000000ABC", "fedcba9876543210000000000000-abc",
        "+edcba98765432100000000000000abc"}) {
    EXPECT_FALSE(ParseSnapshotEtag(wrong)) << wrong;
  }
}

}  // namespace
}  // namespace forebay
