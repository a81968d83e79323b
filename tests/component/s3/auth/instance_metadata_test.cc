#include "common/s3/auth/instance_metadata.h"

#include "tests/component/s3/auth/auth_fixture.h"

namespace forebay {
namespace {

using testing::HasSubstr;

// An instance's metadata service, version 2.
class InstanceMetadataTest : public AuthTest {
 protected:
  InstanceMetadataTest() {
    variables_.erase("AWS_EC2_METADATA_DISABLED");
    variables_["AWS_EC2_METADATA_SERVICE_ENDPOINT"] = server_.endpoint() + "/";
    variables_["AWS_METADATA_SERVICE_TIMEOUT"] = "20";  // for busy machines
    server_.SetHandler([this](const Seen& seen) { return AnswerTo(seen); });
  }
  Answer AnswerTo(const Seen& seen) {
    if (seen.target == "/latest/api/token") {
      if (seen.method != "PUT") return Of(405);
      return Of(seen.Header("x-aws-ec2-metadata-token-ttl-seconds").empty() ? 400 : 200,
                "secret-t");
    }
    if (seen.Header("x-aws-ec2-metadata-token") != "secret-t") return Of(401);
    const std::string roles = "/latest/meta-data/iam/security-credentials/";
    if (seen.target == roles) return role_.empty() ? Of(404) : Of(200, role_ + "\n");
    if (seen.target == roles + role_) return Of(keys_status_, Json("AKEC2"));
    if (seen.target == "/latest/meta-data/placement/region") return Of(200, "eu-south-2");
    return Of(404);
  }
  std::optional<std::string> Region() {
    return InstanceMetadata(AwsEnvironment(variables_)).Region({});
  }

  std::string role_ = "trainer";
  int keys_status_ = 200;
};

TEST_F(InstanceMetadataTest, TheRolesKeysAreReadWithAToken) {
  ExpectKeys("AKEC2", "instance metadata, role trainer");
}

TEST_F(InstanceMetadataTest, TheSwitchIsObeyed) {
  variables_["AWS_EC2_METADATA_DISABLED"] = "true";
  ExpectFailure(Code::kDenied, "AWS_EC2_METADATA_DISABLED is true");
  EXPECT_EQ(Region(), std::nullopt);
  EXPECT_TRUE(server_.requests().empty());
}

TEST_F(InstanceMetadataTest, AnInstanceWithoutRoleHasNone) {
  role_ = "";
  ExpectFailure(Code::kDenied, "instance metadata: the instance has no role");
}

TEST_F(InstanceMetadataTest, ARoleNameCannotLeadElsewhere) {
  role_ = "../../user-data";
  ExpectFailure(Code::kDenied, "no valid name");
}

TEST_F(InstanceMetadataTest, AnOutageMayPassAndIsTriedAsOftenAsAsked) {
  keys_status_ = 500;
  variables_["AWS_METADATA_SERVICE_NUM_ATTEMPTS"] = "3";
  ExpectFailure(Code::kUnavailable, "answered 500");
  EXPECT_EQ(server_.requests().size(), 2U + 3U);
}

TEST_F(InstanceMetadataTest, WithoutATokenNothingIsAsked) {
  server_.SetHandler([](const Seen&) { return Of(403); });
  ExpectFailure(Code::kDenied, "answered 403 to the request for a token");
  EXPECT_EQ(server_.requests().size(), 1U);
}

TEST_F(InstanceMetadataTest, NobodyThereIsNoCredentials) {
  variables_["AWS_EC2_METADATA_SERVICE_ENDPOINT"] = "http://127.0.0.1:1";
  ExpectFailure(Code::kDenied, "instance metadata: http://127.0.0.1:1 did not answer");
  EXPECT_EQ(Region(), std::nullopt);
}

TEST_F(InstanceMetadataTest, SilenceOfAServiceThatHasGivenKeysIsAnOutage) {
  const CredentialChain chain = DefaultCredentialChain(AwsEnvironment(variables_), "");
  ASSERT_TRUE(chain.Load("")) << chain.Load("").error().message;
  server_.SetHandler([](const Seen&) {
    Answer none;
    none.hang_up = true;
    return none;
  });
  const Result<S3Credentials> away = chain.Load("");
  ASSERT_FALSE(away.has_value());
  EXPECT_EQ(CodeName(away.error().code), CodeName(Code::kUnavailable)) << away.error().message;
  EXPECT_THAT(away.error().message, HasSubstr("did not answer"));
  server_.SetHandler([this](const Seen& seen) { return AnswerTo(seen); });
  EXPECT_TRUE(chain.Load("").has_value());
}

TEST_F(InstanceMetadataTest, TheProfileMaySayWhereItIs) {
  variables_.erase("AWS_EC2_METADATA_SERVICE_ENDPOINT");
  files_.Write("config", "[default]\nec2_metadata_service_endpoint = " + server_.endpoint() + "\n");
  ExpectKeys("AKEC2", "instance metadata, role trainer");
}

TEST_F(InstanceMetadataTest, AProfileMayTakeItAsTheSourceOfARole) {
  files_.Write("config",
               "[profile x]\nrole_arn = arn:x\ncredential_source = Ec2InstanceMetadata\n");
  fakes::ScriptedS3 sts;
  sts.SetHandler([](const Seen&) { return Of(200, Xml("AssumeRole", "AKROLE")); });
  variables_["AWS_ENDPOINT_URL_STS"] = sts.endpoint();
  const Result<S3Credentials> loaded = Load("x");
  ASSERT_TRUE(loaded) << loaded.error().message;
  EXPECT_EQ(loaded->key_id, "AKROLE");
  EXPECT_THAT(sts.requests().at(0).Header("authorization"), HasSubstr("Credential=AKEC2/"));
}

TEST_F(InstanceMetadataTest, KnowsItsRegion) { EXPECT_EQ(Region(), "eu-south-2"); }

}  // namespace
}  // namespace forebay
