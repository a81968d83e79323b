#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/s3/list_parser.h"

namespace forebay {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

VersionsRequest Request(std::string key, std::string continuation = "") {
  VersionsRequest request;
  request.origin.bucket = "bucket";
  request.key = std::move(key);
  request.continuation = std::move(continuation);
  return request;
}

std::string Page(const std::string& inside, const std::string& end = "false") {
  return fmt::format(
      "<?xml version=\"1.0\"?><ListVersionsResult "
      "xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\"><EncodingType>url</EncodingType>"
      "<IsTruncated>{}</IsTruncated>{}</ListVersionsResult>",
      end, inside);
}

std::string Version(const std::string& key, const std::string& id,
                    const std::string& etag = "&quot;abc-2&quot;", const std::string& size = "5") {
  return fmt::format(
      "<Version><Key>{}</Key><VersionId>{}</VersionId><IsLatest>false</IsLatest><ETag>{}</ETag>"
      "<Size>{}</Size></Version>",
      key, id, etag, size);
}

std::string Deletion(const std::string& key, const std::string& id) {
  return fmt::format("<DeleteMarker><Key>{}</Key><VersionId>{}</VersionId></DeleteMarker>", key,
                     id);
}

std::string Next(const std::string& key, const std::string& id) {
  return fmt::format(
      "<NextKeyMarker>{}</NextKeyMarker><NextVersionIdMarker>{}</NextVersionIdMarker>", key, id);
}

void ExpectCorrupt(const std::string& xml, const VersionsRequest& request, const std::string& why) {
  const Result<VersionPage> page = ParseVersionPage(xml, request);
  ASSERT_FALSE(page.has_value()) << xml;
  EXPECT_EQ(page.error().code, Code::kCorrupt);
  EXPECT_THAT(page.error().message, HasSubstr(why));
}

TEST(ParseVersionPage, ReadsTheVersionsOfTheOneKey) {
  const std::string xml = Page(Deletion("a%2Fb+c", "v3") +
                               Version("a%2Fb+c", "v2", "&quot;abc&quot;", "17592186044415") +
                               Version("a%2Fb+c", "null", "def") + Version("a%2Fb+cd", "v9"));
  const Result<VersionPage> page = ParseVersionPage(xml, Request("a/b c"));
  ASSERT_TRUE(page) << page.error().message;
  ASSERT_EQ(page->versions.size(), 2U);
  EXPECT_EQ(page->versions[0].id, "v2");
  EXPECT_EQ(page->versions[0].etag, "abc");
  EXPECT_EQ(page->versions[0].size, 17592186044415U);
  EXPECT_EQ(page->versions[1].id, "null");
  EXPECT_EQ(page->next, "");
}

TEST(ParseVersionPage, GoesOnUntilALongerKeyComes) {
  const std::string more = Page(Version("k", "v7") + Next("k", "v7"), "true");
  const Result<VersionPage> page = ParseVersionPage(more, Request("k"));
  ASSERT_TRUE(page) << page.error().message;
  EXPECT_EQ(page->next, "v7");
  const std::string behind =
      Page(Version("k", "v1") + Version("k2", "v2") + Next("k2", "v2"), "true");
  EXPECT_EQ(ParseVersionPage(behind, Request("k"))->next, "") << "those of k2 are nobody's";
}

TEST(ParseVersionPage, LeavesOutWhatCannotBeRead) {
  const std::string xml = Page(Version("k", "") + Version("k", "v\x01") + Version("k", "v1", "") +
                               Version("k", "v2", "abc", "-1"));
  const Result<VersionPage> page = ParseVersionPage(xml, Request("k"));
  // A control character is no XML at all, and the rest is no version.
  if (page) EXPECT_THAT(page->versions, IsEmpty());
}

TEST(ParseVersionPage, RefusesWhatContradictsItself) {
  ExpectCorrupt("<ListBucketResult/>", Request("k"), "the answer is a <ListBucketResult>");
  ExpectCorrupt("no xml", Request("k"), "versions of s3://bucket/k cannot be trusted");
  ExpectCorrupt(std::string("<ListVersionsResult/>\0", 22), Request("k"), "NUL bytes");
  ExpectCorrupt(Page(Version("other", "v1")), Request("k"), "it names 'other'");
  ExpectCorrupt(Page("", "perhaps"), Request("k"), "whether it is complete");
  ExpectCorrupt(Page(Version("k", "v1"), "true"), Request("k"), "says not where to go on");
  ExpectCorrupt(Page(Version("k", "v1") + Next("k", "v1"), "true"), Request("k", "v1"),
                "its next page is the page itself");
}

}  // namespace
}  // namespace forebay
