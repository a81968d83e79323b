#include "common/s3/credentials.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <concepts>
#include <sstream>

#include "common/s3/credential_cache.h"
#include "tests/fakes/run_task.h"
#include "tests/unit/s3/temp_files.h"

namespace forebay {
namespace {

using fakes::RunTask;
using testing::HasSubstr;
using namespace std::chrono_literals;

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
    return CredentialChain::Default(AwsEnvironment(std::move(variables))).Load(profile);
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
  ExpectDenied(Load(Files("[x]\nrole_arn = arn\n"), "x"), "role_arn is not read");
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

class CredentialCacheTest : public CredentialsTest {
 protected:
  CredentialCache MakeCache(Duration recheck) {
    return {CredentialChain::Default(AwsEnvironment(Files(kProfileX))), recheck};
  }
  std::string Keys(const std::string& id) {
    return "[x]\naws_access_key_id = " + id + "\naws_secret_access_key = s\n";
  }
  const Deadline soon_ = Deadline::After(20s);
};

TEST_F(CredentialCacheTest, GivesTheSameKeysUntilTheyAreOld) {
  CredentialCache cache = MakeCache(1h);
  cache.Start();
  const auto first = RunTask(cache.Get("x", soon_));
  ASSERT_TRUE(first) << first.error().message;
  files_.Write("credentials", Keys("AKNEW"));
  const auto second = RunTask(cache.Get("x", soon_));
  EXPECT_EQ(first, second);
}

TEST_F(CredentialCacheTest, PicksUpAChangedFileBehindTheCallersBack) {
  CredentialCache cache = MakeCache(0s);
  cache.Start();
  ASSERT_TRUE(RunTask(cache.Get("x", soon_)));
  files_.Write("credentials", Keys("AKNEW"));
  std::string key_id;
  while (key_id != "AKNEW" && !soon_.Expired()) key_id = (*RunTask(cache.Get("x", soon_)))->key_id;
  EXPECT_EQ(key_id, "AKNEW");
}

TEST_F(CredentialCacheTest, NewerLooksAgainAndSaysWhatItFinds) {
  CredentialCache cache = MakeCache(1h);
  cache.Start();
  const auto used = *RunTask(cache.Get("x", soon_));
  EXPECT_TRUE((*RunTask(cache.Newer("x", used, soon_)))->SameKeys(*used));
  files_.Write("credentials", Keys("AKNEW"));
  EXPECT_EQ((*RunTask(cache.Newer("x", used, soon_)))->key_id, "AKNEW");
  EXPECT_EQ((*RunTask(cache.Get("x", soon_)))->key_id, "AKNEW");
  files_.Write("credentials", "[other]\n");
  const auto newest = *RunTask(cache.Get("x", soon_));
  EXPECT_EQ(RunTask(cache.Newer("x", newest, soon_)).error().code, Code::kDenied);
}

TEST_F(CredentialCacheTest, AFailedLookIsRepeatedByTheNextCall) {
  CredentialCache cache = MakeCache(1h);
  cache.Start();
  EXPECT_EQ(RunTask(cache.Get("late", soon_)).error().code, Code::kDenied);
  files_.Write("credentials", "[late]\naws_access_key_id = A\naws_secret_access_key = s\n");
  EXPECT_TRUE(RunTask(cache.Get("late", soon_)));
}

TEST_F(CredentialCacheTest, AStoppedCacheAnswers) {
  CredentialCache cache = MakeCache(1h);
  cache.Start();
  cache.Stop();
  EXPECT_EQ(RunTask(cache.Get("x", soon_)).error().code, Code::kUnavailable);
}

}  // namespace
}  // namespace forebay
