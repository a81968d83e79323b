#include "coordinator/name_uploads.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "common/base/files.h"
#include "tests/unit/coordinator/testing.h"

namespace forebay {
namespace {

class NameUploadsTest : public testing::Test {
 protected:
  std::size_t FileCount() const {
    std::size_t count = 0;
    for (const auto& entry : std::filesystem::directory_iterator(dir.Path("u"))) {
      count += entry.is_regular_file() ? 1 : 0;
    }
    return count;
  }

  const TempDir dir;
  NameUploads uploads{dir.Path("u")};
};

TEST_F(NameUploadsTest, PartsBecomeOneFileEachTakenOnce) {
  const auto first = uploads.Append("", 0, "a\nb\n");
  ASSERT_TRUE(first.has_value()) << first.error().message;
  ASSERT_TRUE(uploads.Append(first->id, 4, "c\n").has_value());
  const auto again = uploads.Append(first->id, 4, "c\n");
  ASSERT_TRUE(again.has_value()) << "its answer was lost, it came twice";
  EXPECT_EQ(again->size, 6u);
  const auto file = uploads.Complete(first->id);
  ASSERT_TRUE(file.has_value());
  EXPECT_EQ(*ReadWholeFile(uploads.PathOf(file->name)), "a\nb\nc\n");
  const auto other = uploads.Append("", 0, "a\nb\nc\n");
  EXPECT_EQ(uploads.Complete(other->id)->digest, file->digest) << "the same list";
  EXPECT_NE(other->id, first->id);
}

TEST_F(NameUploadsTest, WrongPartsChangeNothing) {
  const auto first = uploads.Append("", 0, "abc");
  EXPECT_EQ(uploads.Append(first->id, 4, "x").error().code, Code::kInvalid) << "a gap";
  EXPECT_EQ(uploads.Append(first->id, NameUploads::kMaxBytes, "x").error().code, Code::kInvalid);
  EXPECT_EQ(uploads.Append("../../etc/passwd", 0, "x").error().code, Code::kNotFound);
  EXPECT_EQ(uploads.Complete("names-none").error().code, Code::kNotFound);
  EXPECT_EQ(*ReadWholeFile(uploads.PathOf(first->id)), "abc");
}

TEST_F(NameUploadsTest, AFileLivesAsLongAsItsUploadOrItsTask) {
  const auto upload = uploads.Append("", 0, "abc");
  uploads.Prune({});
  EXPECT_EQ(FileCount(), 1u) << "it is still on its way";
  uploads.EndUpload(upload->id);
  uploads.Prune({upload->id});
  EXPECT_EQ(FileCount(), 1u) << "a task has it";
  uploads.Prune({});
  EXPECT_EQ(FileCount(), 0u);
}

TEST_F(NameUploadsTest, TooManyAtOnceAreRefused) {
  for (int i = 0; i < 16; ++i) ASSERT_TRUE(uploads.Append("", 0, "x").has_value());
  EXPECT_EQ(uploads.Append("", 0, "x").error().code, Code::kOverloaded);
}

}  // namespace
}  // namespace forebay
