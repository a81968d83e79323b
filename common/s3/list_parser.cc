#include "common/s3/list_parser.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <pugixml.hpp>

#include "common/model/key_rules.h"
#include "common/model/limits.h"
#include "common/s3/list_fields.h"
#include "common/s3/list_scanner.h"

namespace forebay {
namespace {

// MD5 and part count take 38; other stores use longer ones, none a longer than this.
constexpr std::size_t kMaxETagBytes = 256;
// "at most 1,024 bytes long" (Amazon S3 User Guide, "Working with object versions").
constexpr std::size_t kMaxVersionIdBytes = 1024;

std::unexpected<Error> Corrupt(const ListRequest& request, std::string_view what) {
  return Fail(Code::kCorrupt, fmt::format("the list of s3://{}/{} cannot be trusted: {}",
                                          request.origin.bucket, Printable(request.prefix), what));
}

std::unexpected<Error> Corrupt(const VersionsRequest& request, std::string_view what) {
  return Fail(Code::kCorrupt, fmt::format("the versions of s3://{}/{} cannot be trusted: {}",
                                          request.origin.bucket, Printable(request.key), what));
}

// The parts of one answer, one function for each.
class PageReader {
 public:
  PageReader(const ListRequest& request, const pugi::xml_node& root)
      : request_(request),
        root_(root),
        encoded_(std::string_view(root.child_value("EncodingType")) == "url") {}

  Result<ListPage> Read() {
    ListPage page;
    for (const pugi::xml_node node : root_.children("Contents")) {
      Result<ListedObject> object = Object(node);
      if (!object) return Fail(std::move(object.error()));
      page.objects.push_back(*std::move(object));
    }
    for (const pugi::xml_node node : root_.children("CommonPrefixes")) {
      Result<std::string> prefix = Name(node.child_value("Prefix"));
      if (!prefix) return Fail(std::move(prefix.error()));
      page.common_prefixes.push_back(*std::move(prefix));
    }
    if (page.objects.size() + page.common_prefixes.size() > request_.max_keys) {
      return Corrupt(request_, "it has more keys than were asked for");
    }
    if (request_.delimiter.empty() && !page.common_prefixes.empty()) {
      return Corrupt(request_, "it has common prefixes, which nobody asked for");
    }
    const std::string_view said = root_.child_value("KeyCount");
    if (!said.empty() && !IsWhole(page, said)) {
      return Corrupt(
          request_, fmt::format("its KeyCount is {}, and it has {} keys and {} prefixes",
                                Printable(said), page.objects.size(), page.common_prefixes.size()));
    }
    Result<std::string> next = Next();
    if (!next) return Fail(std::move(next.error()));
    page.next = *std::move(next);
    return page;
  }

 private:
  // AWS counts keys and common prefixes, as RGW does now; RGW once, SeaweedFS and Versity counted
  // the keys alone. What is more than the count is no loss.
  static bool IsWhole(const ListPage& page, std::string_view said) {
    const std::optional<std::uint64_t> count = ParseDecimal(said);
    return count && *count <= page.objects.size() + page.common_prefixes.size();
  }

  // A key or common prefix as raw bytes.
  Result<std::string> Name(std::string_view text) const {
    std::optional<std::string> name =
        encoded_ ? UrlDecoded(text) : std::optional<std::string>(text);
    if (!name) {
      return Corrupt(request_, fmt::format("'{}' is not URL-encoded", Printable(text)));
    }
    if (name->empty() || name->size() > kMaxListedKeyBytes) {
      return Corrupt(request_, fmt::format("a key of {} bytes", name->size()));
    }
    if (!name->starts_with(request_.prefix)) {
      return Corrupt(request_, fmt::format("'{}' is not below the prefix", Printable(*name)));
    }
    return *std::move(name);
  }

  Result<ListedObject> Object(const pugi::xml_node& node) const {
    Result<std::string> key = Name(node.child_value("Key"));
    if (!key) return Fail(std::move(key.error()));
    const std::optional<std::uint64_t> size = ParseDecimal(node.child_value("Size"));
    std::optional<std::string> etag = UnquotedETag(node.child_value("ETag"));
    const std::optional<std::int64_t> mtime = ParseIso8601(node.child_value("LastModified"));
    const bool readable = size && etag && mtime && key->size() <= kMaxKeyBytes;
    ListedObject object{.key = *std::move(key), .etag = {}, .storage_class = {}};
    // The rest of the listing is as good as ever.
    if (!readable) return object;
    object.size = *size;
    object.etag = *std::move(etag);
    object.mtime_s = *mtime;
    object.storage_class = node.child_value("StorageClass");
    return object;
  }

  Result<std::string> Next() const {
    const std::string_view truncated = root_.child_value("IsTruncated");
    std::string token = root_.child_value("NextContinuationToken");
    if (truncated == "false") return std::string();
    if (truncated != "true") {
      return Corrupt(request_, "it does not say whether it is complete");
    }
    if (token.empty()) return Corrupt(request_, "it is truncated and says not where to go on");
    if (token == request_.continuation) {
      return Corrupt(request_, "its next page is the page itself");
    }
    return token;
  }

  const ListRequest& request_;
  const pugi::xml_node root_;
  const bool encoded_;
};

/// It goes into a query, encoded; opaque beyond that.
bool IsVersionId(std::string_view text) {
  return !text.empty() && text.size() <= kMaxVersionIdBytes &&
         std::ranges::all_of(text, [](char c) { return c > ' ' && c < '\x7f'; });
}

/// One answer about the versions of one key. It begins with those of the key itself; longer keys
/// that begin with it come behind them.
class VersionReader {
 public:
  VersionReader(const VersionsRequest& request, const pugi::xml_node& root)
      : request_(request),
        root_(root),
        encoded_(std::string_view(root.child_value("EncodingType")) == "url") {}

