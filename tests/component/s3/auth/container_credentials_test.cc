#include "common/s3/auth/container_credentials.h"

#include "tests/component/s3/auth/auth_fixture.h"

namespace forebay {
namespace {

using testing::HasSubstr;

class ContainerCredentials : public AuthTest {
 protected:
  ContainerCredentials() {
    variables_["AWS_CONTAINER_CREDENTIALS_FULL_URI"] = server_.endpoint() + "/v1/keys?for=me";
    server_.SetHandler([](const Seen&) { return Of(200, Json("AKBOX")); });
  }
  std::string UrlOf(AwsEnvironment::Variables variables) {
    const auto url = ContainerCredentialsUrl(AwsEnvironment(std::move(variables)));
    return url ? *url : url.error().why;
  }
};

TEST_F(ContainerCredentials, AreReadFromTheFullUri) {
  ExpectKeys("AKBOX", "the container endpoint " + server_.endpoint());
  EXPECT_EQ(server_.requests().at(0).method, "GET");
  EXPECT_EQ(server_.requests().at(0).target, "/v1/keys?for=me");
  EXPECT_EQ(server_.requests().at(0).Header("authorization"), "");
}

TEST_F(ContainerCredentials, TheTokenFileComesFirstAndIsReadEachTime) {
  variables_["AWS_CONTAINER_AUTHORIZATION_TOKEN"] = "of-the-environment";
  ASSERT_TRUE(Load());
  variables_["AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE"] = files_.Write("token", "first\n");
  ASSERT_TRUE(Load());
  files_.Write("token", "second\n");
  ASSERT_TRUE(Load());
  EXPECT_EQ(server_.requests().at(0).Header("authorization"), "of-the-environment");
  EXPECT_EQ(server_.requests().at(1).Header("authorization"), "first");
  EXPECT_EQ(server_.requests().at(2).Header("authorization"), "second");
}

TEST_F(ContainerCredentials, ATokenThatWouldSplitAHeaderIsNotSent) {
  variables_["AWS_CONTAINER_AUTHORIZATION_TOKEN"] = "hunter2\r\nx: y";
  ExpectFailure(Code::kDenied, "holds a line end");
  EXPECT_TRUE(server_.requests().empty());
}

TEST_F(ContainerCredentials, PlainHttpGoesToKnownHostsAlone) {
  const std::string relative = "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI";
  const std::string full = "AWS_CONTAINER_CREDENTIALS_FULL_URI";
  EXPECT_EQ(UrlOf({{relative, "/x"}, {full, "https://other/y"}}), "http://169.254.170.2/x");
  EXPECT_THAT(UrlOf({{relative, "x"}}), HasSubstr("does not begin with '/'"));
  for (const char* good : {"http://localhost:1/a", "http://127.0.0.9/", "http://[::1]/a",
                           "http://169.254.170.23/v1/credentials", "http://[fd00:ec2::23]/v1",
                           "https://anywhere.example/a"}) {
    EXPECT_EQ(UrlOf({{full, good}}), good);
  }
  for (const char* bad : {"http://192.0.2.1/a", "http://example.com/a", "ftp://localhost/",
                          "http://localhost.example.com/", "http://169.254.170.2.example.com/",
                          "http://169.254.170.2@192.0.2.1/"}) {
    EXPECT_THAT(UrlOf({{full, bad}}), HasSubstr(full)) << bad;
  }
}

TEST_F(ContainerCredentials, ARefusalStopsTheChainAndAnOutageMayPass) {
  server_.SetHandler([](const Seen&) { return Of(403, "hunter2"); });
  ExpectFailure(Code::kDenied, server_.endpoint() + " answered 403");
  server_.SetHandler([](const Seen&) { return Of(500); });
  ExpectFailure(Code::kUnavailable, "answered 500");
  server_.SetHandler([](const Seen&) {
    Answer answer = Of(200, Json("AKBOX"));
    answer.end_after = 5;
    return answer;
  });
  ExpectFailure(Code::kUnavailable, "did not answer");
}

TEST_F(ContainerCredentials, ARedirectIsNotFollowed) {
  fakes::ScriptedS3 other;
  variables_["AWS_CONTAINER_AUTHORIZATION_TOKEN"] = "hunter2";
  server_.SetHandler([&](const Seen&) {
    Answer answer = Of(302);
    answer.headers = {{"Location", other.endpoint() + "/steal"}};
    return answer;
  });
  ExpectFailure(Code::kDenied, "answered 302");
  EXPECT_TRUE(other.requests().empty());
}

TEST_F(ContainerCredentials, GiveNothingToALinkThatNamesAProfile) {
  files_.Write("credentials", "[x]\nregion = r\n");
  EXPECT_FALSE(Load("x").has_value());
  EXPECT_TRUE(server_.requests().empty());
}

}  // namespace
}  // namespace forebay
