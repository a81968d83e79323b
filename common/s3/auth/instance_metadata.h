#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>

#include "common/s3/aws_settings.h"
#include "common/s3/credentials.h"

namespace forebay {

/// The metadata service of an EC2 instance, version 2 alone: each answer needs a token that only a
/// PUT from the instance itself gets. Its place is AWS_EC2_METADATA_SERVICE_ENDPOINT, else the
/// profile's ec2_metadata_service_endpoint, else 169.254.169.254 or, where
/// AWS_EC2_METADATA_SERVICE_ENDPOINT_MODE is IPv6, fd00:ec2::254. AWS_EC2_METADATA_DISABLED=true
/// switches it off. AWS_METADATA_SERVICE_TIMEOUT (seconds, 1) bounds each request and
/// AWS_METADATA_SERVICE_NUM_ATTEMPTS (1) how often one is made. Thread-safe; blocks.
class InstanceMetadata {
 public:
  explicit InstanceMetadata(AwsEnvironment environment) : environment_(std::move(environment)) {}

  /// Those of the instance's role. kAbsent: switched off, no such service here, or no role. kAway:
  /// it fails, or has given keys before and now says nothing: only a machine where it never spoke
  /// counts as none of EC2's.
  CredentialAnswer Credentials(std::stop_token stop) const;

  /// The instance's region; nothing where there is no service.
  std::optional<std::string> Region(std::stop_token stop) const;

 private:
  class Session;
  AwsEnvironment environment_;
  // Keys; known to copies, too.
  std::shared_ptr<std::atomic<bool>> has_given_ = std::make_shared<std::atomic<bool>>(false);
};

}  // namespace forebay
