#pragma once

#include <chrono>
#include <string>
#include <string_view>
#include <vector>

#include "common/s3/credentials.h"

namespace forebay {

/// A header or a query parameter. The value is raw: nothing is encoded yet.
struct NameValue {
  std::string name;
  std::string value;

  bool operator==(const NameValue&) const = default;
};

/// What AWS Signature Version 4 covers ("Signature Calculations for the Authorization Header",
/// Amazon S3 API Reference). Every header given here is signed.
struct SigningRequest {
  std::string method;
  std::string path;  ///< Raw bytes, begins with '/'. Encoded once and otherwise kept: S3's rule.
  std::vector<NameValue> query;
  std::vector<NameValue> headers;  ///< With `host` and `x-amz-date`.
  std::string payload_hash;        ///< SHA-256 of the body as hex digits.
};

struct SigningScope {
  std::string region;
  std::string service;
  std::chrono::sys_seconds time;
};

/// SHA-256 of nothing: the payload of every GET and HEAD.
inline constexpr std::string_view kEmptyPayloadHash =
    "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

/// SHA-256 of a body as hex digits.
std::string PayloadHash(std::string_view body);

/// Percent-encodes every byte that is not unreserved (RFC 3986), with capital hex digits.
std::string UriEncode(std::string_view bytes, bool keep_slash);

/// The query as it is signed: encoded, sorted by name, then value. Used as the URL's query too, so
/// that what is sent is what was signed.
std::string CanonicalQuery(const std::vector<NameValue>& query);

/// "20130524T000000Z".
std::string AmzDate(std::chrono::sys_seconds time);

/// The value of the Authorization header.
std::string Authorization(const SigningRequest& request, const SigningScope& scope,
                          const S3Credentials& credentials);

/// The headers to send with a body-less S3 request: the given ones (with `host`), and the date,
/// payload hash, session token and Authorization that S3 asks for.
std::vector<NameValue> SignedS3Headers(SigningRequest request, const std::string& region,
                                       const S3Credentials& credentials,
                                       std::chrono::sys_seconds time);

}  // namespace forebay
