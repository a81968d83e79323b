// Where a link's manifest may lie.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/wire/messages.h"
#include "tests/component/coordinator/cluster_fixture.h"

namespace forebay {
namespace {

using testing::AllOf;
using testing::HasSubstr;

class ManifestTest : public ClusterTest {
 protected:
  ManifestTest() {
    store.Put("data/a", 10);
    store.Put("data/b", 10);
    store.PutText("lists/m", "s3://bucket/data/a\ns3://bucket/data/b\n");
    StartCoordinator();
  }
  Result<proto::LinkReply> Link(const std::string& manifest) {
    proto::LinkRequest request = LinkRequestFor("named", "");
    request.clear_bucket();
    request.set_manifest(manifest);
    return admin.Ask<proto::LinkReply>(address(), Method::kLink, request);
  }
};

TEST_F(ManifestTest, MayLieInAnotherBucketOfTheSameRegion) {
  const auto linked = Link("s3://other/lists/m");
  ASSERT_TRUE(linked.has_value()) << linked.error().message;
  const proto::TaskState task = WaitForTask(linked->task_id());
  EXPECT_EQ(task.error(), "");
  EXPECT_EQ(task.done(), 2U);
}

TEST_F(ManifestTest, OneThatIsNotThereOrHasBadLinesSaysWhatToDo) {
  EXPECT_THAT(Link("s3://bucket/lists/none").error().message,
              AllOf(HasSubstr("manifest s3://bucket/lists/none: there is no such object"),
                    HasSubstr("correct its name, or put it there")));
  store.PutText("lists/bad", "s3://bucket/data/a\ns3://bucket/data/gone\ns3://other/x\n");
  EXPECT_THAT(Link("s3://bucket/lists/bad").error().message,
              AllOf(HasSubstr("line 3 's3://other/x' is not in bucket bucket"),
                    HasSubstr("whether S3 has what the other lines name is looked up when")));
}

TEST_F(ManifestTest, ElsewhereIsRefusedWhenTheLinkIsMade) {
  // It is read once where it lies, and then with the origin of what it names.
  store.FailHeadsAfter(1, Error{Code::kInvalid, "S3 answered 301"});
  const auto refused = Link("s3://other/lists/m");
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code, Code::kInvalid);
  EXPECT_THAT(refused.error().message,
              AllOf(HasSubstr("manifest s3://other/lists/m cannot be read where its objects are"),
                    HasSubstr("bucket bucket"), HasSubstr("put it into that bucket"),
                    HasSubstr("S3 answered 301")));
  EXPECT_FALSE(GetLink("named").has_value());
}

}  // namespace
}  // namespace forebay
