#include "fuse-client/kernel_inodes.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <optional>

namespace forebay {
namespace {

OwnedFd AnotherOf(const KernelInodes& inodes) {
  return OwnedFd(::fcntl(inodes.file(), F_DUPFD_CLOEXEC, 0));
}

TEST(KernelInodes, WhatIsGivenTwiceCountsOnce) {
  KernelInodes inodes;
  inodes.Given(5);
  inodes.Given(5);
  inodes.Given(6);
  EXPECT_EQ(inodes.count(), 2u);
  EXPECT_EQ(inodes.count_of_all(), 2u);
  inodes.Forgotten(5);
  inodes.Forgotten(5);
  inodes.Forgotten(7);
  EXPECT_EQ(inodes.count(), 1u);
  EXPECT_FALSE(inodes.Has(5));
  EXPECT_TRUE(inodes.Has(6));
}

// The process that gave them may be killed at any moment: nothing has to be saved.
TEST(KernelInodes, ASuccessorGoesOnWithWhatTheKernelStillHolds) {
  KernelInodeTotal total;
  std::optional<KernelInodes> before(std::in_place, OwnedFd(), &total);
  for (std::uint64_t nodeid = 1; nodeid <= 1000; ++nodeid) before->Given(nodeid * 7919);
  const OwnedFd kept = AnotherOf(*before);
  KernelInodeTotal total_of_successor;
  KernelInodes after(AnotherOf(*before), &total_of_successor);
  before.reset();
  EXPECT_EQ(total.count(), 0u);
  EXPECT_EQ(after.count(), 1000u);
  EXPECT_EQ(total_of_successor.count(), 1000u);
  EXPECT_TRUE(after.Has(7919));
  after.Given(7919);
  EXPECT_EQ(after.count(), 1000u) << "the kernel has it already";
  after.Forgotten(7919);
  EXPECT_EQ(total_of_successor.count(), 999u);
}

TEST(KernelInodes, AFileOfAnotherReleaseIsNotTakenForOne) {
  OwnedFd other(::memfd_create("other", MFD_CLOEXEC));
  ASSERT_EQ(::ftruncate(other.get(), 4096), 0);
  KernelInodes inodes(std::move(other));
  EXPECT_EQ(inodes.count(), 0u);
  inodes.Given(5);
  EXPECT_TRUE(inodes.Has(5));
}

TEST(KernelInodes, AMountThatEndsTakesItsShareOfTheTotalWithIt) {
  KernelInodeTotal total;
  KernelInodes one(OwnedFd(), &total);
  one.Given(5);
  {
    KernelInodes two(OwnedFd(), &total);
    two.Given(5);
    two.Given(6);
    EXPECT_EQ(one.count(), 1u);
    EXPECT_EQ(one.count_of_all(), 3u) << "each mount has an inode of its own";
  }
  EXPECT_EQ(one.count_of_all(), 1u);
}

}  // namespace
}  // namespace forebay
