#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>

#include "common/s3/list_parser.h"
#include "common/s3/response_checks.h"
#include "tests/fuzz/fuzz_targets.h"

namespace forebay {
namespace {

GetRequest RequestOf(unsigned flags) {
  GetRequest request;
  request.key = "k";
  request.etag = "abc-2";
  request.object_size = 10;
  request.length = (flags & 1U) != 0 ? 10 : 4;
  request.offset = (flags & 1U) != 0 ? 0 : 3;
  return request;
}

ResponseHead HeadOf(unsigned flags, std::string_view lines) {
  ResponseHead head;
  head.status = (flags & 2U) != 0 ? 206 : 200;
  while (!lines.empty()) {
    const std::size_t end = std::min(lines.find('\n'), lines.size());
    head.AddLine(lines.substr(0, end));
    lines.remove_prefix(std::min(end + 1, lines.size()));
  }
  return head;
}

std::string Seed(int flags, const std::string& lines) {
  return std::string(1, static_cast<char>(flags)) + lines;
}

}  // namespace

// What is taken for a range of an object is exactly the one that was asked for, of that version.
void RunHeadInput(std::string_view input) {
  if (input.empty()) return;
  const auto flags = static_cast<unsigned char>(input.front());
  const GetRequest request = RequestOf(flags);
  const ResponseHead head = HeadOf(flags, input.substr(1));
  const std::optional<ContentRange> range = ParseContentRange(head.content_range);
  Require(!range || (range->first <= range->last && range->last < range->size));
  const Status taken = CheckGetHead(head, request);
  if (taken) {
    const std::optional<std::uint64_t> length = head.content_length;
    Require(!head.contradicts && UnquotedETag(head.etag) == request.etag);
    Require(head.status == (WantsWholeObject(request) ? 200 : 206));
    Require(!length || *length == request.length);
    Require(head.status == 200 ? length.has_value() : range == ContentRange{3, 6, 10});
  } else {
    Require(taken.error().code == Code::kCorrupt || taken.error().code == Code::kStale);
  }
  const Result<ObjectHead> object = CheckHeadAnswer(head);
  if (object) {
    Require(object->mtime_s >= 0);
    Require(!object->etag.empty() && object->etag.size() <= 256);
  }
}

Seeds HeadSeeds() {
  const std::string etag = "ETag: \"abc-2\"\n";
  return {
      {"range", Seed(2, etag + "Content-Range: bytes 3-6/10\nContent-Length: 4\n")},
      {"whole", Seed(1, etag + "content-length: 10\nx-amz-request-id: R1\n")},
      {"other", Seed(2, "ETag: \"def\"\nContent-Range: bytes 3-6/10\n")},
      {"twice", Seed(1, etag + "Content-Length: 10\nContent-Length: 11\n")},
      {"too-far", Seed(2, etag + "Content-Range: bytes 3-10/10\n")},
      {"large", Seed(2, etag + "Content-Range: bytes 18446744073709551615-0/18446744073709551616")},
      {"head", Seed(0, etag + "Content-Length: 7\nLast-Modified: Wed, 12 Oct 2022 17:50:00 GMT\n"
                              "x-amz-storage-class: GLACIER\nx-amz-meta-file-permissions: 0100644\n"
                              "x-amz-checksum-crc64nvme: AAAAAAAAAAA=\n"
                              "x-amz-checksum-type: FULL_OBJECT\n")},
      {"redirect", Seed(0, "x-amz-bucket-region: eu-west-1\nLocation: http://other/\n")},
  };
}

}  // namespace forebay
