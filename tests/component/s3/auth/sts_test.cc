#include "common/s3/auth/sts.h"

#include <vector>

#include "tests/component/s3/auth/auth_fixture.h"

namespace forebay {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

class StsTest : public AuthTest {
 protected:
  StsTest() {
    variables_["AWS_ENDPOINT_URL_STS"] = server_.endpoint();
    server_.SetHandler([](const Seen&) { return Of(200, Xml("AssumeRole", "AKROLE")); });
  }
  static constexpr const char* kChain =
      "[profile base]\naws_access_key_id = AKBASE\naws_secret_access_key = hunter2\n"
      "aws_session_token = hunter2\n"
      "[default]\nrole_arn = arn:aws:iam::1:role/a b\nsource_profile = base\nregion = eu-west-3\n"
      "external_id = e&x\nrole_session_name = me\nduration_seconds = 900\n";
};

TEST_F(StsTest, ARoleIsAssumedWithItsSourcesKeys) {
  files_.Write("config", kChain);
  ExpectKeys("AKROLE", "role arn:aws:iam::1:role/a b of profile 'default'");
  const Seen seen = server_.requests().at(0);
  EXPECT_EQ(seen.method, "POST");
  EXPECT_EQ(seen.target, "/");
  EXPECT_EQ(seen.body,
            "Action=AssumeRole&DurationSeconds=900&ExternalId=e%26x&RoleArn=arn%3Aaws%3Aiam%3A%3A1"
            "%3Arole%2Fa%20b&RoleSessionName=me&Version=2011-06-15");
  EXPECT_THAT(seen.Header("content-type"), HasSubstr("application/x-www-form-urlencoded"));
  EXPECT_EQ(seen.Header("x-amz-security-token"), "hunter2");
  EXPECT_THAT(seen.Header("authorization"),
              AllOf(HasSubstr("Credential=AKBASE/"), HasSubstr("/eu-west-3/sts/aws4_request"),
                    HasSubstr("SignedHeaders=content-type;host;x-amz-date;x-amz-security-token"),
                    Not(HasSubstr("hunter2"))));
}

TEST_F(StsTest, RolesComeFromRoles) {
  files_.Write("config", std::string(kChain) +
                             "[profile outer]\nrole_arn = arn:outer\nsource_profile = default\n");
  const Result<S3Credentials> loaded = Load("outer");
  ASSERT_TRUE(loaded) << loaded.error().message;
  EXPECT_EQ(loaded->provider, "role arn:outer of profile 'outer'");
  ASSERT_EQ(server_.requests().size(), 2U);
  EXPECT_THAT(server_.requests().at(1).Header("authorization"), HasSubstr("Credential=AKROLE/"));
}

TEST_F(StsTest, AProfileMayBeItsOwnSource) {
  files_.Write("credentials",
               "[default]\naws_access_key_id = AKBASE\n"
               "aws_secret_access_key = s\nrole_arn = arn:x\n"
               "source_profile = default\n");
  ExpectKeys("AKROLE", "role arn:x of profile 'default'");
}

TEST_F(StsTest, ADenialNamesWhoAskedWhomForWhat) {
  files_.Write("config", kChain);
  server_.SetHandler([](const Seen&) {
    return Of(403,
              "<ErrorResponse><Error><Code>AccessDenied</Code><Message>no</Message></Error>"
              "</ErrorResponse>");
  });
  ExpectFailure(Code::kDenied, "STS at " + server_.endpoint() + " (region eu-west-3), asked for");
  ExpectFailure(Code::kDenied, "by key id AKBASE from profile 'base', answered 403 AccessDenied");
}

TEST_F(StsTest, AnOutageMayPass) {
  files_.Write("config", kChain);
  server_.SetHandler([](const Seen&) { return Of(503); });
  ExpectFailure(Code::kUnavailable, "answered 503");
  variables_["AWS_ENDPOINT_URL_STS"] = "http://127.0.0.1:1";
  ExpectFailure(Code::kUnavailable, "http://127.0.0.1:1 did not answer");
}

TEST_F(StsTest, NoSignatureFollowsARedirect) {
  fakes::ScriptedS3 other;
  files_.Write("config", kChain);
  server_.SetHandler([&](const Seen&) {
    Answer answer = Of(307);
    answer.headers = {{"Location", other.endpoint() + "/"}};
    return answer;
  });
  ExpectFailure(Code::kDenied, "answered 307");
  EXPECT_TRUE(other.requests().empty());
}

TEST_F(StsTest, AWebIdentityIsProvedByItsFreshTokenAlone) {
  server_.SetHandler(
      [](const Seen&) { return Of(200, Xml("AssumeRoleWithWebIdentity", "AKWEB")); });
  variables_["AWS_WEB_IDENTITY_TOKEN_FILE"] = files_.Write("token", "first.jwt\n");
  variables_["AWS_ROLE_ARN"] = "arn:pod";
  variables_["AWS_ROLE_SESSION_NAME"] = "pod-1";
  ExpectKeys("AKWEB", "web identity, role arn:pod");
  files_.Write("token", "second.jwt\n");
  ASSERT_TRUE(Load());
  const std::vector<Seen> seen = server_.requests();
  EXPECT_EQ(seen.at(0).body,
            "Action=AssumeRoleWithWebIdentity&RoleArn=arn%3Apod&RoleSessionName=pod-1&Version="
            "2011-06-15&WebIdentityToken=first.jwt");
  EXPECT_THAT(seen.at(1).body, HasSubstr("second.jwt"));
  EXPECT_EQ(seen.at(0).Header("authorization"), "");
}

TEST_F(StsTest, AProfileMayHoldAWebIdentity) {
  server_.SetHandler(
      [](const Seen&) { return Of(200, Xml("AssumeRoleWithWebIdentity", "AKWEB")); });
  files_.Write("config", "[default]\nrole_arn = arn:x\nweb_identity_token_file = " +
                             files_.Write("token", "jwt") + "\n");
  ExpectKeys("AKWEB", "role arn:x of profile 'default'");
}

TEST_F(StsTest, TheEndpointIsTheOneSetOrTheRegions) {
  AwsProfile profile;
  profile.settings = {{"region", "eu-west-3"}};
  const auto place = [&](AwsEnvironment::Variables variables) {
    return StsPlaceOf(AwsEnvironment(std::move(variables)), profile, "").endpoint;
  };
  EXPECT_EQ(place({}), "https://sts.eu-west-3.amazonaws.com");
  EXPECT_EQ(place({{"AWS_REGION", "cn-north-1"}}), "https://sts.cn-north-1.amazonaws.com.cn");
  EXPECT_EQ(place({{"AWS_REGION", "eusc-de-east-1"}}), "https://sts.eusc-de-east-1.amazonaws.eu");
  EXPECT_EQ(place({{"AWS_REGION", "us-iso-east-1"}}), "https://sts.us-iso-east-1.c2s.ic.gov");
  EXPECT_EQ(place({{"AWS_USE_DUALSTACK_ENDPOINT", "true"}}), "https://sts.eu-west-3.api.aws");
  EXPECT_EQ(place({{"AWS_ENDPOINT_URL", "http://all"}}), "http://all");
  EXPECT_EQ(place({{"AWS_ENDPOINT_URL", "http://all"}, {"AWS_ENDPOINT_URL_STS", "http://sts"}}),
            "http://sts");
  EXPECT_EQ(place({{"AWS_ENDPOINT_URL_S3", "http://s3"}}), "https://sts.eu-west-3.amazonaws.com");
}

}  // namespace
}  // namespace forebay
