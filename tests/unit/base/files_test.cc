#include "common/base/files.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>

#include "tests/fakes/temp_dir.h"

namespace forebay {
namespace {

mode_t ModeOf(const std::string& path) {
  struct stat attributes{};
  EXPECT_EQ(::stat(path.c_str(), &attributes), 0) << path;
  return attributes.st_mode & 07777;
}

TEST(Files, AWrittenFileReadsBackAndNothingElseIsLeft) {
  const fakes::TempDir dir;
  const std::string bytes(100'000, 'x');
  ASSERT_TRUE(WriteFileAtomically(dir / "a", "old"));
  ASSERT_TRUE(WriteFileAtomically(dir / "a", bytes));
  EXPECT_EQ(ReadWholeFile(dir / "a").value(), bytes);
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(dir.path()), {}), 1);
}

TEST(Files, ANameWithoutAFolderIsInTheWorkingDirectory) {
  const fakes::TempDir dir;
  const std::filesystem::path before = std::filesystem::current_path();
  std::filesystem::current_path(dir.path());
  const Status written = WriteFileAtomically("a", "x");
  const Status made = MakeFoldersAbove("b");
  const Status folder = MakePrivateFolder("c");
  std::filesystem::current_path(before);
  EXPECT_TRUE(written) << written.error().message;
  EXPECT_EQ(ReadWholeFile(dir / "a").value(), "x");
  EXPECT_TRUE(made) << made.error().message;
  ASSERT_TRUE(folder) << folder.error().message;
  EXPECT_EQ(ModeOf(dir / "c"), 0700u);
}

TEST(Files, AMissingFileIsNotFoundAndAMissingFolderAFailure) {
  const fakes::TempDir dir;
  EXPECT_EQ(ReadWholeFile(dir / "none").error().code, Code::kNotFound);
  const Status written = WriteFileAtomically(dir / "no/such/file", "x");
  ASSERT_FALSE(written);
  EXPECT_EQ(written.error().code, Code::kInternal);
  EXPECT_NE(written.error().message.find("no/such/file"), std::string::npos);
}

TEST(Files, FoldersAreForTheirOwnerAloneAndThoseAboveThemForAllToPass) {
  const fakes::TempDir dir;
  const mode_t before = ::umask(077);
  ASSERT_TRUE(MakePrivateFolder(dir / "a/b/c"));
  ASSERT_TRUE(MakePrivateFolder(dir / "a/b/c"));
  ASSERT_TRUE(MakeFoldersAbove(dir / "d/e/file"));
  ::umask(before);
  EXPECT_EQ(ModeOf(dir / "a/b/c"), 0700u);
  EXPECT_EQ(ModeOf(dir / "a/b"), 0755u);
  EXPECT_EQ(ModeOf(dir / "a"), 0755u);
  EXPECT_EQ(ModeOf(dir / "d/e"), 0755u);
  EXPECT_FALSE(std::filesystem::exists(dir / "d/e/file"));
  ASSERT_EQ(::chmod((dir / "a").c_str(), 0711), 0);
  ASSERT_TRUE(MakePrivateFolder(dir / "a/f"));
  EXPECT_EQ(ModeOf(dir / "a"), 0711u) << "what is there keeps its mode";
  ASSERT_TRUE(WriteFileAtomically(dir / "file", "x"));
  EXPECT_FALSE(MakePrivateFolder(dir / "file/below"));
}

TEST(Files, ASlashAtTheEndOfAFoldersNameChangesNothing) {
  const fakes::TempDir dir;
  ASSERT_TRUE(MakePrivateFolder(dir / "a/b/"));
  ASSERT_TRUE(MakePrivateFolder(dir / "c/d//"));
  ASSERT_TRUE(MakeFoldersAbove(dir / "e/f/"));
  EXPECT_EQ(ModeOf(dir / "a/b"), 0700u);
  EXPECT_EQ(ModeOf(dir / "a"), 0755u);
  EXPECT_EQ(ModeOf(dir / "c/d"), 0700u);
  EXPECT_EQ(ModeOf(dir / "e"), 0755u);
  EXPECT_FALSE(std::filesystem::exists(dir / "e/f"));
  EXPECT_TRUE(MakePrivateFolder("/"));
  EXPECT_TRUE(MakeFoldersAbove("/"));
}

}  // namespace
}  // namespace forebay
