#include "cachenode/known_directories.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "cachenode/store/cache_directory.h"
#include "common/base/files.h"
#include "tests/fakes/temp_dir.h"

namespace forebay {
namespace {

namespace fs = std::filesystem;

using testing::AllOf;
using testing::HasSubstr;

class KnownDirectoriesTest : public ::testing::Test {
 protected:
  KnownDirectories Open() {
    Result<KnownDirectories> known = KnownDirectories::Open(state_);
    EXPECT_TRUE(known.has_value()) << known.error().message;
    return std::move(*known);
  }

  /// Makes the cache directory and has it remembered; answers its uuid.
  std::string Make(const std::string& path) {
    const Uuid directory = CacheDirectory::Open(path, cluster_)->identity().directory;
    EXPECT_TRUE(Open().Remember(path).has_value());
    return directory.ToString();
  }

  /// What a node that starts now has against `path`; "" when nothing.
  std::string Objection(const std::string& path) {
    const Result<std::optional<std::string>> objection = Open().Objection(path);
    EXPECT_TRUE(objection.has_value()) << objection.error().message;
    return objection->value_or("");
  }

  const fakes::TempDir dir_;
  const Uuid cluster_ = Uuid::Random();
  const std::string state_ = dir_ / "state";
  const std::string a_ = dir_ / "a";
  const std::string b_ = dir_ / "b";
};

TEST_F(KnownDirectoriesTest, NothingIsKnownAgainstNewDirectoriesAndThoseOfAnEarlierVersion) {
  EXPECT_EQ(Objection(a_), "");
  ASSERT_TRUE(CacheDirectory::Open(a_, cluster_).has_value());
  EXPECT_EQ(Objection(a_), "");
}

TEST_F(KnownDirectoriesTest, ADirectoryIsKnownAgainUnderItsPathHoweverThatIsWritten) {
  Make(a_);
  EXPECT_EQ(Objection(a_), "");
  EXPECT_EQ(Objection(a_ + "/"), "");
  EXPECT_EQ(Objection(dir_ / "./a"), "");
}

TEST_F(KnownDirectoriesTest, AnEmptyOrAbsentPlaceOfAKnownDirectoryIsNotTakenForANewOne) {
  const std::string directory = Make(a_);
  fs::remove_all(a_);
  EXPECT_THAT(Objection(a_), AllOf(HasSubstr(a_), HasSubstr("empty or not there"),
                                   HasSubstr(directory), HasSubstr("--accept-new-disk " + a_)));
  fs::create_directory(a_);
  EXPECT_THAT(Objection(a_ + "/"), HasSubstr("empty or not there"));
}

TEST_F(KnownDirectoriesTest, AnotherDirectoryInThePlaceOfAKnownOneIsNotUsed) {
  const std::string directory = Make(a_);
  fs::remove_all(a_);
  const std::string other = CacheDirectory::Open(a_, cluster_)->identity().directory.ToString();
  EXPECT_THAT(Objection(a_), AllOf(HasSubstr("is " + other), HasSubstr("was " + directory)));
}

TEST_F(KnownDirectoriesTest, KnownDirectoriesMayChangePlaces) {
  Make(a_);
  Make(b_);
  fs::rename(a_, dir_ / "c");
  fs::rename(b_, a_);
  fs::rename(dir_ / "c", b_);
  EXPECT_EQ(Objection(a_), "");
  EXPECT_EQ(Objection(b_), "");
}

TEST_F(KnownDirectoriesTest, ACopyOnAnotherFileSystemIsNotUsed) {
  const std::string file = state_ + "/" + Make(a_);
  std::string text = ReadWholeFile(file).value();
  text.replace(text.find("filesystem ") + 11, text.find("\npath") - text.find("filesystem ") - 11,
               "ef53:0123456789abcdef");
  ASSERT_TRUE(WriteFileAtomically(file, text).has_value());
  EXPECT_THAT(Objection(a_), AllOf(HasSubstr("lay on ef53:0123456789abcdef"),
                                   HasSubstr("lies on file system " + FileSystemOf(a_))));
}

TEST_F(KnownDirectoriesTest, WhatIsAcceptedIsRightFromThenOn) {
  Make(a_);
  Make(b_);
  fs::remove_all(a_);
  fs::remove_all(b_);
  KnownDirectories known = Open();
  ASSERT_TRUE(known.Accept(a_ + "/").has_value());
  EXPECT_EQ(known.Objection(a_).value(), std::nullopt);
  EXPECT_NE(known.Objection(b_).value(), std::nullopt) << "nothing was said of it";
  Make(a_);
  EXPECT_EQ(Objection(a_), "");
  fs::remove_all(a_);
  EXPECT_NE(Objection(a_), "") << "it holds once";
}

TEST_F(KnownDirectoriesTest, ADamagedRecordIsNamed) {
  const std::string file = state_ + "/" + Make(a_);
  std::ofstream(file) << "forebay";
  const Result<KnownDirectories> known = KnownDirectories::Open(state_);
  ASSERT_FALSE(known.has_value());
  EXPECT_THAT(known.error().message, HasSubstr(file + " is damaged"));
  // What a write that was cut off leaves beside it is not looked at.
  fs::rename(file, file + ".12.0.tmp");
  EXPECT_TRUE(KnownDirectories::Open(state_).has_value());
}

TEST(FileSystemOf, DiffersByTypeAndById) {
  const std::string tmp = FileSystemOf("/tmp");
  EXPECT_TRUE(MayBeSameFileSystem(tmp, FileSystemOf("/tmp")));
  EXPECT_FALSE(MayBeSameFileSystem(tmp, FileSystemOf("/proc")));
  EXPECT_EQ(FileSystemOf("/nowhere"), "");
  EXPECT_FALSE(MayBeSameFileSystem("ef53:01", "ef53:02"));
  EXPECT_FALSE(MayBeSameFileSystem("ef53:01", "58465342:01"));
  EXPECT_TRUE(MayBeSameFileSystem("58465342:-", "58465342:01")) << "a kernel before 6.9 said less";
}

}  // namespace
}  // namespace forebay
