#pragma once

#include <functional>
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
  bool IsAmazon() const;     ///< Below a domain of one of AWS's partitions.
};

/// kInvalid says what is wrong with the text. User names, queries and fragments are refused.
Result<Endpoint> ParseEndpoint(std::string_view text);

/// Regions become part of a host name and of a signature's scope; other stores make up their own.
bool IsRegion(std::string_view text);

/// Which of AWS's endpoints for a region is wanted.
struct EndpointVariant {
  bool dual_stack = false;  ///< IPv6 too: AWS_USE_DUALSTACK_ENDPOINT, else use_dualstack_endpoint.
  bool fips = false;        ///< AWS_USE_FIPS_ENDPOINT, else use_fips_endpoint.
};
EndpointVariant EndpointVariantOf(const AwsEnvironment& environment, const AwsProfile& profile);

/// AWS's own endpoint of a service ("s3", "sts") in a region, by the domain of its partition.
std::string AwsEndpoint(std::string_view service, std::string_view region, EndpointVariant variant);

/// Who else may know a region. Each answers nothing when it does not, and may block on the network.
struct RegionSources {
  std::function<std::optional<std::string>()> instance;
  std::function<std::optional<std::string>(const LinkOrigin&)> bucket;
};

/// Fills in what a link's origin leaves open, so that every node reaches the same place whatever
/// its own environment says:
///   region    as given, else AWS_REGION, AWS_DEFAULT_REGION, the profile's, the instance's, the
///             bucket's own, "us-east-1". On endpoints of AWS's domains a bucket that says it lies
///             elsewhere is believed: there is no other way to read it. A given region stands;
///   endpoint  as given, else as set for the service s3 (ConfiguredEndpoint), else AWS's own in the
///             region; normalised;
///   style     as given, else the profile's s3.addressing_style, else by path where the endpoint is
///             not AWS's own or the bucket cannot be a host name below AWS's certificate; by host
///             elsewhere.
/// kInvalid when one of them cannot be used, or the files cannot be read, and for what is no plain
/// bucket: directory buckets (S3 Express) and access points by ARN. Blocks on disk and network.
Result<LinkOrigin> CompleteOrigin(LinkOrigin partial, std::optional<bool> path_style,
                                  const AwsEnvironment& environment, const RegionSources& sources);

}  // namespace forebay
