#include "common/s3/credentials.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <concepts>
#include <sstream>

#include "common/s3/auth/default_chain.h"
#include "tests/unit/s3/temp_files.h"

namespace forebay {
namespace {

using testing::HasSubstr;

template <typename T>
concept CanBePrinted = requires(std::ostream& out, const T& value) { out << value; };
static_assert(CanBePrinted<std::string> && !CanBePrinted<Secret>);

constexpr const char* kProfileX =
    "[x]\naws_access_key_id = AKX\naws_secret_access_key = s3cret\naws_session_token = tok\n";

class CredentialsTest : public testing::Test {
 protected:
  AwsEnvironment::Variables Files(const std::string& credentials) {
    return {{"AWS_SHARED_CREDENTIALS_FILE", files_.Write("credentials", credentials)},
            {"AWS_CONFIG_FILE", files_.Path("config")}};
  }
  Result<S3Credentials> Load(AwsEnvironment::Variables variables, const std::string& profile) {
    variables.try_emplace("AWS_EC2_METADATA_DISABLED", "true");
    return DefaultCredentialChain(AwsEnvironment(std::move(variables)), "").Load(profile);
  }
  void ExpectDenied(const Result<S3Credentials>& loaded, const std::string& why) {
    ASSERT_FALSE(loaded.has_value());
    EXPECT_EQ(loaded.error().code, Code::kDenied);
    EXPECT_THAT(loaded.error().message, HasSubstr(why));
  }

