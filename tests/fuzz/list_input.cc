#include <string>

#include "common/model/key_rules.h"
#include "common/model/limits.h"
#include "common/s3/list_parser.h"
#include "common/s3/list_scanner.h"
#include "common/s3/s3_request.h"
#include "tests/fuzz/fuzz_targets.h"

namespace forebay {
namespace {

ListRequest RequestOf(unsigned flags) {
  ListRequest request;
  request.origin.bucket = "bucket";
  if ((flags & 1) != 0) request.prefix = "p/";
  if ((flags & 2) != 0) request.delimiter = "/";
  if ((flags & 4) != 0) request.continuation = "token";
  request.max_keys = (flags & 8) != 0 ? 2 : 1000;
  return request;
}

bool Same(const ListedObject& a, const ListedObject& b) {
  return a.key == b.key && a.size == b.size && a.etag == b.etag && a.mtime_s == b.mtime_s &&
         a.storage_class == b.storage_class;
}

/// What every page keeps, whichever way it was read.
void RequireRules(const ListPage& page, const ListRequest& request) {
  Require(page.objects.size() + page.common_prefixes.size() <= request.max_keys);
  Require(page.next.empty() || page.next != request.continuation);
  for (const ListedObject& object : page.objects) {
    Require(!object.key.empty() && object.key.size() <= kMaxListedKeyBytes);
    Require(object.key.starts_with(request.prefix));
    Require(object.etag.size() <= 256);
    Require(object.etag.empty() ? object.size == 0 : object.key.size() <= kMaxKeyBytes);
  }
}

std::size_t Count(const std::string& text, std::string_view what) {
  std::size_t count = 0;
  for (std::size_t at = 0; (at = text.find(what, at)) != std::string::npos; ++at) ++count;
  return count;
}

std::string Seed(int flags, const std::string& inside, const std::string& truncated = "false") {
  const std::size_t keys = Count(inside, "<Contents>") + Count(inside, "<CommonPrefixes>");
  return std::string(1, static_cast<char>(flags)) +
         "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
         "<ListBucketResult xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\"><Name>bucket</Name>"
         "<Prefix>p/</Prefix><KeyCount>" +
         std::to_string(keys) +
         "</KeyCount><MaxKeys>1000</MaxKeys>"
         "<EncodingType>url</EncodingType><IsTruncated>" +
         truncated + "</IsTruncated>" + inside + "</ListBucketResult>\n";
}

std::string Object(const std::string& key, const std::string& more = "") {
  return "<Contents><Key>" + key +
         "</Key><LastModified>2009-10-12T17:50:30.000Z</LastModified>"
         "<ETag>&quot;d41d8cd98f00b204e9800998ecf8427e-2&quot;</ETag><Size>5</Size>"
         "<StorageClass>STANDARD</StorageClass>" +
         more + "</Contents>";
}

VersionsRequest VersionsRequestOf(unsigned flags) {
  VersionsRequest request;
  request.origin.bucket = "bucket";
  request.key = (flags & 1) != 0 ? "p/a" : "k";
  if ((flags & 2) != 0) request.continuation = "v1";
  return request;
}

std::string VersionsSeed(int flags, const std::string& inside,
                         const std::string& truncated = "false") {
  return std::string(1, static_cast<char>(flags)) +
         "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
         "<ListVersionsResult xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">"
         "<EncodingType>url</EncodingType><IsTruncated>" +
         truncated + "</IsTruncated>" + inside + "</ListVersionsResult>\n";
}

std::string Version(const std::string& key, const std::string& id) {
  return "<Version><Key>" + key + "</Key><VersionId>" + id +
         "</VersionId><ETag>&quot;d41d8cd98f00b204e9800998ecf8427e&quot;</ETag><Size>5</Size>"
         "</Version>";
}

}  // namespace

// The scanner reads nothing, or what the general parser reads.
void RunListInput(std::string_view input) {
  if (input.empty()) return;
  const ListRequest request = RequestOf(static_cast<unsigned char>(input.front()));
  const std::string_view xml = input.substr(1);
  const Result<ListPage> general = ParseAnyListPage(xml, request);
  if (general) RequireRules(*general, request);
  if (const auto page = ScanListPage(xml, request)) {
    Require(general.has_value() && page->next == general->next);
    Require(page->common_prefixes == general->common_prefixes);
    Require(page->objects.size() == general->objects.size());
    for (std::size_t i = 0; i < page->objects.size(); ++i) {
      Require(Same(page->objects[i], general->objects[i]));
    }
  }
  const S3ErrorBody error = ParseErrorBody(xml);
  Require(IsErrorBody(xml) == !error.code.empty());
}

void RunVersionsInput(std::string_view input) {
  if (input.empty()) return;
  const VersionsRequest request = VersionsRequestOf(static_cast<unsigned char>(input.front()));
  const Result<VersionPage> page = ParseVersionPage(input.substr(1), request);
  if (!page) return;
  Require(page->next.size() <= 1024 && (page->next.empty() || page->next != request.continuation));
  for (const KeptVersion& version : page->versions) {
    Require(!version.id.empty() && version.id.size() <= 1024);
    Require(UnquotedETag(version.etag) == version.etag && version.size <= kMaxObjectBytes);
    GetRequest get;
    get.origin = request.origin;
    get.origin.endpoint = "http://127.0.0.1:1";
    get.key = request.key;
    get.etag = version.etag;
    get.version = version.id;
    get.object_size = get.length = 1;
    Require(GetObjectRequest(get).has_value());
  }
}

Seeds VersionsSeeds() {
  const std::string marker =
      "<DeleteMarker><Key>k</Key><VersionId>v3</VersionId><IsLatest>true</IsLatest></DeleteMarker>";
  const std::string next =
      "<NextKeyMarker>k</NextKeyMarker><NextVersionIdMarker>v2</NextVersionIdMarker>";
  return {
      {"versions", VersionsSeed(0, marker + Version("k", "v2") + Version("k", "null"))},
      {"next", VersionsSeed(2, next + Version("k", "v2"), "true")},
      {"longer-key", VersionsSeed(1, Version("p%2Fa", "v1") + Version("p%2Fa+b", "v1"))},
      {"no-id", VersionsSeed(0, Version("k", ""))},
      {"empty", VersionsSeed(0, "")},
  };
}

Seeds ListSeeds() {
  const std::string token = "<NextContinuationToken>1/x==</NextContinuationToken>";
  return {
      {"objects", Seed(1, Object("p/a%2Fb+c") + Object("p/%FF") + Object("p/c"))},
      {"two-of-two", Seed(9, Object("p/1") + Object("p/2"))},
      {"too-many", Seed(9, Object("p/1") + Object("p/2") + Object("p/3"))},
      {"next", Seed(1, token + Object("p/a"), "true")},
      {"prefixes", Seed(3, "<CommonPrefixes><Prefix>p/d%2F</Prefix></CommonPrefixes>")},
      {"members", Seed(0, Object("k",
                                 "<ChecksumAlgorithm>CRC32</ChecksumAlgorithm>"
                                 "<Owner><ID>1</ID></Owner>"))},
      {"long-key", Seed(0, Object(std::string(kMaxKeyBytes, 'k')))},
      {"too-long-a-key", Seed(0, Object(std::string(kMaxKeyBytes + 1, 'k')))},
      {"counted-twice", Seed(0, "<KeyCount>2</KeyCount>" + Object("k"))},
      {"miscounted", std::string(1, '\0') + "<ListBucketResult><IsTruncated>false</IsTruncated>" +
                         Object("k") + "<KeyCount>2</KeyCount></ListBucketResult>"},
      {"empty", Seed(0, "")},
      {"no-date", Seed(0,
                       "<Contents><Key>k</Key><LastModified></LastModified><ETag>a</ETag>"
                       "<Size>1</Size></Contents>")},
      {"cdata", Seed(0, Object("<![CDATA[k]]>") + "<!-- note -->")},
      {"error",
       std::string(1, '\0') +
           "<Error><Code>NoSuchKey</Code><Message>none</Message><Region>x</Region></Error>"},
  };
}

}  // namespace forebay
