#pragma once

#include <chrono>
#include <stop_token>
#include <string>
#include <vector>

#include "common/base/deadline.h"
#include "common/base/result.h"
#include "common/base/secret.h"

namespace forebay {

/// A small request to a service that hands out credentials or says where a bucket is.
struct FetchRequest {
  std::string method = "GET";
  std::string url;
  std::vector<std::string> headers;  ///< "name: value"
  Secret secret_header;              ///< One more, which holds a token; empty = none.
  std::string body;                  ///< Of a POST.
  Duration connect_timeout = std::chrono::seconds(2);
  Duration timeout = std::chrono::seconds(5);  ///< Of the whole exchange.
  bool direct = false;                         ///< Never through a proxy.
  std::string ca_bundle;                       ///< "" = the system's.
};

struct FetchReply {
  int status = 0;
  std::string body;
  std::string bucket_region;  ///< x-amz-bucket-region; "" = not sent.
};

/// One attempt; blocks. Redirects are not followed: they are answers. kUnavailable when no whole
/// answer came, or `stop` was requested; kInvalid when none ever will (a bad URL, a certificate
/// that is not trusted, an answer over 1 MiB). Messages name host and reason, never headers or
/// bodies.
Result<FetchReply> Fetch(const FetchRequest& request, std::stop_token stop);

}  // namespace forebay