  Result<VersionPage> Read() {
    VersionPage page;
    bool ended = false;  // a longer key was seen
    for (const pugi::xml_node node : root_.children()) {
      const std::string_view kind = node.name();
      if (kind != "Version" && kind != "DeleteMarker") continue;
      const std::string_view text = node.child_value("Key");
      const std::optional<std::string> key =
          encoded_ ? UrlDecoded(text) : std::optional<std::string>(text);
      if (!key || !key->starts_with(request_.key)) {
        return Corrupt(request_, fmt::format("it names '{}'", Printable(text)));
      }
      ended |= *key != request_.key;
      std::optional<KeptVersion> version = Version(node);
      if (kind == "Version" && *key == request_.key && version) {
        page.versions.push_back(*std::move(version));
      }
    }
    if (ended) return page;
    Result<std::string> next = Next();
    if (!next) return Fail(std::move(next.error()));
    page.next = *std::move(next);
    return page;
  }

 private:
  static std::optional<KeptVersion> Version(const pugi::xml_node& node) {
    const std::string_view id = node.child_value("VersionId");
    const std::optional<std::uint64_t> size = ParseDecimal(node.child_value("Size"));
    std::optional<std::string> etag = UnquotedETag(node.child_value("ETag"));
    if (!IsVersionId(id) || !size || *size > kMaxObjectBytes || !etag) return std::nullopt;
    return KeptVersion{.id = std::string(id), .size = *size, .etag = *std::move(etag)};
  }

  Result<std::string> Next() const {
    const std::string_view truncated = root_.child_value("IsTruncated");
    if (truncated == "false") return std::string();
    if (truncated != "true") {
      return Corrupt(request_, "it does not say whether it is complete");
    }
    const std::string_view marker = root_.child_value("NextVersionIdMarker");
    if (!IsVersionId(marker)) {
      return Corrupt(request_, "it is truncated and says not where to go on");
    }
    if (marker == request_.continuation) {
      return Corrupt(request_, "its next page is the page itself");
    }
    return std::string(marker);
  }

  const VersionsRequest& request_;
  const pugi::xml_node root_;
  const bool encoded_;
};

pugi::xml_parse_result Parse(pugi::xml_document& document, std::string_view text) {
  // A name of nothing but blanks is a name.
  constexpr unsigned kFlags = pugi::parse_default | pugi::parse_ws_pcdata_single;
  return document.load_buffer(text.data(), text.size(), kFlags, pugi::encoding_utf8);
}

/// What Reader makes of a document whose root is called `name`.
template <typename Reader, typename Request>
auto ReadDocument(std::string_view xml, std::string_view name, const Request& request)
    -> decltype(Reader(request, pugi::xml_node()).Read()) {
  if (xml.find('\0') != std::string_view::npos) return Corrupt(request, "NUL bytes in the XML");
  pugi::xml_document document;
  const pugi::xml_parse_result parsed = Parse(document, xml);
  if (!parsed) {
    return Corrupt(request, fmt::format("{} at byte {}", parsed.description(), parsed.offset));
  }
  const pugi::xml_node root = document.document_element();
  if (std::string_view(root.name()) != name) {
    return Corrupt(request, fmt::format("the answer is a <{}>", Printable(root.name())));
  }
  return Reader(request, root).Read();
}

}  // namespace

Result<ListPage> ParseListPage(std::string_view xml, const ListRequest& request) {
  if (std::optional<ListPage> page = ScanListPage(xml, request)) return *std::move(page);
  return ParseAnyListPage(xml, request);
}

Result<ListPage> ParseAnyListPage(std::string_view xml, const ListRequest& request) {
  return ReadDocument<PageReader>(xml, "ListBucketResult", request);
}

Result<VersionPage> ParseVersionPage(std::string_view xml, const VersionsRequest& request) {
  return ReadDocument<VersionReader>(xml, "ListVersionsResult", request);
}

S3ErrorBody ParseErrorBody(std::string_view text) {
  pugi::xml_document document;
  if (!Parse(document, text)) return {};
  const pugi::xml_node root = document.document_element();
  if (std::string_view(root.name()) != "Error") return {};
  return S3ErrorBody{.code = Printable(root.child_value("Code")),
                     .message = Printable(root.child_value("Message")),
                     .region = Printable(root.child_value("Region")),
                     .request_id = Printable(root.child_value("RequestId"))};
}

bool IsErrorBody(std::string_view text) { return !ParseErrorBody(text).code.empty(); }

std::optional<std::string> UnquotedETag(std::string_view text) {
  if (text.size() >= 2 && text.starts_with('"') && text.ends_with('"')) {
    text = text.substr(1, text.size() - 2);
  }
  const bool good = !text.empty() && text.size() <= kMaxETagBytes &&
                    std::ranges::all_of(text, [](char c) { return c > ' ' && c < '\x7f'; }) &&
                    text.find('"') == std::string_view::npos;
  if (!good) return std::nullopt;
  return std::string(text);
}

std::optional<std::uint64_t> ParseDecimal(std::string_view text) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::string Printable(std::string_view bytes, std::size_t most) {
  std::string text;
  for (const char c : bytes.substr(0, most)) {
    if (c >= ' ' && c < '\x7f') {
      text.push_back(c);
    } else {
      text += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
    }
  }
  if (bytes.size() > most) text += "…";
  return text;
}

}  // namespace forebay
