#include "common/s3/sigv4.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace forebay {
namespace {

using std::chrono::sys_days;
using testing::EndsWith;
using testing::HasSubstr;
using namespace std::chrono_literals;

// The "aws-sig-v4-test-suite" that AWS publishes with its SDKs.
struct Vector {
  const char* name;
  SigningRequest request;
  const char* signature;
};

class AwsTestSuite : public testing::TestWithParam<Vector> {};

constexpr auto kSuiteTime = sys_days(std::chrono::year(2015) / 8 / 30) + 12h + 36min;
constexpr const char* kEmptyHash =
    "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

SigningRequest SuiteGet(std::string path, std::vector<NameValue> query,
                        std::vector<NameValue> more = {}) {
  SigningRequest request{"GET", std::move(path), std::move(query), std::move(more), kEmptyHash};
  request.headers.push_back({"Host", "example.amazonaws.com"});
  request.headers.push_back({"X-Amz-Date", "20150830T123600Z"});
  return request;
}

std::vector<Vector> SuiteVectors() {
  SigningRequest form = SuiteGet("/", {}, {{"Content-Type", "application/x-www-form-urlencoded"}});
  form.method = "POST";
  form.payload_hash = "9095672bbd1f56dfc5b65f3e153adc8731a4a654192329106275f4c7b24d0b6e";
  const std::string unreserved =
      "-._~0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
  return {
      {"get_vanilla", SuiteGet("/", {}),
       "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31"},
      {"get_vanilla_query_order_key_case",
       SuiteGet("/", {{"Param2", "value2"}, {"Param1", "value1"}}),
       "b97d918cfa904a5beff61c982a1b6f458b799221646efd99d3219ec94cdf2500"},
      {"get_unreserved", SuiteGet("/" + unreserved, {}),
       "07ef7494c76fa4850883e2b006601f940f8a34d404d0cfa977f52a65bbf5f24f"},
      {"get_utf8", SuiteGet("/\xE1\x88\xB4", {}),
       "8318018e0b0f223aa2bbf98705b62bb787dc9c0e678f255a891fd03141be5d85"},
      {"get_vanilla_utf8_query", SuiteGet("/", {{"\xE1\x88\xB4", "bar"}}),
       "2cdec8eed098649ff3a119c94853b13c643bcf08f8b0a1d91e12c9027818dd04"},
      {"get_header_key_duplicate",
       SuiteGet("/", {},
                {{"My-Header1", "value2"}, {"My-Header1", "value2"}, {"My-Header1", "value1"}}),
       "c9d5ea9f3f72853aea855b47ea873832890dbdd183b4468f858259531a5138ea"},
      {"get_header_value_trim",
       SuiteGet("/", {}, {{"My-Header1", " value1"}, {"My-Header2", " \"a   b   c\""}}),
       "acc3ed3afb60bb290fc8d2dd0098b9911fcaa05412b367055dee359757a9c736"},
      {"post_x_www_form_urlencoded", form,
       "ff11897932ad3f4e8b18135d722051e5ac45fc38421b1da7b9d196a0fe09473a"},
  };
}

TEST_P(AwsTestSuite, GivesThePublishedSignature) {
  const S3Credentials credentials{.key_id = "AKIDEXAMPLE",
                                  .secret_key = Secret("wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"),
                                  .session_token = {},
                                  .provider = {}};
  const SigningScope scope{.region = "us-east-1", .service = "service", .time = kSuiteTime};
  const std::string header = Authorization(GetParam().request, scope, credentials);
  EXPECT_THAT(header, HasSubstr("Credential=AKIDEXAMPLE/20150830/us-east-1/service/aws4_request"));
  EXPECT_THAT(header, EndsWith(std::string("Signature=") + GetParam().signature));
}

INSTANTIATE_TEST_SUITE_P(Published, AwsTestSuite, testing::ValuesIn(SuiteVectors()),
                         [](const auto& tested) { return tested.param.name; });

// The examples of "Signature Calculations for the Authorization Header: Transferring Payload in a
// Single Chunk" (Amazon S3 API Reference).
class S3Examples : public testing::Test {
 protected:
  std::string Sign(std::string path, std::vector<NameValue> query,
                   std::vector<NameValue> more = {}) {
    SigningRequest request{"GET", std::move(path), std::move(query), std::move(more), ""};
    request.headers.push_back({"Host", "examplebucket.s3.amazonaws.com"});
    const std::vector<NameValue> headers =
        SignedS3Headers(std::move(request), "us-east-1", credentials_, kTime);
    EXPECT_EQ(headers.back().name, "Authorization");
    return headers.back().value;
  }

