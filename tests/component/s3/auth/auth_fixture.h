#pragma once

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <utility>

#include "common/s3/auth/default_chain.h"
#include "tests/fakes/scripted_s3.h"
#include "tests/unit/s3/temp_files.h"

namespace forebay {

/// A server that the documented overrides point to, and an environment without anything else.
class AuthTest : public testing::Test {
 protected:
  using Seen = fakes::S3RequestSeen;
  using Answer = fakes::S3Answer;

  AuthTest() {
    variables_ = {{"AWS_SHARED_CREDENTIALS_FILE", files_.Path("credentials")},
                  {"AWS_CONFIG_FILE", files_.Path("config")},
                  {"AWS_EC2_METADATA_DISABLED", "true"}};
  }

  static Answer Of(int status, std::string body = "") {
    Answer answer;
    answer.status = status;
    answer.body = std::move(body);
    return answer;
  }
  static std::string Json(const std::string& key_id) {
    return fmt::format(
        R"({{"Code":"Success","AccessKeyId":"{}","SecretAccessKey":"hunter2","Token":"tok",)"
        R"("Expiration":"2100-01-01T00:00:00Z"}})",
        key_id);
  }
  /// What STS answers.
  static std::string Xml(const std::string& action, const std::string& key_id,
                         const std::string& expires = "2100-01-01T00:00:00Z") {
    return fmt::format(
        "<{0}Response><{0}Result><Credentials><AccessKeyId>{1}</AccessKeyId>"
        "<SecretAccessKey>hunter2</SecretAccessKey><SessionToken>tok</SessionToken>"
        "<Expiration>{2}</Expiration></Credentials></{0}Result></{0}Response>",
        action, key_id, expires);
  }

  Result<S3Credentials> Load(const std::string& profile = "") {
    return DefaultCredentialChain(AwsEnvironment(variables_), "").Load(profile);
  }
  void ExpectKeys(const std::string& key_id, const std::string& provider) {
    const Result<S3Credentials> loaded = Load();
    ASSERT_TRUE(loaded) << loaded.error().message;
    EXPECT_EQ(loaded->key_id, key_id);
    EXPECT_EQ(loaded->secret_key.Reveal(), "hunter2");
    EXPECT_EQ(loaded->session_token.Reveal(), "tok");
    EXPECT_EQ(loaded->provider, provider);
    EXPECT_TRUE(loaded->expires.has_value());
    EXPECT_FALSE(loaded->local);
  }
  /// The code and words of a failure, which never hold a secret.
  void ExpectFailure(Code code, const std::string& words) {
    const Result<S3Credentials> loaded = Load();
    ASSERT_FALSE(loaded.has_value());
    EXPECT_EQ(CodeName(loaded.error().code), CodeName(code)) << loaded.error().message;
    EXPECT_THAT(loaded.error().message, testing::HasSubstr(words));
    EXPECT_THAT(loaded.error().message, testing::Not(testing::HasSubstr("hunter2")));
  }

  TempFiles files_;
  fakes::ScriptedS3 server_;
  AwsEnvironment::Variables variables_;
};

}  // namespace forebay
