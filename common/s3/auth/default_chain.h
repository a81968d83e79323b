#pragma once

#include <string>

#include "common/s3/aws_settings.h"
#include "common/s3/credentials.h"

namespace forebay {

/// The places that S3 credentials come from, in order: the environment; the shared config and
/// credentials files (ProfileCredentials); web identity (AWS_WEB_IDENTITY_TOKEN_FILE with
/// AWS_ROLE_ARN); the container's endpoint; instance metadata. A link that names a profile gets
/// that profile's alone. `ca_bundle`, as CaBundleOf's `given`, is for those asked over https.
CredentialChain DefaultCredentialChain(const AwsEnvironment& environment,
                                       const std::string& ca_bundle);

}  // namespace forebay