  static constexpr std::chrono::sys_seconds kTime = sys_days(std::chrono::year(2013) / 5 / 24);
  S3Credentials credentials_{.key_id = "AKIAIOSFODNN7EXAMPLE",
                             .secret_key = Secret("wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"),
                             .session_token = {},
                             .provider = {}};
};

TEST_F(S3Examples, GetObjectWithRange) {
  const std::string header = Sign("/test.txt", {}, {{"Range", "bytes=0-9"}});
  EXPECT_THAT(header, HasSubstr("SignedHeaders=host;range;x-amz-content-sha256;x-amz-date"));
  EXPECT_THAT(header, EndsWith("f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41"));
}

TEST_F(S3Examples, GetBucketLifecycle) {
  EXPECT_THAT(Sign("/", {{"lifecycle", ""}}),
              EndsWith("fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543"));
}

TEST_F(S3Examples, ListObjects) {
  EXPECT_THAT(Sign("/", {{"max-keys", "2"}, {"prefix", "J"}}),
              EndsWith("34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7"));
}

TEST_F(S3Examples, PutObjectEncodesTheKeyOnce) {
  const SigningRequest put{"PUT",
                           "/test$file.text",
                           {},
                           {{"Host", "examplebucket.s3.amazonaws.com"},
                            {"Date", "Fri, 24 May 2013 00:00:00 GMT"},
                            {"x-amz-date", "20130524T000000Z"},
                            {"x-amz-storage-class", "REDUCED_REDUNDANCY"},
                            {"x-amz-content-sha256",
                             "44ce7dd67c959e0d3524ffac1771dfbba87d2b6b4b4e99e42034a8b803f8b072"}},
                           "44ce7dd67c959e0d3524ffac1771dfbba87d2b6b4b4e99e42034a8b803f8b072"};
  const SigningScope scope{.region = "us-east-1", .service = "s3", .time = kTime};
  EXPECT_THAT(Authorization(put, scope, credentials_),
              EndsWith("98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd"));
}

TEST_F(S3Examples, ASessionTokenIsSentAndSigned) {
  credentials_.session_token = Secret("token/with=odd+signs");
  SigningRequest request{"GET", "/k", {}, {{"host", "h"}}, ""};
  const std::vector<NameValue> headers = SignedS3Headers(request, "us-east-1", credentials_, kTime);
  EXPECT_THAT(headers,
              testing::Contains(NameValue{"x-amz-security-token", "token/with=odd+signs"}));
  EXPECT_THAT(headers.back().value,
              HasSubstr("SignedHeaders=host;x-amz-content-sha256;x-amz-date;x-amz-security-token"));
}

TEST(UriEncode, KeepsSlashesOnlyWhereAskedAndEncodesEveryOtherByteOnce) {
  EXPECT_EQ(UriEncode("a/b c+d%20\xFF", true), "a/b%20c%2Bd%2520%FF");
  EXPECT_EQ(UriEncode("a/b", false), "a%2Fb");
  EXPECT_EQ(UriEncode("//./../~x", true), "//./../~x");
}

TEST(CanonicalQuery, SortsByEncodedNameThenValue) {
  EXPECT_EQ(CanonicalQuery({{"b", "2"}, {"a", "z"}, {"a", "\xC3\xA9"}, {"A", ""}}),
            "A=&a=%C3%A9&a=z&b=2");
}

TEST(AmzDate, IsUtcWithoutSeparators) {
  EXPECT_EQ(AmzDate(sys_days(std::chrono::year(2024) / 2 / 29) + 23h + 59min + 7s),
            "20240229T235907Z");
}

}  // namespace
}  // namespace forebay
