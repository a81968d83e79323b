#pragma once

#include <optional>
#include <stop_token>
#include <string>

#include "common/model/link.h"
#include "common/s3/aws_settings.h"
#include "common/s3/endpoint.h"

namespace forebay {

/// Where the bucket says that it is: x-amz-bucket-region of a HEAD without a signature, which S3
/// sends with a 200, 301, 400 and 403 alike. Nothing when no answer says so. Blocks.
std::optional<std::string> BucketRegion(const LinkOrigin& origin, const std::string& ca_bundle,
                                        std::stop_token stop);

/// For CompleteOrigin: the instance metadata and the bucket itself. `ca_bundle` as CaBundleOf's
/// `given`.
RegionSources NetworkRegionSources(const AwsEnvironment& environment, const std::string& ca_bundle);

}  // namespace forebay
