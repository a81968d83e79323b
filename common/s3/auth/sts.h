#pragma once

#include <stop_token>
#include <string>

#include "common/s3/aws_settings.h"
#include "common/s3/credentials.h"

namespace forebay {

/// How STS is reached.
struct StsPlace {
  std::string endpoint;  ///< "https://sts.eu-west-1.amazonaws.com".
  std::string region;    ///< Of the signature.
  std::string ca_bundle;
};

/// The endpoint set for the service "sts" (ConfiguredEndpoint), else AWS's own in the configured
/// region, else in us-east-1. AWS_USE_DUALSTACK_ENDPOINT and AWS_USE_FIPS_ENDPOINT count.
StsPlace StsPlaceOf(const AwsEnvironment& environment, const AwsProfile& profile,
                    std::string ca_bundle);

/// A role as a profile or the environment describes it.
struct RoleWish {
  std::string arn;
  std::string session_name;      ///< "" = "forebay".
  std::string external_id;       ///< "" = none.
  std::string duration_seconds;  ///< "" = as STS sees fit (one hour).
  std::string provider;          ///< Of the credentials that come out.
};

/// sts:AssumeRole, signed with `source`. Blocks.
CredentialAnswer AssumeRole(const StsPlace& place, const RoleWish& role,
                            const S3Credentials& source, std::stop_token stop);

/// sts:AssumeRoleWithWebIdentity: not signed, the token is the proof. The token file is read each
/// time, as its writer replaces it. Blocks.
CredentialAnswer AssumeRoleWithWebIdentity(const StsPlace& place, const RoleWish& role,
                                           const std::string& token_file, std::stop_token stop);

}  // namespace forebay
