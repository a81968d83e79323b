#include "common/s3/auth/credential_answers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/s3/iso_time.h"
#include "tests/unit/s3/temp_files.h"

namespace forebay {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using Kind = NoCredentials::Kind;

constexpr JsonForm kForm = {.token_name = "Token"};

TEST(IsoTime, IsReadInAllItsForms) {
  const auto expected = std::chrono::sys_seconds(std::chrono::seconds(1795269900));
  for (const char* text : {"2026-11-21T14:05:00Z", "2026-11-21T14:05:00.123Z",
                           "2026-11-21T15:05:00+01:00", "2026-11-21T08:35:00-05:30"}) {
    EXPECT_EQ(ParseIsoTime(text), expected) << text;
  }
  for (const char* text :
       {"", "2026-11-21", "2026-11-21T14:05:00", "2026-13-21T14:05:00Z", "2026-11-21 14:05:00Z",
        "2026-11-21T14:65:00Z", "2026-11-21T14:05:00ZZ", "x026-11-21T14:05:00Z",
        "2026-11-21T14:05:00.Z", "2026-02-30T00:00:00Z"}) {
    EXPECT_EQ(ParseIsoTime(text), std::nullopt) << text;
  }
}

TEST(JsonCredentials, CarryKeysTokenAndExpiry) {
  const CredentialAnswer answer = CredentialsFromJson(
      R"({"Code":"Success","AccessKeyId":"AK","SecretAccessKey":"s","Token":"t",)"
      R"("Expiration":"2026-11-21T14:05:00Z"})",
      kForm, "there");
  ASSERT_TRUE(answer) << answer.error().why;
  EXPECT_EQ(answer->key_id, "AK");
  EXPECT_EQ(answer->secret_key.Reveal(), "s");
  EXPECT_EQ(answer->session_token.Reveal(), "t");
  EXPECT_EQ(answer->provider, "there");
  EXPECT_TRUE(answer->expires.has_value());
  EXPECT_FALSE(answer->local);
}

TEST(JsonCredentials, BadOnesAreRefusedWithoutTheirText) {
  for (const char* text :
       {"hunter2", "[\"hunter2\"]", R"({"AccessKeyId":"AK"})",
        R"({"AccessKeyId":"AK","SecretAccessKey":7})",
        R"({"AccessKeyId":"AK","SecretAccessKey":"hunter2\r\nx: y"})",
        R"({"AccessKeyId":"AK","SecretAccessKey":"hunter2","Expiration":"hunter2"})"}) {
    const CredentialAnswer answer = CredentialsFromJson(text, kForm, "there");
    ASSERT_FALSE(answer.has_value()) << text;
    EXPECT_EQ(answer.error().kind, Kind::kBroken);
    EXPECT_THAT(answer.error().why, Not(HasSubstr("hunter2")));
  }
  const CredentialAnswer refused = CredentialsFromJson(
      R"({"Code":"AssumeRoleUnauthorizedAccess","Message":"no trust"})", kForm, "");
  EXPECT_THAT(refused.error().why, HasSubstr("AssumeRoleUnauthorizedAccess (no trust)"));
}

TEST(JsonCredentials, AProcessSaysItsVersion) {
  constexpr JsonForm kProcess = {.token_name = "SessionToken", .has_version = true};
  const auto of = [&](const std::string& version) {
    return CredentialsFromJson("{" + version + "\"AccessKeyId\":\"AK\",\"SecretAccessKey\":\"s\"}",
                               kProcess, "p");
  };
  EXPECT_TRUE(of("\"Version\":1,").has_value());
  EXPECT_FALSE(of("\"Version\":2,").has_value());
  EXPECT_FALSE(of("").has_value());
}

TEST(StsAnswer, HoldsCredentials) {
  const CredentialAnswer answer = CredentialsFromSts(
      "<AssumeRoleResponse xmlns=\"https://sts.amazonaws.com/doc/2011-06-15/\"><AssumeRoleResult>"
      "<Credentials><AccessKeyId>AK</AccessKeyId><SecretAccessKey>s</SecretAccessKey>"
      "<SessionToken>t</SessionToken><Expiration>2026-11-21T14:05:00Z</Expiration></Credentials>"
      "</AssumeRoleResult></AssumeRoleResponse>",
      "role r");
  ASSERT_TRUE(answer) << answer.error().why;
  EXPECT_EQ(answer->session_token.Reveal(), "t");
  EXPECT_TRUE(answer->expires.has_value());
  EXPECT_FALSE(CredentialsFromSts("<Ok/>", "role r").has_value());
  EXPECT_FALSE(CredentialsFromSts("no xml", "role r").has_value());
}

TEST(StsAnswer, RefusalsSayWhyAndWhetherTheyMayPass) {
  const NoCredentials denied =
      StsRefusal({.status = 403,
                  .body = "<ErrorResponse><Error><Type>Sender</Type><Code>AccessDenied</Code>"
                          "<Message>not you</Message></Error></ErrorResponse>",
                  .bucket_region = ""},
                 "STS");
  EXPECT_EQ(denied.kind, Kind::kBroken);
  EXPECT_THAT(denied.why, HasSubstr("STS answered 403 AccessDenied (not you)"));
  EXPECT_EQ(StsRefusal({.status = 503, .body = "", .bucket_region = ""}, "STS").kind, Kind::kAway);
  EXPECT_EQ(
      StsRefusal(
          {.status = 400, .body = "<Error><Code>Throttling</Code></Error>", .bucket_region = ""},
          "STS")
          .kind,
      Kind::kAway);
}

TEST(TokenFile, IsReadWithoutItsBlanks) {
  const TempFiles files;
  EXPECT_EQ(ReadTokenFile(files.Write("token", " abc.def\n")).value().Reveal(), "abc.def");
  EXPECT_THAT(ReadTokenFile(files.Write("empty", "\n")).error().why, HasSubstr("is empty"));
  EXPECT_THAT(ReadTokenFile(files.Path("gone")).error().why,
              AllOf(HasSubstr(files.Path("gone")), HasSubstr("cannot be read")));
  EXPECT_THAT(ReadTokenFile(files.Write("long", std::string(70'000, 'x'))).error().why,
              HasSubstr("longer than any token"));
}

}  // namespace
}  // namespace forebay
