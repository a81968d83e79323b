#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "common/base/result.h"
#include "common/s3/object_store.h"

namespace forebay {

/// The answer to `request` (ListObjectsV2). Everything is checked: that keys and prefixes begin
/// with the asked-for prefix, that a truncated page has a token, that it has no fewer keys than its
/// KeyCount says, which some servers leave out; kCorrupt says what is wrong. An object whose size,
/// ETag or date is no such thing, or whose key is longer than S3's, is one that cannot be read
/// (ListedObject::etag). The order of the keys is the caller's to check.
Result<ListPage> ParseListPage(std::string_view xml, const ListRequest& request);

/// The same from any XML, without the short way that ParseListPage takes through the usual form
/// (list_scanner.h): what that way must agree with.
Result<ListPage> ParseAnyListPage(std::string_view xml, const ListRequest& request);

/// The answer to `request` (ListObjectVersions). kCorrupt: it is no such list, names a key that the
/// request's does not begin, or is truncated without saying where to go on. A version without a
/// usable id, ETag or size is left out.
Result<VersionPage> ParseVersionPage(std::string_view xml, const VersionsRequest& request);

/// The body that S3 sends with an error. Empty members where the text is no such body. All but
/// `code` come from outside and are made printable and short.
struct S3ErrorBody {
  std::string code;     ///< "NoSuchKey".
  std::string message;  ///< For humans.
  std::string region;   ///< Where the bucket really is, with some redirects.
  std::string request_id;
};
S3ErrorBody ParseErrorBody(std::string_view text);

/// True when a body that came with 200 is an error body: S3 may find out after its first bytes.
bool IsErrorBody(std::string_view text);

/// An entity tag without its quotes. Nothing for what no S3 object has: a weak tag, an empty one,
/// blanks or control characters in it.
std::optional<std::string> UnquotedETag(std::string_view text);

/// `text` is decimal digits and nothing else, and fits.
std::optional<std::uint64_t> ParseDecimal(std::string_view text);

/// `bytes` for a message: what is not printable ASCII becomes \xNN, and what is behind the first
/// `most` bytes "…".
std::string Printable(std::string_view bytes, std::size_t most = 200);

}  // namespace forebay
