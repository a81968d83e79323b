#include "common/s3/response_checks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <initializer_list>

namespace forebay {
namespace {

using testing::HasSubstr;

ResponseHead Head(int status, std::initializer_list<const char*> lines) {
  ResponseHead head;
  head.status = status;
  for (const char* line : lines) head.AddLine(line);
  return head;
}

GetRequest Part() {
  GetRequest request;
  request.etag = "abc";
  request.object_size = 100;
  request.offset = 10;
  request.length = 5;
  return request;
}

GetRequest Whole() {
  GetRequest request = Part();
  request.offset = 0;
  request.length = 100;
  return request;
}

void ExpectRefused(const Status& status, Code code, const std::string& why) {
  ASSERT_FALSE(status.has_value());
  EXPECT_EQ(status.error().code, code);
  EXPECT_THAT(status.error().message, HasSubstr(why));
}

TEST(CheckGetHead, AcceptsExactlyTheRange) {
  EXPECT_TRUE(CheckGetHead(
      Head(206, {"ETag: \"abc\"", "content-RANGE: bytes 10-14/100", "Content-Length: 5"}), Part()));
  EXPECT_TRUE(CheckGetHead(Head(206, {"ETag: \"abc\"", "Content-Range: bytes 10-14/100"}), Part()))
      << "a chunked answer has no length; its range says it";
}

TEST(CheckGetHead, RefusesEveryOtherRange) {
  for (const char* range :
       {"bytes 10-15/100", "bytes 9-14/100", "bytes 10-14/101", "bytes 10-14/*", "bytes */100",
        "10-14/100", "bytes 10-14", "bytes 10-14/100 ", "bytes -14/100", "bytes 14-10/100", ""}) {
    const std::string line = std::string("Content-Range:") + range + "x";
    ExpectRefused(CheckGetHead(Head(206, {"ETag: \"abc\"", line.c_str()}), Part()), Code::kCorrupt,
                  "where 'bytes 10-14/100' was asked for");
  }
  ExpectRefused(CheckGetHead(Head(206, {"ETag: \"abc\"", "Content-Range: bytes 0-4/100"}), Part()),
                Code::kCorrupt, "where 'bytes 10-14/100' was asked for");
}

TEST(CheckGetHead, AcceptsTheWholeObjectUnder200) {
  EXPECT_TRUE(CheckGetHead(Head(200, {"ETag: \"abc\"", "Content-Length: 100"}), Whole()));
}

TEST(CheckGetHead, RefusesTheOtherSuccess) {
  ExpectRefused(CheckGetHead(Head(200, {"ETag: \"abc\"", "Content-Length: 100"}), Part()),
                Code::kCorrupt, "status 200 where 206 was due");
  ExpectRefused(CheckGetHead(Head(204, {"ETag: \"abc\""}), Whole()), Code::kCorrupt,
                "status 204 where 200 was due");
}

TEST(CheckGetHead, AnotherETagIsAnotherVersion) {
  ExpectRefused(
      CheckGetHead(Head(206, {"ETag: \"abd\"", "Content-Range: bytes 10-14/100"}), Part()),
      Code::kStale, "ETag is now abd and not abc");
  ExpectRefused(CheckGetHead(Head(206, {"Content-Range: bytes 10-14/100"}), Part()), Code::kCorrupt,
                "no valid ETag");
  ExpectRefused(
      CheckGetHead(Head(206, {"ETag: W/\"abc\"", "Content-Range: bytes 10-14/100"}), Part()),
      Code::kCorrupt, "no valid ETag");
}

TEST(CheckGetHead, RefusesLengthsThatDoNotFit) {
  ExpectRefused(CheckGetHead(Head(206, {"ETag: \"abc\"", "Content-Range: bytes 10-14/100",
                                        "Content-Length: 6"}),
                             Part()),
                Code::kCorrupt, "6 bytes where 5");
  ExpectRefused(CheckGetHead(Head(200, {"ETag: \"abc\"", "Content-Length: 99"}), Whole()),
                Code::kCorrupt, "99 bytes where 100");
  ExpectRefused(CheckGetHead(Head(200, {"ETag: \"abc\""}), Whole()), Code::kCorrupt, "how long");
}

TEST(CheckGetHead, RefusesContradictions) {
  ExpectRefused(
      CheckGetHead(Head(200, {"ETag: \"abc\"", "Content-Length: 100", "Content-Length: 5"}),
                   Whole()),
      Code::kCorrupt, "contradict");
  ExpectRefused(
      CheckGetHead(Head(200, {"ETag: \"abc\"", "ETag: \"abd\"", "Content-Length: 100"}), Whole()),
      Code::kCorrupt, "contradict");
  ExpectRefused(CheckGetHead(Head(200, {"ETag: \"abc\"", "Content-Length: -1"}), Whole()),
                Code::kCorrupt, "contradict");
}

TEST(CheckHeadAnswer, ReadsEveryMember) {
  const Result<ObjectHead> head = CheckHeadAnswer(
      Head(200, {"Content-Length: 50000000000000", "ETag: \"abc-7\"",
                 "Last-Modified: Mon, 12 Oct 2009 17:50:30 GMT", "x-amz-storage-class: GLACIER"}));
  ASSERT_TRUE(head) << head.error().message;
  EXPECT_EQ(head->size, 50000000000000U);
  EXPECT_EQ(head->etag, "abc-7");
  EXPECT_EQ(head->mtime_s, 1255369830);
  EXPECT_EQ(head->storage_class, "GLACIER");
}

TEST(CheckHeadAnswer, RefusesWhatIsMissingOrImpossible) {
  EXPECT_EQ(CheckHeadAnswer(Head(200, {"ETag: \"a\""})).error().code, Code::kCorrupt);
  EXPECT_EQ(CheckHeadAnswer(Head(200, {"Content-Length: 1"})).error().code, Code::kCorrupt);
  EXPECT_EQ(CheckHeadAnswer(Head(206, {"Content-Length: 1", "ETag: \"a\""})).error().code,
            Code::kCorrupt);
}

}  // namespace
}  // namespace forebay
