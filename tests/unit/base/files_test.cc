#include "common/base/files.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>

#include "tests/fakes/temp_dir.h"

namespace forebay {
namespace {

TEST(Files, AWrittenFileReadsBackAndNothingElseIsLeft) {
  const fakes::TempDir dir;
  const std::string bytes(100'000, 'x');
  ASSERT_TRUE(WriteFileAtomically(dir / "a", "old"));
  ASSERT_TRUE(WriteFileAtomically(dir / "a", bytes));
  EXPECT_EQ(ReadWholeFile(dir / "a").value(), bytes);
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(dir.path()), {}), 1);
}

TEST(Files, AMissingFileIsNotFoundAndAMissingFolderAFailure) {
  const fakes::TempDir dir;
  EXPECT_EQ(ReadWholeFile(dir / "none").error().code, Code::kNotFound);
  const Status written = WriteFileAtomically(dir / "no/such/file", "x");
  ASSERT_FALSE(written);
  EXPECT_EQ(written.error().code, Code::kInternal);
  EXPECT_NE(written.error().message.find("no/such/file"), std::string::npos);
}

TEST(Files, FoldersAreForTheirOwnerAlone) {
  const fakes::TempDir dir;
  ASSERT_TRUE(MakePrivateFolder(dir / "a/b/c"));
  ASSERT_TRUE(MakePrivateFolder(dir / "a/b/c"));
  struct stat attributes{};
  ASSERT_EQ(::stat((dir / "a/b/c").c_str(), &attributes), 0);
  EXPECT_EQ(attributes.st_mode & 0777, 0700u);
  ASSERT_TRUE(WriteFileAtomically(dir / "file", "x"));
  EXPECT_FALSE(MakePrivateFolder(dir / "file/below"));
}

}  // namespace
}  // namespace forebay
