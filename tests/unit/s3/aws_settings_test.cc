#include "common/s3/aws_settings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/s3/temp_files.h"

namespace forebay {
namespace {

using testing::HasSubstr;
using testing::Not;

class AwsSettings : public testing::Test {
 protected:
  AwsEnvironment Files(const std::string& credentials, const std::string& config,
                       AwsEnvironment::Variables more = {}) {
    more["AWS_SHARED_CREDENTIALS_FILE"] = files_.Write("credentials", credentials);
    more["AWS_CONFIG_FILE"] = files_.Write("config", config);
    return AwsEnvironment(std::move(more));
  }
  AwsProfile MustLoad(const AwsEnvironment& environment, const std::string& name) {
    Result<AwsProfile> profile = LoadAwsProfile(environment, name);
    EXPECT_TRUE(profile) << profile.error().message;
    return profile.value_or(AwsProfile{});
  }

  TempFiles files_;
};

TEST_F(AwsSettings, BothFilesMakeOneProfileAndTheCredentialsFileDecides) {
  const AwsProfile profile = MustLoad(Files("[work]\naws_access_key_id = FIRST\n",
                                            "[profile work]\naws_access_key_id = SECOND\n"
                                            "region=eu-west-1\n"),
                                      "work");
  EXPECT_TRUE(profile.found);
  EXPECT_EQ(profile.Get("aws_access_key_id"), "FIRST");
  EXPECT_EQ(profile.Get("region"), "eu-west-1");
}

TEST_F(AwsSettings, TheProfileIsTheNamedOneElseAwsProfileElseDefault) {
  const std::string config =
      "[default]\nregion = d\n[profile a]\nregion = a\n[profile b]\nregion=b";
  EXPECT_EQ(MustLoad(Files("", config), "").Get("region"), "d");
  EXPECT_EQ(MustLoad(Files("", config, {{"AWS_PROFILE", "a"}}), "").Get("region"), "a");
  EXPECT_EQ(MustLoad(Files("", config, {{"AWS_PROFILE", "a"}}), "b").Get("region"), "b");
}

TEST_F(AwsSettings, ReadsWhatPeopleWrite) {
  const AwsProfile profile = MustLoad(Files("",
                                            "# comment\r\n; comment\r\n\r\n[ profile \t x ]\r\n"
                                            "Region = us-west-2   # inline\r\n"
                                            "secret = a#b=c;d\n"
                                            "s3 =\n  addressing_style = path\n\tmax = 1\n"
                                            "empty =\n"),
                                      "x");
  EXPECT_EQ(profile.Get("region"), "us-west-2");
  EXPECT_EQ(profile.Get("secret"), "a#b=c;d");
  EXPECT_EQ(profile.Get("s3.addressing_style"), "path");
  EXPECT_EQ(profile.Get("s3.max"), "1");
  EXPECT_EQ(profile.Get("empty"), std::nullopt);
}

TEST_F(AwsSettings, TheServicesSectionGivesTheS3Endpoint) {
  const AwsProfile profile = MustLoad(Files("",
                                            "[profile x]\nservices = lab\n[services lab]\n"
                                            "dynamodb =\n  endpoint_url = http://no\n"
                                            "s3 =\n  endpoint_url = http://yes\n"),
                                      "x");
  EXPECT_EQ(profile.Get("services.s3.endpoint_url"), "http://yes");
}

// As `aws configure set` writes them.
TEST_F(AwsSettings, ANameWithBlanksIsInQuotes) {
  const AwsEnvironment environment =
      Files("[my lab]\nregion = first\n['your  lab']\nregion = second\n",
            "[profile 'my lab']\nservices = all of it\n[profile  \"their lab\"]\nregion = third\n"
            "[profile 'it]\nregion = fourth\n[services 'all of it']\n"
            "s3 =\n  endpoint_url = http://lab\n[profile other]\nservices = all of it\n");
  const AwsProfile mine = MustLoad(environment, "my lab");
  EXPECT_EQ(mine.Get("region"), "first");
  EXPECT_EQ(MustLoad(environment, "other").Get("services.s3.endpoint_url"), "http://lab");
  EXPECT_EQ(MustLoad(environment, "your  lab").Get("region"), "second");
  EXPECT_EQ(MustLoad(environment, "their lab").Get("region"), "third");
  EXPECT_EQ(MustLoad(environment, "'it").Get("region"), "fourth") << "half a pair is none";
  EXPECT_EQ(MustLoad(environment, "my").found, false);
}

TEST_F(AwsSettings, FilesAreFoundInTheHomeDirectory) {
  files_.Write(".aws/credentials", "[default]\nregion = home\n");
  const AwsEnvironment environment({{"HOME", files_.Path("")}});
  EXPECT_EQ(MustLoad(environment, "").Get("region"), "home");
}

TEST_F(AwsSettings, MissingFilesAndProfilesAreSaidAndNoError) {
  const AwsProfile nothing = MustLoad(AwsEnvironment({{"HOME", "/no/such/home"}}), "x");
  EXPECT_FALSE(nothing.found);
  EXPECT_THAT(nothing.looked_at, HasSubstr("/no/such/home/.aws/credentials (no such file)"));
  const AwsProfile absent = MustLoad(Files("[y]\n", "[profile y]\n"), "x");
  EXPECT_FALSE(absent.found);
  EXPECT_THAT(absent.looked_at, HasSubstr("(no profile 'x')"));
  EXPECT_THAT(MustLoad(AwsEnvironment({}), "").looked_at, HasSubstr("nor HOME is set"));
}

TEST_F(AwsSettings, AFaultNamesFileAndLineAndNeverTheText) {
  for (const char* text :
       {"[default]\nhunter2\n", "hunter2 = x\n", "[hunter2\n", "[a]\n=hunter2\n"}) {
    const Result<AwsProfile> profile = LoadAwsProfile(Files(text, ""), "");
    ASSERT_FALSE(profile.has_value()) << text;
    EXPECT_EQ(profile.error().code, Code::kInvalid);
    EXPECT_THAT(profile.error().message, HasSubstr(files_.Path("credentials")));
    EXPECT_THAT(profile.error().message, Not(HasSubstr("hunter2")));
  }
}

TEST_F(AwsSettings, AFileThatCannotBeReadIsAnError) {
  const AwsEnvironment environment(
      {{"AWS_CONFIG_FILE", files_.Path("")}, {"HOME", "/no/such/home"}});
  const Result<AwsProfile> profile = LoadAwsProfile(environment, "");
  ASSERT_FALSE(profile.has_value());
  EXPECT_THAT(profile.error().message, HasSubstr("cannot read"));
}

TEST_F(AwsSettings, TheCaBundleIsTheGivenOneElseTheEnvironmentsElseTheProfiles) {
  AwsEnvironment environment = Files("", "[default]\nca_bundle = /profile.pem\n");
  EXPECT_EQ(CaBundleOf("", environment), "/profile.pem");
  AwsEnvironment::Variables variables = environment.variables();
  variables["AWS_CA_BUNDLE"] = "/environment.pem";
  EXPECT_EQ(CaBundleOf("", AwsEnvironment(variables)), "/environment.pem");
  EXPECT_EQ(CaBundleOf("/given.pem", AwsEnvironment(variables)), "/given.pem");
  EXPECT_EQ(CaBundleOf("", Files("", "")), "");
}

TEST_F(AwsSettings, TheCaBundleOfALinksProfileComesBeforeTheProgramsOwn) {
  AwsEnvironment environment = Files(
      "", "[default]\nca_bundle = /own.pem\n[profile lab]\nca_bundle = /lab.pem\n[profile x]\n");
  EXPECT_EQ(CaBundleOf("", environment, "lab"), "/lab.pem");
  EXPECT_EQ(CaBundleOf("", environment, "x"), "/own.pem");
  EXPECT_EQ(CaBundleOf("", environment, "missing"), "/own.pem");
  EXPECT_EQ(CaBundleOf("/given.pem", environment, "lab"), "/given.pem");
  AwsEnvironment::Variables variables = environment.variables();
  variables["AWS_PROFILE"] = "lab";
  EXPECT_EQ(CaBundleOf("", AwsEnvironment(variables), "x"), "/lab.pem");
  variables["AWS_CA_BUNDLE"] = "/environment.pem";
  EXPECT_EQ(CaBundleOf("", AwsEnvironment(variables), "lab"), "/environment.pem");
}

TEST_F(AwsSettings, TheStampChangesWithEitherFile) {
  const AwsEnvironment environment = Files("[a]\n", "[b]\n");
  const std::string first = SharedFilesStamp(environment);
  EXPECT_EQ(SharedFilesStamp(environment), first);
  files_.Write("config", "[c]\n");
  const std::string second = SharedFilesStamp(environment);
  EXPECT_NE(second, first);
  files_.Write("credentials", "[d]\n");
  EXPECT_NE(SharedFilesStamp(environment), second);
}

TEST_F(AwsSettings, EachServiceHasItsEndpoint) {
  const AwsEnvironment environment = Files("",
                                           "[default]\nservices = lab\nendpoint_url = http://all\n"
                                           "[services lab]\nsts =\n  endpoint_url = http://sts\n");
  const AwsProfile profile = MustLoad(environment, "");
  EXPECT_EQ(ConfiguredEndpoint(environment, profile, "sts"), "http://sts");
  EXPECT_EQ(ConfiguredEndpoint(environment, profile, "s3"), "http://all");
}

TEST_F(AwsSettings, ASwitchOfTheEnvironmentOutranksTheProfiles) {
  const auto is_on = [](const char* variable, const char* setting) {
    AwsProfile profile;
    profile.settings["key"] = setting;
    return ConfiguredSwitch(AwsEnvironment({{"NAME", variable}}), "NAME", profile, "key");
  };
  EXPECT_TRUE(is_on("true", "false"));
  EXPECT_TRUE(is_on("", "True"));
  EXPECT_FALSE(is_on("false", "true"));
  EXPECT_FALSE(is_on("1", "true")) << "neither word: off, as for the AWS CLI";
  EXPECT_FALSE(is_on("", ""));
}

TEST(AwsEnvironment, EmptyIsNotSet) {
  const AwsEnvironment environment({{"A", ""}, {"B", "x"}});
  EXPECT_EQ(environment.Get("A"), std::nullopt);
  EXPECT_EQ(environment.Get("B"), "x");
  EXPECT_NE(AwsEnvironment::OfProcess().Get("PATH"), std::nullopt);
}

}  // namespace
}  // namespace forebay
