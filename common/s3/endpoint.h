#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "common/base/result.h"
#include "common/model/link.h"
#include "common/s3/aws_settings.h"

namespace forebay {

/// The parts of "https://host:port/base".
struct Endpoint {
  std::string scheme;     ///< "http" or "https".
  std::string authority;  ///< Host and, where it is not the scheme's default, port: "[::1]:7480".
  std::string host;       ///< Without port and brackets.
  std::string base_path;  ///< "" or "/storage/v1/s3": never ends with '/'.

  bool IsLoopback() const;   ///< This machine: never through a proxy.
  bool IsIpAddress() const;  ///< No bucket can be put in front of it.
  bool IsAmazon() const;     ///< One of AWS's own.
};

/// kInvalid says what is wrong with the text. User names, queries and fragments are refused.
Result<Endpoint> ParseEndpoint(std::string_view text);

/// Fills in what a link's origin leaves open, so that every node reaches the same place whatever
/// its own environment says:
///   region    as given, else AWS_REGION, AWS_DEFAULT_REGION, the profile's, "us-east-1";
///   endpoint  as given, else AWS_ENDPOINT_URL_S3, AWS_ENDPOINT_URL, the profile's (its S3 service
///             section first), "https://s3.<region>.amazonaws.com"; normalised;
///   style     as given, else by path where the endpoint is not AWS's own or the bucket cannot be a
///             host name below AWS's certificate; by host elsewhere.
/// kInvalid when one of them cannot be used, or the files cannot be read. Blocks on the disk.
Result<LinkOrigin> CompleteOrigin(LinkOrigin partial, std::optional<bool> path_style,
                                  const AwsEnvironment& environment);

}  // namespace forebay
