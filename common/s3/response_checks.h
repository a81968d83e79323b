#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "common/base/result.h"
#include "common/s3/object_checksum.h"
#include "common/s3/object_store.h"
#include "common/s3/posix_metadata.h"

namespace forebay {

/// Status and headers of an HTTP answer, as far as S3 uses them. "" or nothing = not sent.
struct ResponseHead {
  int status = 0;
  std::optional<std::uint64_t> content_length;
  std::string content_range;
  std::string etag;  ///< With its quotes.
  std::string last_modified;
  std::string storage_class;
  std::string bucket_region;
  std::string request_id;
  std::string content_type;
  std::string location;    ///< Of a redirect.
  FileMetadata file = {};  ///< Of x-amz-meta-file-*.
  /// Of the whole object: also in answers to a range. Composite ones of multipart uploads are not
  /// kept.
  std::optional<ObjectChecksum> checksum;
  bool has_composite_checksum = false;
  bool contradicts = false;  ///< A header came twice with different values, or is no number.

  /// Takes one header line, without its line end.
  void AddLine(std::string_view line);

 private:
  bool AddChecksum(std::string_view name, std::string_view value);
};

/// "bytes 0-9/100". Nothing for any other form, an unknown size, or a range outside of it.
struct ContentRange {
  std::uint64_t first = 0;
  std::uint64_t last = 0;
  std::uint64_t size = 0;
  bool operator==(const ContentRange&) const = default;
};
std::optional<ContentRange> ParseContentRange(std::string_view text);

/// True when `request` asks for the whole object: then no Range header is sent, and 200 is the
/// answer.
bool WantsWholeObject(const GetRequest& request);

/// Looks at a 2xx answer to a GET before any byte of its body is used. kStale: it is another
/// version of the object. kCorrupt: it is not what was asked for.
Status CheckGetHead(const ResponseHead& head, const GetRequest& request);

/// What a 200 answer to a HEAD says. kCorrupt when size or ETag are missing or impossible.
Result<ObjectHead> CheckHeadAnswer(const ResponseHead& head);

}  // namespace forebay
