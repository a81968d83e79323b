#include "common/s3/posix_metadata.h"

#include <gtest/gtest.h>

#include "common/s3/response_checks.h"

namespace forebay {
namespace {

using Time = PosixAttributes::Time;

PosixAttributes Mode(std::string text) { return ParsePosixMetadata({.permissions = text}); }
PosixAttributes Mtime(std::string text) { return ParsePosixMetadata({.mtime = text}); }

TEST(PosixMetadata, OfFsxForLustreIsRead) {
  // AWS, FSx for Lustre user guide: the example of an object's metadata.
  const PosixAttributes posix = ParsePosixMetadata(
      {.permissions = "0100664", .owner = "500", .group = "501", .mtime = "1595002920123456789ns"});
  EXPECT_EQ(posix.mode, 0664);
  EXPECT_EQ(posix.uid, 500U);
  EXPECT_EQ(posix.gid, 501U);
  EXPECT_EQ(posix.mtime, (Time{.unix_s = 1'595'002'920, .nanoseconds = 123'456'789}));
}

TEST(PosixMetadata, ATimeWithoutNsIsInMilliseconds) {
  EXPECT_EQ(Mtime("1587572361234").mtime, (Time{1'587'572'361, 234'000'000}));
  EXPECT_EQ(Mtime("1587572361234ms").mtime, (Time{1'587'572'361, 234'000'000}));
  EXPECT_EQ(Mtime("-1ns").mtime, (Time{-1, 999'999'999}));
  EXPECT_EQ(Mtime("-1500").mtime, (Time{-2, 500'000'000}));
  EXPECT_EQ(Mtime("0ns").mtime, (Time{0, 0}));
}

TEST(PosixMetadata, OfAModeTheNinePermissionBitsCount) {
  EXPECT_EQ(Mode("644").mode, 0644);
  EXPECT_EQ(Mode("0755").mode, 0755);
  EXPECT_EQ(Mode("104755").mode, 0755) << "set-user-id means nothing here";
  EXPECT_EQ(Mode("0").mode, 0);
}

TEST(PosixMetadata, WhatCannotBeReadIsMissing) {
  for (const char* bad : {"", "rw-r--r--", "0999", "0644 ", "-644", "7777777777777"})
    EXPECT_EQ(Mode(bad).mode, std::nullopt) << bad;
  for (const char* bad : {"", "alice", "-1", "4294967295", "4294967296", "0x10"})
    EXPECT_EQ(ParsePosixMetadata({.owner = bad, .group = bad}), PosixAttributes()) << bad;
  for (const char* bad : {"", "ns", "1.5", "now", "99999999999999999999ns"})
    EXPECT_EQ(Mtime(bad).mtime, std::nullopt) << bad;
}

TEST(PosixMetadata, ComesFromTheHeadersOfAHead) {
  ResponseHead head;
  head.status = 200;
  for (const char* line : {"Content-Length: 5", "ETag: \"abc\"", "x-amz-meta-file-owner: 7",
                           "X-Amz-Meta-File-Permissions: 0600", "x-amz-meta-file-group: 8",
                           "x-amz-meta-file-mtime: 5000000001ns", "x-amz-meta-file-atime: 1ns"})
    head.AddLine(line);
  const Result<ObjectHead> object = CheckHeadAnswer(head);
  ASSERT_TRUE(object.has_value());
  EXPECT_EQ(object->posix,
            (PosixAttributes{.mode = 0600, .uid = 7, .gid = 8, .mtime = Time{5, 1}}));
}

}  // namespace
}  // namespace forebay
