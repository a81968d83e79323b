#include "common/s3/auth/credential_process.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "tests/unit/s3/temp_files.h"

namespace forebay {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using namespace std::chrono_literals;

TEST(SplitCommand, KnowsQuotesAndBackslashes) {
  EXPECT_THAT(SplitCommand("  a b\tc "), ElementsAre("a", "b", "c"));
  EXPECT_THAT(SplitCommand(R"("/my path/x" --who 'a "b"' c\ d "" 'e\f')"),
              ElementsAre("/my path/x", "--who", "a \"b\"", "c d", "", "e\\f"));
  EXPECT_THAT(SplitCommand("a 'b"), IsEmpty());
  EXPECT_THAT(SplitCommand(" "), IsEmpty());
}

class CredentialProcess : public testing::Test {
 protected:
  CredentialAnswer Run(const std::string& script, Duration patience = 20s,
                       std::stop_token stop = {}) {
    const std::string path = files_.Write("source", "#!/bin/sh\n" + script + "\n");
    return RunCredentialProcess("/bin/sh " + path, "the process",
                                AwsEnvironment({{"WHO", "AKENV"}, {"PATH", "/usr/bin:/bin"}}),
                                patience, stop);
  }
  static std::string Prints(const std::string& json) { return "echo '" + json + "'"; }

  TempFiles files_;
};

TEST_F(CredentialProcess, GivesWhatItPrints) {
  const CredentialAnswer answer =
      Run("printf '{\"Version\": 1, \"AccessKeyId\": \"%s\", \"SecretAccessKey\": \"s\", "
          "\"SessionToken\": \"t\", \"Expiration\": \"2026-11-21T14:05:00Z\"}' \"$WHO\"");
  ASSERT_TRUE(answer) << answer.error().why;
  EXPECT_EQ(answer->key_id, "AKENV");
  EXPECT_EQ(answer->session_token.Reveal(), "t");
  EXPECT_TRUE(answer->expires.has_value());
}

TEST_F(CredentialProcess, AFailureSaysHowItEndedAndNothingThatItPrinted) {
  const CredentialAnswer failed = Run("echo hunter2; echo hunter2 >&2; exit 7");
  ASSERT_FALSE(failed.has_value());
  EXPECT_EQ(failed.error().kind, NoCredentials::Kind::kAway);
  EXPECT_THAT(failed.error().why, HasSubstr("it ended with 7"));
  EXPECT_THAT(failed.error().why, Not(HasSubstr("hunter2")));
  EXPECT_THAT(Run(Prints("hunter2")).error().why, Not(HasSubstr("hunter2")));
  EXPECT_THAT(Run("kill -9 $$").error().why, HasSubstr("signal 9"));
}

TEST_F(CredentialProcess, WhatIsNotThereCannotBeStarted) {
  const CredentialAnswer answer =
      RunCredentialProcess("/no/such/program x", "the process", AwsEnvironment({}), 20s, {});
  EXPECT_EQ(answer.error().kind, NoCredentials::Kind::kBroken);
  EXPECT_THAT(answer.error().why, HasSubstr("/no/such/program: No such file"));
}

TEST_F(CredentialProcess, OneThatHangsIsEndedWithWhatItStarted) {
  const std::string marker = files_.Path("pid");
  const CredentialAnswer answer = Run("sleep 600 & echo $! > " + marker + "; wait", 300ms);
  EXPECT_THAT(answer.error().why, HasSubstr("did not end in time"));
  std::ifstream file(marker);
  pid_t pid = 0;
  ASSERT_TRUE(file >> pid);
  const auto until = std::chrono::steady_clock::now() + 10s;
  const auto gone = [pid] {
    std::ifstream status("/proc/" + std::to_string(pid) + "/stat");
    std::string number;
    std::string name;
    std::string state;
    return !(status >> number >> name >> state) || state == "Z";
  };
  while (!gone() && std::chrono::steady_clock::now() < until) std::this_thread::yield();
  EXPECT_TRUE(gone());
}

TEST_F(CredentialProcess, AStopEndsIt) {
  std::stop_source stop;
  stop.request_stop();
  EXPECT_THAT(Run("sleep 600", 600s, stop.get_token()).error().why, HasSubstr("stopped"));
}

TEST_F(CredentialProcess, EndlessOutputIsCutOff) {
  EXPECT_THAT(Run("exec yes").error().why, HasSubstr("more than 64 KiB"));
}

}  // namespace
}  // namespace forebay
