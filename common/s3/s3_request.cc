#include "common/s3/s3_request.h"

#include <fmt/format.h>

#include "common/model/limits.h"
#include "common/s3/endpoint.h"
#include "common/s3/list_parser.h"
#include "common/s3/response_checks.h"

namespace forebay {
namespace {

// `name` is a key, or "" for the bucket itself.
Result<S3Request> Address(const LinkOrigin& origin, std::string method, std::string_view name) {
  Result<Endpoint> endpoint = ParseEndpoint(origin.endpoint);
  if (!endpoint) return Fail(std::move(endpoint.error()));
  if (origin.bucket.empty()) return Fail(Code::kInvalid, "an S3 request needs a bucket");
  S3Request request;
  request.scheme = endpoint->scheme;
  request.loopback = endpoint->IsLoopback();
  request.region = origin.region;
  request.content.method = std::move(method);
  request.content.path = endpoint->base_path;
  if (origin.path_style) {
    request.host = endpoint->authority;
    request.content.path += "/" + origin.bucket;
  } else {
    request.host = origin.bucket + "." + endpoint->authority;
  }
  if (!name.empty() || !origin.path_style) request.content.path.append("/").append(name);
  request.content.headers.push_back({"host", request.host});
  if (origin.requester_pays)
    request.content.headers.push_back({"x-amz-request-payer", "requester"});
  if (!origin.expected_owner.empty()) {
    request.content.headers.push_back({"x-amz-expected-bucket-owner", origin.expected_owner});
  }
  return request;
}

}  // namespace

Result<S3Request> GetObjectRequest(const GetRequest& request) {
  if (request.key.empty()) return Fail(Code::kInvalid, "a GET needs a key");
  if (request.length == 0 || request.object_size > kMaxObjectBytes ||
      request.offset > request.object_size ||
      request.length > request.object_size - request.offset) {
    return Fail(Code::kInvalid, fmt::format("{} bytes at {} are no range of an object of {} bytes",
                                            request.length, request.offset, request.object_size));
  }
  // Also keeps line ends out of the If-Match header.
  if (UnquotedETag(request.etag) != request.etag) {
    return Fail(Code::kInvalid, fmt::format("'{}' is no ETag", Printable(request.etag)));
  }
  Result<S3Request> built = Address(request.origin, "GET", request.key);
  if (!built) return built;
  if (!request.version.empty()) built->content.query.push_back({"versionId", request.version});
  built->content.headers.push_back({"if-match", fmt::format("\"{}\"", request.etag)});
  if (WantsWholeObject(request)) {
    // Of a range S3 answers that of a part, where it fits one.
    built->content.headers.push_back({"x-amz-checksum-mode", "ENABLED"});
  } else {
    built->content.headers.push_back(
        {"range", fmt::format("bytes={}-{}", request.offset, request.offset + request.length - 1)});
  }
  return built;
}

Result<S3Request> ListObjectsRequest(const ListRequest& request) {
  Result<S3Request> built = Address(request.origin, "GET", "");
  if (!built) return built;
  std::vector<NameValue>& query = built->content.query;
  query.push_back({"list-type", "2"});
  query.push_back({"encoding-type", "url"});  // XML cannot hold every byte that a key can
  query.push_back({"max-keys", std::to_string(request.max_keys)});
  query.push_back({"prefix", request.prefix});
  if (!request.delimiter.empty()) query.push_back({"delimiter", request.delimiter});
  if (!request.continuation.empty()) {
    query.push_back({"continuation-token", request.continuation});
  } else if (!request.start_after.empty()) {
    query.push_back({"start-after", request.start_after});
  }
  return built;
}

Result<S3Request> ListVersionsRequest(const VersionsRequest& request) {
  if (request.key.empty()) return Fail(Code::kInvalid, "a list of versions needs a key");
  Result<S3Request> built = Address(request.origin, "GET", "");
  if (!built) return built;
  std::vector<NameValue>& query = built->content.query;
  query.push_back({"versions", ""});
  query.push_back({"encoding-type", "url"});
  query.push_back({"prefix", request.key});
  if (!request.continuation.empty()) {
    query.push_back({"key-marker", request.key});
    query.push_back({"version-id-marker", request.continuation});
  }
  return built;
}

Result<S3Request> HeadObjectRequest(const HeadRequest& request) {
  if (request.key.empty()) return Fail(Code::kInvalid, "a HEAD needs a key");
  Result<S3Request> built = Address(request.origin, "HEAD", request.key);
  if (!built) return built;
  if (!request.version.empty()) built->content.query.push_back({"versionId", request.version});
  built->content.headers.push_back({"x-amz-checksum-mode", "ENABLED"});
  return built;
}

HttpRequest SignedRequest(const S3Request& request, const S3Credentials* credentials,
                          std::chrono::sys_seconds now) {
  const std::string query = CanonicalQuery(request.content.query);
  HttpRequest http;
  http.head_only = request.content.method == "HEAD";
  http.loopback = request.loopback;
  http.url = fmt::format("{}://{}{}{}{}", request.scheme, request.host,
                         UriEncode(request.content.path, true), query.empty() ? "" : "?", query);
  const std::vector<NameValue> headers =
      credentials == nullptr ? request.content.headers
                             : SignedS3Headers(request.content, request.region, *credentials, now);
  for (const NameValue& header : headers) {
    http.headers.push_back(fmt::format("{}: {}", header.name, header.value));
  }
  return http;
}

}  // namespace forebay
