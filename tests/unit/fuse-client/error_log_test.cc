#include "fuse-client/error_log.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "common/base/files.h"
#include "tests/fakes/temp_dir.h"

namespace forebay {
namespace {

TEST(ErrorLog, ALineTellsErrnoPathAndCause) {
  ErrorLog log;
  log.Add("train/a.jpg", {Code::kTimeout, "S3 did not answer for 300 s"});
  const std::string text = log.Render();
  EXPECT_NE(text.find(" EIO \"train/a.jpg\" 1x Timeout: S3 did not answer for 300 s\n"),
            std::string::npos)
      << text;
  log.Add("b", {Code::kStale, "the object changed"});
  EXPECT_NE(log.Render().find("ESTALE \"b\" 1x Stale: the object changed\n"), std::string::npos);
}

TEST(ErrorLog, TheSameFailureAgainOnlyRaisesItsCount) {
  ErrorLog log;
  for (int i = 0; i < 5; ++i) log.Add("a", {Code::kDenied, "no"});
  log.Add("a", {Code::kDenied, "still no"});
  EXPECT_EQ(log.size(), 2u);
  EXPECT_NE(log.Render().find("\"a\" 5x"), std::string::npos);
}

TEST(ErrorLog, OldFailuresMakeRoom) {
  ErrorLog log(3);
  for (int i = 0; i < 10; ++i) log.Add("file" + std::to_string(i), {Code::kTimeout, "x"});
  EXPECT_EQ(log.size(), 3u);
  EXPECT_EQ(log.Render().find("file6"), std::string::npos);
  EXPECT_NE(log.Render().find("file9"), std::string::npos);
}

TEST(ErrorLog, IsKeptOverARestartAndStaysBounded) {
  const fakes::TempDir dir;
  const std::string file = dir / "errors";
  int told = 0;
  {
    ErrorLog log(3);
    log.KeepIn(file, [&] { ++told; });
    log.Add("first", {Code::kTimeout, "x"});
    log.Add("second", {Code::kTimeout, "two\nlines"});
    EXPECT_EQ(told, 1) << "once until it is saved";
    ASSERT_TRUE(log.Save());
    log.Add("second", {Code::kTimeout, "two\nlines"});
    EXPECT_EQ(told, 2);
    ASSERT_TRUE(log.Save());
  }
  ErrorLog log(3);
  log.KeepIn(file, [] {});
  EXPECT_EQ(log.size(), 0u) << "of this run";
  EXPECT_NE(log.Render().find("\"second\" 2x Timeout: two lines\n"), std::string::npos);
  log.Add("third", {Code::kTimeout, "x"});
  EXPECT_LT(log.Render().find("first"), log.Render().find("third"));
  log.Add("fourth", {Code::kTimeout, "x"});
  const std::string text = log.Render();
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 3);
  EXPECT_EQ(text.find("first"), std::string::npos);
}

// The folder of a link that was made anew goes with its listing, while a mount still shows it.
TEST(ErrorLog, MakesItsFolderAnewWhereItHasGone) {
  const fakes::TempDir dir;
  const std::string file = dir / "link/errors";
  ErrorLog log;
  log.KeepIn(file, [] {});
  log.Add("a", {Code::kTimeout, "x"});
  ASSERT_TRUE(log.Save());
  EXPECT_EQ(ReadWholeFile(file).value_or(""), log.Render());
}

TEST(ErrorLog, WithoutRoomForItsFileItGoesOn) {
  ErrorLog log;
  log.KeepIn("/proc/no/such/folder/errors", [] {});
  log.Add("a", {Code::kTimeout, "x"});
  EXPECT_FALSE(log.Save());
  EXPECT_NE(log.Render().find("\"a\""), std::string::npos);
}

TEST(ErrorLog, APathWithLineEndsStaysOneLine) {
  ErrorLog log;
  log.Add("a\nb\"c\\\x7f", {Code::kTimeout, "x"});
  const std::string text = log.Render();
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 1);
  EXPECT_NE(text.find(R"("a\x0ab\"c\\\x7f")"), std::string::npos) << text;
}

}  // namespace
}  // namespace forebay
