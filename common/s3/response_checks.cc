#include "common/s3/response_checks.h"

#include <curl/curl.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <utility>

#include "common/s3/list_parser.h"

namespace forebay {
namespace {

std::string_view Trim(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t')) text.remove_suffix(1);
  return text;
}

bool SameName(std::string_view a, std::string_view b) {
  return std::ranges::equal(
      a, b, {}, [](unsigned char c) { return std::tolower(c); },
      [](unsigned char c) { return std::tolower(c); });
}

std::string RangeText(const GetRequest& request) {
  return fmt::format("bytes {}-{}/{}", request.offset, request.offset + request.length - 1,
                     request.object_size);
}

std::unexpected<Error> Corrupt(std::string what) { return Fail(Code::kCorrupt, std::move(what)); }

}  // namespace

void ResponseHead::AddLine(std::string_view line) {
  const std::size_t colon = line.find(':');
  if (colon == std::string_view::npos) return;
  const std::string_view name = Trim(line.substr(0, colon));
  const std::string_view value = Trim(line.substr(colon + 1));
  if (SameName(name, "content-length")) {
    const std::optional<std::uint64_t> length = ParseDecimal(value);
    contradicts |= !length || (content_length && content_length != length);
    content_length = length;
    return;
  }
  if (SameName(name, "content-type")) content_type = value;
  const std::array<std::pair<std::string_view, std::string*>, 11> kept = {{
      {"content-range", &content_range},
      {"etag", &etag},
      {"last-modified", &last_modified},
      {"x-amz-storage-class", &storage_class},
      {"x-amz-bucket-region", &bucket_region},
      {"x-amz-request-id", &request_id},
      {"location", &location},
      {"x-amz-meta-file-permissions", &file.permissions},
      {"x-amz-meta-file-owner", &file.owner},
      {"x-amz-meta-file-group", &file.group},
      {"x-amz-meta-file-mtime", &file.mtime},
  }};
  if (AddChecksum(name, value)) return;
  for (const auto& [known, member] : kept) {
    if (!SameName(name, known)) continue;
    contradicts |= !member->empty() && *member != value;
    *member = value;
  }
}

bool ResponseHead::AddChecksum(std::string_view name, std::string_view value) {
  std::string lower(name);
  std::ranges::transform(lower, lower.begin(),
                         [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  if (lower == "x-amz-checksum-type") {
    has_composite_checksum |= SameName(value, "COMPOSITE");
    return true;
  }
  const std::optional<ObjectChecksum::Kind> kind = ChecksumOfHeader(lower);
  if (!kind) return false;
  const std::optional<ObjectChecksum> parsed = ParseChecksum(*kind, value);
  if (!parsed) has_composite_checksum = true;
  // Of several any one will do: they are of the same bytes.
  if (parsed && !checksum) checksum = parsed;
  return true;
}

std::optional<ContentRange> ParseContentRange(std::string_view text) {
  constexpr std::string_view kUnit = "bytes ";
  if (!text.starts_with(kUnit)) return std::nullopt;
  text.remove_prefix(kUnit.size());
  const std::size_t dash = text.find('-');
  const std::size_t slash = text.find('/');
  if (dash == std::string_view::npos || slash == std::string_view::npos || dash > slash) {
    return std::nullopt;
  }
  const auto first = ParseDecimal(text.substr(0, dash));
  const auto last = ParseDecimal(text.substr(dash + 1, slash - dash - 1));
  const auto size = ParseDecimal(text.substr(slash + 1));
  if (!first || !last || !size || *first > *last || *last >= *size) return std::nullopt;
  return ContentRange{*first, *last, *size};
}

bool WantsWholeObject(const GetRequest& request) {
  return request.offset == 0 && request.length == request.object_size;
}

Status CheckGetHead(const ResponseHead& head, const GetRequest& request) {
  if (head.contradicts) return Corrupt("the answer's headers contradict each other");
  const int expected_status = WantsWholeObject(request) ? 200 : 206;
  if (head.status != expected_status) {
    return Corrupt(
        fmt::format("the answer has status {} where {} was due", head.status, expected_status));
  }
  const std::optional<std::string> etag = UnquotedETag(head.etag);
  if (!etag) return Corrupt("the answer has no valid ETag");
  if (*etag != request.etag) {
    return Fail(Code::kStale, fmt::format("the object's ETag is now {} and not {}", *etag,
                                          Printable(request.etag)));
  }
  if (head.status == 206) {
    const ContentRange asked{request.offset, request.offset + request.length - 1,
                             request.object_size};
    if (ParseContentRange(head.content_range) != asked) {
      return Corrupt(fmt::format("the answer is '{}' where '{}' was asked for",
                                 Printable(head.content_range), RangeText(request)));
    }
  } else if (!head.content_length) {
    return Corrupt("the answer does not say how long it is");
  }
  if (head.content_length && *head.content_length != request.length) {
    return Corrupt(fmt::format("the answer has {} bytes where {} were asked for",
                               *head.content_length, request.length));
  }
  return {};
}

Result<ObjectHead> CheckHeadAnswer(const ResponseHead& head) {
  if (head.contradicts) return Corrupt("the answer's headers contradict each other");
  if (head.status != 200) {
    return Corrupt(fmt::format("the answer has status {} where 200 was due", head.status));
  }
  if (!head.content_length) return Corrupt("the answer has no valid size");
  std::optional<std::string> etag = UnquotedETag(head.etag);
  if (!etag) return Corrupt("the answer has no valid ETag");
  std::int64_t mtime = 0;  // not every store says it
  if (!head.last_modified.empty()) {
    mtime = static_cast<std::int64_t>(::curl_getdate(head.last_modified.c_str(), nullptr));
    if (mtime < 0) return Corrupt("the answer has no valid date");
  }
  ObjectHead object{.size = *head.content_length,
                    .etag = *std::move(etag),
                    .mtime_s = mtime,
                    .storage_class = head.storage_class};
  // Some stores say that they are composite, and some only by the form of the value.
  if (!head.has_composite_checksum) object.checksum = head.checksum;
  object.posix = ParsePosixMetadata(head.file);
  return object;
}

}  // namespace forebay
