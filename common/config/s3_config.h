#pragma once

#include <chrono>
#include <cstddef>
#include <string>

namespace forebay {

struct ConfigSection;

/// How coordinator and nodes reach S3, [s3] in the file; credentials, region and endpoint come from
/// the environment's standard AWS settings and from each link. What each means is in S3Section
/// (s3_config.cc) and docs/CONFIGURATION.md.
struct S3Config {
  std::string ca_bundle;  ///< "" = CaBundleOf (common/s3/aws_settings.h).
  std::size_t max_connections = 256;
  std::chrono::milliseconds first_byte_timeout = std::chrono::seconds(5);
  std::chrono::milliseconds stall_timeout = std::chrono::seconds(5);
};

/// The table of the members of `config`, which must outlive it.
ConfigSection S3Section(S3Config& config);

}  // namespace forebay
