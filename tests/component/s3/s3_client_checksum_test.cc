// What S3 has of the bytes that were uploaded is compared with those that came.
#include <gmock/gmock.h>

#include <atomic>

#include "common/s3/object_checksum.h"
#include "tests/component/s3/s3_fixture.h"

namespace forebay {
namespace {

using fakes::S3Answer;
using fakes::S3RequestSeen;
using testing::AllOf;
using testing::HasSubstr;

constexpr const char* kModeHeader = "x-amz-checksum-mode";

class S3ClientChecksumTest : public S3ClientTest, public testing::WithParamInterface<const char*> {
 protected:
  /// Stores `body` with its checksum of this kind, or with that of `uploaded`.
  GetRequest StoredWith(const std::string& header, const std::string& body,
                        const std::string& uploaded) {
    GetRequest request = Stored("k", body, 0, body.size());
    request.etag = server_.PutWithHeaders("data", "k", body, {{header, TextOf(header, uploaded)}});
    return request;
  }
  static std::string TextOf(const std::string& header, const std::string& body) {
    const auto sum = BeginChecksum(*ChecksumOfHeader(header));
    sum->Update({reinterpret_cast<const std::byte*>(body.data()), body.size()});
    return ChecksumText(sum->Finish());
  }
  std::uint64_t Matched() { return Client().counters().checksums.matched.load(); }
  std::uint64_t Differed() { return Client().counters().checksums.differed.load(); }
};

TEST_P(S3ClientChecksumTest, AWholeObjectIsComparedWithWhatWasUploaded) {
  const std::string body = Bytes(300'000);
  const GetRequest request = StoredWith(GetParam(), body, body);
  TextSink sink;
  ASSERT_TRUE(Get(request, sink));
  EXPECT_TRUE(sink.text == body);
  EXPECT_EQ(sink.held_back, 1) << "nothing of it is served before it has been compared";
  EXPECT_EQ(server_.requests().at(0).Header(kModeHeader), "ENABLED");
  EXPECT_EQ(Matched(), 1U);
  const Result<ObjectHead> head = Head("k");
  ASSERT_TRUE(head);
  ASSERT_TRUE(head->checksum);
  EXPECT_EQ(ChecksumText(*head->checksum), TextOf(GetParam(), body));
}

TEST_P(S3ClientChecksumTest, ABitThatFlippedOnItsWayIsFetchedAgain) {
  const std::string body = Bytes(300'000);
  const GetRequest request = StoredWith(GetParam(), body, body);
  std::atomic<bool> first{true};
  server_.SetHandler([&](const S3RequestSeen& seen) -> std::optional<S3Answer> {
    if (!first.exchange(false)) return std::nullopt;
    S3Answer answer = server_.Truth(seen);
    answer.body[123'456] = static_cast<char>(answer.body[123'456] ^ 1);
    return answer;
  });
  TextSink sink;
  ASSERT_TRUE(Get(request, sink));
  EXPECT_TRUE(sink.text == body);
  EXPECT_EQ(stats_.attempts, 2U);
  EXPECT_EQ(Matched(), 1U);
  EXPECT_EQ(Differed(), 1U);
  EXPECT_EQ(Retries(RetryReason::kBadAnswer), 1U);
}

INSTANTIATE_TEST_SUITE_P(Kinds, S3ClientChecksumTest,
                         testing::Values("x-amz-checksum-crc32", "x-amz-checksum-crc32c",
                                         "x-amz-checksum-crc64nvme", "x-amz-checksum-sha1",
                                         "x-amz-checksum-sha256"),
                         [](const auto& tested) {
                           return std::string(ChecksumName(*ChecksumOfHeader(tested.param)));
                         });

TEST_F(S3ClientChecksumTest, AnObjectThatStaysAnotherOneIsCorruptAndNamesBoth) {
  const GetRequest request = StoredWith("x-amz-checksum-crc32c", "hello world", "hello earth");
  TextSink sink;
  const Status status = Get(request, sink);
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code, Code::kCorrupt);
  EXPECT_THAT(status.error().message,
              AllOf(HasSubstr("CRC32C is yZRlqg== where"),
                    HasSubstr(TextOf("x-amz-checksum-crc32c", "hello earth"))));
  EXPECT_EQ(stats_.attempts, 3U);
  EXPECT_EQ(Differed(), 3U);
}

TEST_F(S3ClientChecksumTest, ARangeIsNotAskedForOneAndACompositeOneIsNotCompared) {
  const std::string body = Bytes(1000);
  GetRequest request = StoredWith("x-amz-checksum-crc32c", body, "another");
  request.length = 500;
  TextSink sink;
  ASSERT_TRUE(Get(request, sink));
  EXPECT_EQ(server_.requests().at(0).Header(kModeHeader), "");
  request.length = 1000;
  request.etag =
      server_.PutWithHeaders("data", "k", body, {{"x-amz-checksum-crc32c", "yZRlqg==-3"}});
  ASSERT_TRUE(Get(request, sink));
  // Some stores leave the number of parts out and say it in a header alone.
  request.etag = server_.PutWithHeaders(
      "data", "k", body,
      {{"x-amz-checksum-crc32c", "yZRlqg=="}, {"x-amz-checksum-type", "COMPOSITE"}});
  ASSERT_TRUE(Get(request, sink));
  const Result<ObjectHead> head = Head("k");
  ASSERT_TRUE(head);
  EXPECT_FALSE(head->checksum);
  EXPECT_EQ(sink.held_back, 0);
  EXPECT_EQ(Matched() + Differed(), 0U);
}

}  // namespace
}  // namespace forebay
