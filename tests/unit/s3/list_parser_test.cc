#include "common/s3/list_parser.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "common/s3/list_scanner.h"
#include "common/s3/sigv4.h"

namespace forebay {
namespace {

using testing::HasSubstr;

ListRequest Request(std::string prefix = "") {
  ListRequest request;
  request.origin.bucket = "bucket";
  request.prefix = std::move(prefix);
  return request;
}

std::string Page(const std::string& inside, const std::string& truncated = "false") {
  return fmt::format(
      "<?xml version=\"1.0\"?><ListBucketResult xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">"
      "<EncodingType>url</EncodingType><IsTruncated>{}</IsTruncated>{}</ListBucketResult>",
      truncated, inside);
}

std::string Object(const std::string& key, const std::string& size = "5",
                   const std::string& etag = "&quot;abc-2&quot;",
                   const std::string& date = "2009-10-12T17:50:30.000Z") {
  return fmt::format(
      "<Contents><Key>{}</Key><LastModified>{}</LastModified><ETag>{}</ETag><Size>{}</Size>"
      "<StorageClass>GLACIER</StorageClass></Contents>",
      key, date, etag, size);
}

void ExpectCorrupt(const std::string& xml, const ListRequest& request, const std::string& why) {
  const Result<ListPage> page = ParseListPage(xml, request);
  ASSERT_FALSE(page.has_value()) << xml;
  EXPECT_EQ(page.error().code, Code::kCorrupt);
  EXPECT_THAT(page.error().message, HasSubstr(why));
}

TEST(ParseListPage, ReadsEveryMember) {
  const Result<ListPage> page =
      ParseListPage(Page(Object("a%2Fb+c%0A%FF", "17592186044415")), Request("a/"));
  ASSERT_TRUE(page) << page.error().message;
  ASSERT_EQ(page->objects.size(), 1U);
  const ListedObject& object = page->objects[0];
  EXPECT_EQ(object.key, "a/b c\n\xFF");
  EXPECT_EQ(object.size, 17592186044415U);
  EXPECT_EQ(object.etag, "abc-2");
  EXPECT_EQ(object.mtime_s, 1255369830);
  EXPECT_EQ(object.storage_class, "GLACIER");
  EXPECT_EQ(page->next, "");
}

TEST(ParseListPage, AnEmptyBucketIsAnEmptyPage) {
  const Result<ListPage> page = ParseListPage(Page(""), Request());
  ASSERT_TRUE(page) << page.error().message;
  EXPECT_TRUE(page->objects.empty());
}

TEST(ParseListPage, KeepsCommonPrefixesAndTheToken) {
  ListRequest request = Request();
  request.delimiter = "/";
  const Result<ListPage> page =
      ParseListPage(Page("<CommonPrefixes><Prefix>a%2F</Prefix></CommonPrefixes>"
                         "<NextContinuationToken>1/x==</NextContinuationToken>",
                         "true"),
                    request);
  ASSERT_TRUE(page) << page.error().message;
  EXPECT_THAT(page->common_prefixes, testing::ElementsAre("a/"));
  EXPECT_EQ(page->next, "1/x==");
}

TEST(ParseListPage, EveryKeyThatCanBeEncodedComesBack) {
  const unsigned seed = std::random_device{}();
  SCOPED_TRACE(fmt::format("seed {}", seed));
  std::mt19937 random(seed);
  for (int round = 0; round < 200; ++round) {
    std::string key(1 + random() % 40, 'x');
    for (char& c : key) c = static_cast<char>(random());
    const Result<ListPage> page = ParseListPage(Page(Object(UriEncode(key, false))), Request());
    ASSERT_TRUE(page) << page.error().message;
    EXPECT_EQ(page->objects.at(0).key, key);
  }
}

TEST(ParseListPage, WithoutEncodingTheKeyIsTakenAsItStands) {
  const Result<ListPage> page = ParseListPage("<ListBucketResult><IsTruncated>false</IsTruncated>" +
                                                  Object("a%20+b &amp; c") + "</ListBucketResult>",
                                              Request());
  ASSERT_TRUE(page) << page.error().message;
  EXPECT_EQ(page->objects.at(0).key, "a%20+b & c");
}

TEST(ParseListPage, RefusesKeysThatAreNotEncodedOrNotAskedFor) {
  ExpectCorrupt(Page(Object("a%2")), Request(), "not URL-encoded");
  ExpectCorrupt(Page(Object("a%zz")), Request(), "not URL-encoded");
  ExpectCorrupt(Page(Object("a%-1")), Request(), "not URL-encoded");
  ExpectCorrupt(Page(Object("a b")), Request(), "not URL-encoded");
  ExpectCorrupt(Page(Object("\xC3\xA9")), Request(), "not URL-encoded");
  ExpectCorrupt(Page(Object("")), Request(), "a key of 0 bytes");
  ExpectCorrupt(Page(Object(std::string(65'536, 'k'))), Request(), "a key of 65536 bytes");
  ExpectCorrupt(Page(Object("prefix2")), Request("prefix/"), "not below the prefix");
}

// One odd object beside a good one: the good one is read, the odd one is there without a tag.
void ExpectUnreadable(const std::string& object, const std::string& key = "k") {
  const Result<ListPage> page = ParseListPage(Page(Object("a") + object), Request());
  ASSERT_TRUE(page) << page.error().message;
  ASSERT_EQ(page->objects.size(), 2U);
  EXPECT_EQ(page->objects[0].etag, "abc-2");
  EXPECT_EQ(page->objects[1].key, key);
  EXPECT_EQ(page->objects[1].etag, "") << object;
  EXPECT_EQ(page->objects[1].size, 0U);
}

TEST(ParseListPage, AnImpossibleSizeMakesOneObjectUnreadable) {
  for (const char* size :
       {"", "-1", "+1", "18446744073709551616", "99999999999999999999999", "1e3", " 5"}) {
    ExpectUnreadable(Object("k", size));
  }
}

TEST(ParseListPage, AnObjectThatNoLinkShowsForItsSizeIsReadLikeAnyOther) {
  for (const char* size : {"17592186044416", "50000000000000", "18446744073709551615"}) {
    const std::string xml = Page(Object("k", size));
    EXPECT_TRUE(ScanListPage(xml, Request()));
    const Result<ListPage> page = ParseAnyListPage(xml, Request());
    ASSERT_TRUE(page) << page.error().message;
    EXPECT_EQ(std::to_string(page->objects.at(0).size), size);
    EXPECT_EQ(page->objects.at(0).etag, "abc-2");
  }
}

TEST(ParseListPage, AnImpossibleETagOrDateMakesOneObjectUnreadable) {
  for (const char* etag : {"", "&quot;&quot;", "W/&quot;a&quot;", "&quot;a b&quot;", "&quot;"}) {
    ExpectUnreadable(Object("k", "1", etag));
  }
  for (const char* date :
       {"", "2009-10-12", "2009-13-12T17:50:30Z", "2009-02-29T17:50:30Z", "2009-10-12T24:50:30Z",
        "2009-10-12T17:50:30", "2009-10-12T17:50:30.xZ", "2009-10-12T17:50:30.Z"}) {
    ExpectUnreadable(Object("k", "1", "&quot;a&quot;", date));
  }
  ExpectUnreadable("<Contents><Key>k</Key></Contents>");
}

TEST(ParseListPage, AKeyThatS3CannotHaveIsUnreadable) {
  ExpectUnreadable(Object(std::string(1025, 'k')), std::string(1025, 'k'));
}

TEST(ParseListPage, ATruncatedPageMustSayWhereToGoOn) {
  ExpectCorrupt(Page("", "true"), Request(), "says not where to go on");
  ExpectCorrupt(Page("", "maybe"), Request(), "whether it is complete");
  ListRequest second = Request();
  second.continuation = "t1";
  ExpectCorrupt(Page("<NextContinuationToken>t1</NextContinuationToken>", "true"), second,
                "its next page is the page itself");
}

TEST(ParseListPage, RefusesMoreThanWasAskedFor) {
  ListRequest one = Request();
  one.max_keys = 1;
  ExpectCorrupt(Page(Object("a") + Object("b")), one, "more keys than were asked for");
  ExpectCorrupt(Page("<CommonPrefixes><Prefix>a</Prefix></CommonPrefixes>"), Request(),
                "which nobody asked for");
}

TEST(ParseListPage, RefusesAPageThatHasFewerKeysThanItCounts) {
  const auto counted = [](const std::string& count, const std::string& inside) {
    return Page("<KeyCount>" + count + "</KeyCount>" + inside);
  };
  const std::string two = Object("a") + Object("b");
  EXPECT_TRUE(ParseListPage(counted("2", two), Request()));
  EXPECT_TRUE(ParseListPage(counted("", two), Request())) << "nothing is counted";
  EXPECT_TRUE(ParseListPage(counted("0", ""), Request()));
  EXPECT_TRUE(ParseListPage(counted("1", two), Request())) << "more is no loss";
  for (const std::string count : {"3", "-2", "two"}) {
    ExpectCorrupt(counted(count, two), Request(),
                  "its KeyCount is " + count + ", and it has 2 keys and 0 prefixes");
  }
  ExpectCorrupt(counted("1", ""), Request(), "its KeyCount is 1, and it has 0 keys");
}

TEST(ParseListPage, CommonPrefixesMayCountAsKeys) {
  ListRequest request = Request();
  request.delimiter = "/";
  const auto counted = [](int count) {
    return Page(fmt::format("<KeyCount>{}</KeyCount>", count) + Object("a") +
                "<CommonPrefixes><Prefix>b%2F</Prefix></CommonPrefixes>"
                "<CommonPrefixes><Prefix>c%2F</Prefix></CommonPrefixes>");
  };
  EXPECT_TRUE(ParseListPage(counted(3), request));
  EXPECT_TRUE(ParseListPage(counted(1), request)) << "some servers count the keys alone";
  ExpectCorrupt(counted(4), request, "its KeyCount is 4, and it has 1 keys and 2 prefixes");
}

TEST(ParseListPage, RefusesWhatIsNoList) {
  ExpectCorrupt("", Request(), "cannot be trusted");
  ExpectCorrupt("<html><body>Login</body></html>", Request(), "the answer is a <html>");
  ExpectCorrupt(Page(Object("k")).substr(0, 200), Request(), "cannot be trusted");
  ExpectCorrupt(Page(Object("k")) + std::string(1, '\0'), Request(), "NUL");
}

TEST(ParseErrorBody, ReadsS3sErrorsAndNothingElse) {
  const S3ErrorBody body = ParseErrorBody(
      "<?xml "
      "version=\"1.0\"?><Error><Code>AuthorizationHeaderMalformed</Code><Message>a\nb</Message>"
      "<Region>eu-west-1</Region><RequestId>R1</RequestId></Error>");
  EXPECT_EQ(body.code, "AuthorizationHeaderMalformed");
  EXPECT_EQ(body.message, "a\\x0ab");
  EXPECT_EQ(body.region, "eu-west-1");
  EXPECT_EQ(body.request_id, "R1");
  EXPECT_EQ(ParseErrorBody("<html>no</html>").code, "");
  EXPECT_EQ(ParseErrorBody("").code, "");
  EXPECT_TRUE(IsErrorBody("<Error><Code>SlowDown</Code></Error>"));
  EXPECT_FALSE(IsErrorBody(Page("")));
}

}  // namespace
}  // namespace forebay
