#pragma once

#include <stop_token>
#include <string>

#include "common/s3/aws_settings.h"
#include "common/s3/credentials.h"

namespace forebay {

/// Where the container's credentials are served, by AWS_CONTAINER_CREDENTIALS_RELATIVE_URI (below
/// http://169.254.170.2), else AWS_CONTAINER_CREDENTIALS_FULL_URI. Plain http is accepted to this
/// machine and to the addresses of ECS and EKS alone, or the token could leave it ("Container
/// credential provider", AWS SDKs and Tools Reference Guide). kAbsent when neither is set.
std::expected<std::string, NoCredentials> ContainerCredentialsUrl(
    const AwsEnvironment& environment);

/// Asks there (ECS tasks, EKS Pod Identity), with the token of
/// AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE, read each time, else of
/// AWS_CONTAINER_AUTHORIZATION_TOKEN. Blocks.
CredentialAnswer AskContainerEndpoint(const AwsEnvironment& environment,
                                      const std::string& ca_bundle, std::stop_token stop);

}  // namespace forebay
