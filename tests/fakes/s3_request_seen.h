#pragma once

#include <map>
#include <string>
#include <string_view>

namespace forebay::fakes {

/// One request as the scripted S3 read it.
struct S3RequestSeen {
  std::string method;
  std::string target;                          ///< As sent: "/bucket/a%20b?list-type=2".
  std::string bucket;                          ///< Decoded.
  std::string key;                             ///< Decoded; "" for the bucket itself.
  std::map<std::string, std::string> query;    ///< Decoded.
  std::map<std::string, std::string> headers;  ///< Names in lower case.
  std::string body;                            ///< As sent.

  std::string Header(const std::string& name) const;
};

/// Of everything before the blank line; without the body.
S3RequestSeen ParseS3Request(std::string_view head);

}  // namespace forebay::fakes