  TempFiles files_;
};

TEST_F(CredentialsTest, TheEnvironmentComesFirst) {
  AwsEnvironment::Variables variables = Files(
      "[default]\naws_access_key_id = AKD\n"
      "aws_secret_access_key = s\n");
  variables["AWS_ACCESS_KEY_ID"] = "AKE";
  variables["AWS_SECRET_ACCESS_KEY"] = "sec";
  variables["AWS_SESSION_TOKEN"] = "tok";
  const Result<S3Credentials> loaded = Load(variables, "");
  ASSERT_TRUE(loaded) << loaded.error().message;
  EXPECT_EQ(loaded->key_id, "AKE");
  EXPECT_EQ(loaded->secret_key.Reveal(), "sec");
  EXPECT_EQ(loaded->session_token.Reveal(), "tok");
  EXPECT_EQ(loaded->provider, "the environment");
}

TEST_F(CredentialsTest, ANamedProfileIsTakenFromTheFilesAlone) {
  AwsEnvironment::Variables variables = Files(kProfileX);
  variables["AWS_ACCESS_KEY_ID"] = "AKE";
  variables["AWS_SECRET_ACCESS_KEY"] = "sec";
  const Result<S3Credentials> loaded = Load(variables, "x");
  ASSERT_TRUE(loaded) << loaded.error().message;
  EXPECT_EQ(loaded->key_id, "AKX");
  EXPECT_EQ(loaded->session_token.Reveal(), "tok");
  EXPECT_EQ(loaded->provider, "profile 'x'");
}

TEST_F(CredentialsTest, NothingFoundListsWhatWasTried) {
  const Result<S3Credentials> loaded = Load(Files("[other]\n"), "");
  ExpectDenied(loaded, "environment: AWS_ACCESS_KEY_ID is not set");
  ExpectDenied(loaded, "shared files: " + files_.Path("credentials") + " (no profile 'default')");
  ExpectDenied(loaded, files_.Path("config") + " (no such file)");
  ExpectDenied(loaded, "web identity: AWS_WEB_IDENTITY_TOKEN_FILE is not set");
  ExpectDenied(loaded, "container endpoint: neither AWS_CONTAINER_CREDENTIALS_RELATIVE_URI nor");
  ExpectDenied(loaded, "instance metadata: AWS_EC2_METADATA_DISABLED is true");
  ExpectDenied(loaded, "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY of this program");
}

TEST_F(CredentialsTest, AProfileOfTheEnvironmentThatIsNotThereStopsTheChain) {
  AwsEnvironment::Variables variables = Files(kProfileX);
  // Another identity, which must not be taken in its place.
  variables["AWS_CONTAINER_CREDENTIALS_FULL_URI"] = "http://127.0.0.1:1/keys";
  variables["AWS_PROFILE"] = "typo";
  const Result<S3Credentials> loaded = Load(variables, "");
  ExpectDenied(loaded, "AWS_PROFILE names profile 'typo', which is not there: looked at " +
                           files_.Path("credentials") + " (no profile 'typo')");
  ExpectDenied(loaded, "correct the name");
  variables["AWS_PROFILE"] = "x";
  const Result<S3Credentials> right = Load(variables, "");
  ASSERT_TRUE(right) << right.error().message;
  EXPECT_EQ(right->key_id, "AKX");
  // The environment's own keys come before any profile.
  variables["AWS_PROFILE"] = "typo";
  variables["AWS_ACCESS_KEY_ID"] = "AKE";
  variables["AWS_SECRET_ACCESS_KEY"] = "sec";
  EXPECT_TRUE(Load(variables, "").has_value());
}

TEST_F(CredentialsTest, HalfOfAPairStopsTheChain) {
  AwsEnvironment::Variables variables = Files(
      "[default]\naws_access_key_id = AKD\naws_secret_access_key = s\n[half]\n"
      "aws_access_key_id = AKH\n");
  ExpectDenied(Load(variables, "half"), "only one of");
  variables["AWS_ACCESS_KEY_ID"] = "AKE";
  ExpectDenied(Load(variables, ""), "AWS_ACCESS_KEY_ID is set without AWS_SECRET_ACCESS_KEY");
}

TEST_F(CredentialsTest, AKeyThatWouldSplitAHeaderIsRefused) {
  const Result<S3Credentials> loaded =
      Load({{"AWS_ACCESS_KEY_ID", "AK\r\nx: y"}, {"AWS_SECRET_ACCESS_KEY", "s"}}, "");
  ExpectDenied(loaded, "control characters");
}

TEST_F(CredentialsTest, ARoleNeedsExactlyOneSource) {
  ExpectDenied(Load(Files("[x]\nrole_arn = arn\n"), "x"), "neither source_profile nor");
  ExpectDenied(
      Load(Files("[x]\nrole_arn = arn\nsource_profile = y\ncredential_source = EcsContainer\n"),
           "x"),
      "both source_profile and");
  ExpectDenied(Load(Files("[x]\nrole_arn = arn\ncredential_source = Moon\n"), "x"),
               "'Moon' is none of Environment");
  ExpectDenied(Load(Files("[x]\nrole_arn = arn\ncredential_source = Environment\n"), "x"),
               "credential_source Environment of profile 'x' has none: AWS_ACCESS_KEY_ID");
}

TEST_F(CredentialsTest, SourceProfilesThatLeadNowhereOrBackAreRefused) {
  ExpectDenied(Load(Files("[x]\nrole_arn = arn\nsource_profile = gone\n"), "x"),
               "profile 'x' names source_profile 'gone', which is not there");
  ExpectDenied(Load(Files("[x]\nrole_arn = a\nsource_profile = y\n[y]\nrole_arn = a\n"
                          "source_profile = x\n"),
                    "x"),
               "leads back");
  ExpectDenied(Load(Files("[x]\nrole_arn = a\nsource_profile = y\n[y]\nregion = r\n"), "x"),
               "profile 'y' in");
}

TEST_F(CredentialsTest, WhatNeedsAPersonIsRefused) {
  ExpectDenied(Load(Files("[x]\nrole_arn = a\nsource_profile = x\nmfa_serial = m\n"), "x"),
               "mfa_serial");
  ExpectDenied(Load(Files("[x]\nsso_session = corp\n"), "x"), "export-credentials --profile x");
}

TEST_F(CredentialsTest, HalfOfAWebIdentityStopsTheChain) {
  AwsEnvironment::Variables variables = Files("");
  variables["AWS_WEB_IDENTITY_TOKEN_FILE"] = files_.Path("token");
  ExpectDenied(Load(variables, ""), "without AWS_ROLE_ARN");
  variables["AWS_ROLE_ARN"] = "arn";
  ExpectDenied(Load(variables, ""), "token file " + files_.Path("token") + " cannot be read");
}

}  // namespace
}  // namespace forebay
