#include "fuse-client/copies/opened_files.h"

#include <fcntl.h>
#include <gtest/gtest.h>

#include <memory>
#include <vector>

namespace forebay {
namespace {

/// A kernel that says what it was told.
struct FakeKernel {
  std::vector<std::int32_t> closed;
  std::int32_t last = 0;
  bool refuses = false;

  OpenedFiles::Kernel Calls() {
    return {.open_backing = [this](int fd) -> Result<std::int32_t> {
              EXPECT_GE(fd, 0);
              if (refuses) return Fail(Code::kDenied, "no");
              return ++last;
            },
            .close_backing = [this](std::int32_t backing) { closed.push_back(backing); }};
  }
};

Result<OwnedFd> Copy() { return OwnedFd(::open("/dev/null", O_RDONLY | O_CLOEXEC)); }
Result<OwnedFd> NoCopy() { return Fail(Code::kNotFound, "none"); }

class OpenedFilesTest : public testing::Test {
 protected:
  FakeKernel kernel_;
  std::unique_ptr<Keeper> keeper_ = *Keeper::Alone(1);
  OpenedFiles files_{kernel_.Calls(), *keeper_, 1};
};

TEST_F(OpenedFilesTest, AFileIsReadFromItsCopyUntilTheLastHasClosedIt) {
  EXPECT_EQ(files_.Open(5, 100, Copy), 1);
  EXPECT_EQ(files_.Open(5, 101, Copy), 1);  // the kernel takes one backing file for an inode
  EXPECT_EQ(files_.Open(6, 102, Copy), 2);
  EXPECT_EQ(files_.by_passthrough(), 2U);
  files_.Close(100);
  EXPECT_TRUE(kernel_.closed.empty());
  files_.Close(101);
  EXPECT_EQ(kernel_.closed, std::vector<std::int32_t>{1});
  EXPECT_EQ(files_.Open(5, 103, Copy), 3);
}

TEST_F(OpenedFilesTest, WhoJoinsGetsTheWayOfThoseBefore) {
  EXPECT_EQ(files_.Open(5, 100, NoCopy), 0);
  EXPECT_EQ(files_.Open(5, 101, Copy), 0);  // copied meanwhile
  files_.Close(100);
  EXPECT_EQ(files_.Open(5, 102, Copy), 0);
  files_.Close(101);
  files_.Close(102);
  EXPECT_EQ(files_.Open(5, 103, Copy), 1);
  EXPECT_EQ(files_.Open(5, 104, NoCopy), 1);  // removed meanwhile
}

TEST_F(OpenedFilesTest, ARequestThatIsAskedTwiceIsOneOpenFile) {
  EXPECT_EQ(files_.Open(5, 100, Copy), 1);
  EXPECT_EQ(files_.Open(5, 100, Copy), 1);
  files_.Close(100);
  EXPECT_EQ(kernel_.closed, std::vector<std::int32_t>{1});
  files_.Close(100);  // RELEASE, too
  files_.Close(0);
  EXPECT_EQ(kernel_.closed.size(), 1U);
}

TEST_F(OpenedFilesTest, WhereTheKernelRefusesReadsAreMessages) {
  kernel_.refuses = true;
  EXPECT_EQ(files_.Open(5, 100, Copy), 0);
  files_.Close(100);
  EXPECT_TRUE(kernel_.closed.empty());
}

TEST_F(OpenedFilesTest, NobodyJoinsThoseWhoReadADamagedCopy) {
  EXPECT_EQ(files_.Open(5, 100, Copy), 1);
  EXPECT_EQ(files_.Open(6, 101, NoCopy), 0);
  files_.MarkDamaged(5);
  files_.MarkDamaged(6);
  files_.MarkDamaged(7);
  EXPECT_EQ(files_.Open(5, 102, NoCopy).error().code, Code::kCorrupt);
  EXPECT_EQ(files_.Open(6, 103, NoCopy), 0);  // not read from a copy
  EXPECT_EQ(files_.Open(7, 104, NoCopy), 0);
  files_.Close(100);
  EXPECT_EQ(files_.Open(5, 105, NoCopy), 0);
}

TEST_F(OpenedFilesTest, ASuccessorGoesOnWithWhatIsOpen) {
  files_.Restore({{.handle = 100, .nodeid = 5, .backing = 9, .damaged = false},
                  {.handle = 101, .nodeid = 5, .backing = 9, .damaged = false},
                  {.handle = 102, .nodeid = 6, .backing = 0, .damaged = false},
                  {.handle = 103, .nodeid = 7, .backing = 4, .damaged = true}});
  EXPECT_EQ(files_.Open(5, 110, NoCopy), 9);
  EXPECT_EQ(files_.Open(6, 111, Copy), 0);
  EXPECT_EQ(files_.Open(7, 112, Copy).error().code, Code::kCorrupt);
  for (const std::uint64_t handle : {100U, 101U, 103U}) files_.Close(handle);
  EXPECT_EQ(kernel_.closed, std::vector<std::int32_t>{4});
  files_.Close(110);
  EXPECT_EQ(kernel_.closed, (std::vector<std::int32_t>{4, 9}));
}

TEST(KeptOpen, IsReadFromItsEntry) {
  std::vector<KeptOpen> opened;
  TakeKeptOpen("opened/00000000000000ff/", Kept{"5 9 1", {}}, opened);
  TakeKeptOpen("opened/00000000000000fe/", Kept{"nonsense", {}}, opened);
  ASSERT_EQ(opened.size(), 1U);
  EXPECT_EQ(opened[0].handle, 255U);
  EXPECT_EQ(opened[0].nodeid, 5U);
  EXPECT_EQ(opened[0].backing, 9);
  EXPECT_TRUE(opened[0].damaged);
}

}  // namespace
}  // namespace forebay
