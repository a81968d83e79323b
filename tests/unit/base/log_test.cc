#include "common/base/log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <spdlog/spdlog.h>
#include <sys/stat.h>

#include <boost/json/parse.hpp>
#include <boost/json/value.hpp>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

#include "common/base/log_lines.h"
#include "tests/fakes/temp_dir.h"

namespace forebay {
namespace {

std::string Contents(const std::string& path) {
  std::stringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

class LogTest : public testing::Test {
 protected:
  ~LogTest() override { spdlog::set_default_logger(before_); }

  std::unique_ptr<Log> Start(LogLevel level, LogFormat format) {
    return Log::Start({level, format, file_}, "tester", false).value();
  }

  std::shared_ptr<spdlog::logger> before_ = spdlog::default_logger();
  fakes::TempDir dir_;
  std::string file_ = dir_ / "log";
};

TEST_F(LogTest, TextLinesHaveTimeLevelAndMessage) {
  const auto log = Start(LogLevel::kInfo, LogFormat::kText);
  spdlog::info("link {} is published", "imagenet");
  EXPECT_THAT(Contents(file_),
              testing::MatchesRegex("....-..-..T..:..:..\\....Z info  link imagenet "
                                    "is published\n"));
}

TEST_F(LogTest, AStrangersKeyCannotMakeALineOfItsOwn) {
  const auto log = Start(LogLevel::kInfo, LogFormat::kText);
  spdlog::info("key {}", "a\nb\x1b[31m\xff");
  EXPECT_THAT(Contents(file_), testing::EndsWith(" key a\\x0ab\\x1b[31m\xff\n"));
}

TEST_F(LogTest, JsonLinesAreJsonWhateverTheMessage) {
  const auto log = Start(LogLevel::kInfo, LogFormat::kJson);
  // A quote, a backslash, controls, good UTF-8 of 2 to 4 bytes, bad bytes, an overlong form, a
  // surrogate, a sequence that is cut off.
  spdlog::warn("{}", "\"\\\n\t\x7f äß € 😀 \xff \xc0\x80 \xed\xa0\x80 \xe2\x82");
  const std::string line = Contents(file_);
  EXPECT_EQ(std::ranges::count(line, '\n'), 1);
  const boost::json::value parsed = boost::json::parse(line);
  EXPECT_EQ(parsed.at("level").as_string(), "warn");
  EXPECT_EQ(parsed.at("program").as_string(), "tester");
  EXPECT_EQ(parsed.at("time").as_string().size(), 24U);
  EXPECT_EQ(parsed.at("message").as_string(),
            "\"\\\n\t\x7f äß € 😀 \uFFFD \uFFFD\uFFFD \uFFFD\uFFFD\uFFFD \uFFFD\uFFFD");
}

TEST_F(LogTest, LevelsBelowTheChosenOneAreDropped) {
  const auto log = Start(LogLevel::kWarn, LogFormat::kText);
  spdlog::info("quiet");
  spdlog::error("loud");
  const std::string text = Contents(file_);
  EXPECT_THAT(text, testing::HasSubstr("error loud"));
  EXPECT_THAT(text, testing::Not(testing::HasSubstr("quiet")));
}

TEST_F(LogTest, ReopenFollowsTheNameAfterARotation) {
  const auto log = Start(LogLevel::kInfo, LogFormat::kText);
  spdlog::info("one");
  std::filesystem::rename(file_, file_ + ".1");
  spdlog::info("two");
  ASSERT_TRUE(log->Reopen());
  spdlog::info("three");
  EXPECT_THAT(Contents(file_ + ".1"),
              testing::AllOf(testing::HasSubstr("one"), testing::HasSubstr("two")));
  EXPECT_THAT(Contents(file_), testing::HasSubstr("three"));
  EXPECT_THAT(Contents(file_), testing::Not(testing::HasSubstr("two")));
}

TEST_F(LogTest, TheFileIsForThisUserAloneAndIsAppendedTo) {
  {
    const auto log = Start(LogLevel::kInfo, LogFormat::kText);
    spdlog::info("first life");
  }
  const auto log = Start(LogLevel::kInfo, LogFormat::kText);
  spdlog::info("second life");
  EXPECT_THAT(Contents(file_), testing::HasSubstr("first life"));
  struct stat status{};
  ASSERT_EQ(::stat(file_.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777U, 0600U);
}

TEST_F(LogTest, AFileThatCannotBeOpenedIsAnErrorThatNamesIt) {
  const auto log =
      Log::Start({LogLevel::kInfo, LogFormat::kText, dir_ / "no/such/log"}, "t", false);
  ASSERT_FALSE(log);
  EXPECT_EQ(log.error().message, "log file " + (dir_ / "no/such/log") +
                                     ": No such file or directory; name a writable file with "
                                     "--log-file");
}

}  // namespace
}  // namespace forebay
