#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/component/s3/s3_fixture.h"

namespace forebay {
namespace {

using testing::HasSubstr;

class S3ClientVersionsTest : public S3ClientTest {
 protected:
  Result<VersionPage> ListVersions(const std::string& key, const std::string& continuation = "") {
    VersionsRequest request;
    request.origin = Origin();
    request.key = key;
    request.continuation = continuation;
    request.stats = &stats_;
    return fakes::RunTask(
        Client().ListVersions(request, Deadline::After(std::chrono::seconds(20))));
  }
};

TEST_F(S3ClientVersionsTest, AnOverwrittenAndDeletedObjectIsReadByItsVersion) {
  GetRequest old = Stored("a b/%2F", "the old bytes", 4, 3);
  server_.KeepVersions("data");
  server_.Put("data", "a b/%2F", "new");
  server_.Put("data", "a b/%2F and more", "of another key");
  server_.Remove("data", "a b/%2F");
  TextSink sink;
  EXPECT_EQ(Get(old, sink).error().code, Code::kNotFound);
  const Result<VersionPage> page = ListVersions("a b/%2F");
  ASSERT_TRUE(page) << page.error().message;
  ASSERT_EQ(page->versions.size(), 2U);
  EXPECT_EQ(page->next, "");
  EXPECT_EQ(page->versions[1].etag, old.etag);
  EXPECT_EQ(page->versions[1].size, old.object_size);
  old.version = page->versions[1].id;
  ASSERT_TRUE(Get(old, sink));
  EXPECT_EQ(sink.text, "old");
  EXPECT_THAT(server_.requests().back().Header("authorization"), HasSubstr("Credential=AKTEST/"));
  old.version = page->versions[0].id;
  EXPECT_EQ(Get(old, sink).error().code, Code::kStale) << "the ETag counts, whatever the id";
  old.version = "none";
  EXPECT_EQ(Get(old, sink).error().code, Code::kNotFound);
}

TEST_F(S3ClientVersionsTest, AHeadOfAVersionSaysThatOnesChecksum) {
  const GetRequest old = Stored("k", "the old bytes", 0, 13);
  server_.KeepVersions("data");
  server_.Put("data", "k", "new");
  HeadRequest request{.origin = Origin(), .key = "k", .version = "null"};
  const Result<ObjectHead> head = Head(request);
  ASSERT_TRUE(head) << head.error().message;
  EXPECT_EQ(head->etag, old.etag);
  EXPECT_EQ(head->size, 13U);
  EXPECT_EQ(server_.requests().back().Header("x-amz-checksum-mode"), "ENABLED");
  request.version = "none";
  EXPECT_EQ(Head(request).error().code, Code::kNotFound);
  EXPECT_EQ(Failed(S3Operation::kHeadVersion, Code::kNotFound), 1U);
  EXPECT_EQ(Failed(S3Operation::kHead, Code::kNotFound), 0U);
}

TEST_F(S3ClientVersionsTest, AThousandVersionsAreAPage) {
  server_.Put("data", "k", "x");
  server_.KeepVersions("data");
  for (int i = 0; i < 1200; ++i) server_.Put("data", "k", "x");
  const Result<VersionPage> first = ListVersions("k");
  ASSERT_TRUE(first) << first.error().message;
  EXPECT_EQ(first->versions.size(), 1000U);
  ASSERT_NE(first->next, "");
  const Result<VersionPage> second = ListVersions("k", first->next);
  ASSERT_TRUE(second) << second.error().message;
  EXPECT_EQ(second->versions.size(), 201U);
  EXPECT_EQ(second->versions.back().id, "null");
  EXPECT_EQ(second->next, "");
}

TEST_F(S3ClientVersionsTest, ABrokenListIsAskedForAgainAndARefusalIsNot) {
  server_.Put("data", "k", "x");
  fakes::S3Answer broken;
  broken.body = "<ListVersionsResult><IsTruncated>tr";
  server_.Next(broken);
  EXPECT_TRUE(ListVersions("k"));
  EXPECT_EQ(stats_.attempts, 2U);
  server_.Next(fakes::ScriptedS3::Error(403, "AccessDenied"));
  const Result<VersionPage> refused = ListVersions("k");
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code, Code::kDenied);
  EXPECT_THAT(refused.error().message, HasSubstr("they allow s3:ListBucketVersions"));
  EXPECT_EQ(Failed(S3Operation::kVersions, Code::kDenied), 1U);
}

}  // namespace
}  // namespace forebay
