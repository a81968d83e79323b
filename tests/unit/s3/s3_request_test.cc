#include "common/s3/s3_request.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace forebay {
namespace {

using testing::Contains;
using testing::HasSubstr;
using testing::Not;

LinkOrigin PathStyle() {
  return {.bucket = "data",
          .prefix = "",
          .endpoint = "http://127.0.0.1:7480",
          .region = "r",
          .profile = "",
          .path_style = true};
}

GetRequest Get(LinkOrigin origin, std::string key) {
  GetRequest request;
  request.origin = std::move(origin);
  request.key = std::move(key);
  request.etag = "abc-2";
  request.object_size = 100;
  request.offset = 10;
  request.length = 20;
  return request;
}

HttpRequest Sent(const Result<S3Request>& request) {
  EXPECT_TRUE(request) << request.error().message;
  return request ? SignedRequest(*request, nullptr, {}) : HttpRequest{};
}

TEST(S3Request, AGetSaysRangeAndVersion) {
  const HttpRequest http = Sent(GetObjectRequest(Get(PathStyle(), "k")));
  EXPECT_EQ(http.url, "http://127.0.0.1:7480/data/k");
  EXPECT_TRUE(http.loopback);
  EXPECT_THAT(http.headers, Contains("range: bytes=10-29"));
  EXPECT_THAT(http.headers, Contains("if-match: \"abc-2\""));
  EXPECT_THAT(http.headers, Contains("host: 127.0.0.1:7480"));
  EXPECT_THAT(http.headers, Not(Contains(HasSubstr("uthorization")))) << "it is anonymous";
}

TEST(S3Request, TheWholeObjectNeedsNoRange) {
  GetRequest whole = Get(PathStyle(), "k");
  whole.offset = 0;
  whole.length = 100;
  EXPECT_THAT(Sent(GetObjectRequest(whole)).headers, Not(Contains(HasSubstr("range"))));
}

TEST(S3Request, KeysAreEncodedOnceAndNeverTidiedUp) {
  const auto url = [](const std::string& key) {
    return Sent(GetObjectRequest(Get(PathStyle(), key))).url;
  };
  EXPECT_EQ(url("/a//b/../c"), "http://127.0.0.1:7480/data//a//b/../c");
  EXPECT_EQ(url("a b+c?d#e%20"), "http://127.0.0.1:7480/data/a%20b%2Bc%3Fd%23e%2520");
  EXPECT_EQ(url("x\r\ny\xFF"), "http://127.0.0.1:7480/data/x%0D%0Ay%FF");
}

TEST(S3Request, AVirtualHostHoldsTheBucket) {
  LinkOrigin origin = PathStyle();
  origin.path_style = false;
  origin.endpoint = "https://s3.eu-west-1.amazonaws.com";
  origin.requester_pays = true;
  const HttpRequest http = Sent(GetObjectRequest(Get(origin, "k")));
  EXPECT_EQ(http.url, "https://data.s3.eu-west-1.amazonaws.com/k");
  EXPECT_FALSE(http.loopback);
  EXPECT_THAT(http.headers, Contains("host: data.s3.eu-west-1.amazonaws.com"));
  EXPECT_THAT(http.headers, Contains("x-amz-request-payer: requester"));
  ListRequest list;
  list.origin = origin;
  EXPECT_THAT(Sent(ListObjectsRequest(list)).url,
              testing::StartsWith("https://data.s3.eu-west-1.amazonaws.com/?encoding-type=url&"));
}

TEST(S3Request, AListGoesOnFromItsTokenElseBehindAKey) {
  ListRequest list;
  list.origin = PathStyle();
  list.prefix = "a b/";
  list.delimiter = "/";
  list.start_after = "a b/c";
  list.max_keys = 7;
  EXPECT_EQ(Sent(ListObjectsRequest(list)).url,
            "http://127.0.0.1:7480/data?delimiter=%2F&encoding-type=url&list-type=2&max-keys=7&"
            "prefix=a%20b%2F&start-after=a%20b%2Fc");
  list.continuation = "t/1=";
  EXPECT_EQ(Sent(ListObjectsRequest(list)).url,
            "http://127.0.0.1:7480/data?continuation-token=t%2F1%3D&delimiter=%2F&"
            "encoding-type=url&list-type=2&max-keys=7&prefix=a%20b%2F");
}

TEST(S3Request, AVersionIsNamedInTheQuery) {
  GetRequest request = Get(PathStyle(), "k");
  request.version = "3/L4+x=";
  const HttpRequest http = Sent(GetObjectRequest(request));
  EXPECT_EQ(http.url, "http://127.0.0.1:7480/data/k?versionId=3%2FL4%2Bx%3D");
  EXPECT_THAT(http.headers, Contains("if-match: \"abc-2\"")) << "it is compared all the same";
}

TEST(S3Request, AListOfVersionsGoesOnWithinItsKey) {
  VersionsRequest request;
  request.origin = PathStyle();
  EXPECT_FALSE(ListVersionsRequest(request).has_value());
  request.key = "a b";
  EXPECT_EQ(Sent(ListVersionsRequest(request)).url,
            "http://127.0.0.1:7480/data?encoding-type=url&prefix=a%20b&versions=");
  request.continuation = "v/1";
  EXPECT_EQ(Sent(ListVersionsRequest(request)).url,
            "http://127.0.0.1:7480/data?encoding-type=url&key-marker=a%20b&prefix=a%20b&"
            "version-id-marker=v%2F1&versions=");
}

TEST(S3Request, AnEndpointMayHaveAPath) {
  LinkOrigin origin = PathStyle();
  origin.endpoint = "https://store.example/storage/v1";
  const Result<S3Request> head = HeadObjectRequest({.origin = origin, .key = "k"});
  EXPECT_EQ(Sent(head).url, "https://store.example/storage/v1/data/k");
  EXPECT_TRUE(Sent(head).head_only);
}

TEST(S3Request, ImpossibleRequestsAreNotSent) {
  const auto refused = [](GetRequest request) {
    const Result<S3Request> built = GetObjectRequest(request);
    return !built.has_value() && built.error().code == Code::kInvalid;
  };
  GetRequest request = Get(PathStyle(), "k");
  EXPECT_FALSE(refused(request));
  request.length = 0;
  EXPECT_TRUE(refused(request));
  request.length = 91;
  EXPECT_TRUE(refused(request));
  request.offset = ~0ULL;
  request.length = 2;
  EXPECT_TRUE(refused(request));
  EXPECT_TRUE(refused(Get(PathStyle(), "")));
  request = Get(PathStyle(), "k");
  request.etag = "a\"\r\nx-evil: 1";
  EXPECT_TRUE(refused(request));
  request.etag = "";
  EXPECT_TRUE(refused(request));
}

}  // namespace
}  // namespace forebay
