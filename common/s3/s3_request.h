#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "common/base/result.h"
#include "common/s3/credentials.h"
#include "common/s3/curl_engine.h"
#include "common/s3/object_store.h"
#include "common/s3/sigv4.h"

namespace forebay {

/// A request to S3 before it is signed: the same for every attempt.
struct S3Request {
  std::string scheme;
  std::string host;  ///< With the port where it is not the scheme's own; with the bucket in
                     ///< virtual-host style.
  bool loopback = false;
  std::string region;
  SigningRequest content;
};

/// kInvalid when the origin's endpoint, the ETag or the range cannot be used.
Result<S3Request> GetObjectRequest(const GetRequest& request);
Result<S3Request> ListObjectsRequest(const ListRequest& request);
Result<S3Request> ListVersionsRequest(const VersionsRequest& request);
Result<S3Request> HeadObjectRequest(const HeadRequest& request);

/// The request for one attempt, signed for `now`; anonymous when `credentials` is null.
HttpRequest SignedRequest(const S3Request& request, const S3Credentials* credentials,
                          std::chrono::sys_seconds now);

}  // namespace forebay
