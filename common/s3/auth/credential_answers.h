#pragma once

#include <string>
#include <string_view>

#include "common/s3/auth/http_fetch.h"
#include "common/s3/credentials.h"

namespace forebay {

/// How one of the JSON forms differs from the others.
struct JsonForm {
  std::string_view token_name;  ///< "Token" or "SessionToken".
  bool has_version = false;     ///< credential_process: "Version": 1 must be there.
};

/// {"AccessKeyId": …, "SecretAccessKey": …, "Token": …, "Expiration": …}, as container endpoints,
/// instance metadata and credential processes write it. kBroken says what is missing, and never
/// what the text says.
CredentialAnswer CredentialsFromJson(std::string_view text, const JsonForm& form,
                                     std::string provider);

/// The <Credentials> of an answer of STS.
CredentialAnswer CredentialsFromSts(std::string_view xml, std::string provider);

/// For an answer of STS that is no success: "AccessDenied (words)", or its status.
NoCredentials StsRefusal(const FetchReply& reply, std::string_view who);

/// Reads a small text file that holds a token, without the blanks around it.
std::expected<Secret, NoCredentials> ReadTokenFile(const std::string& path);

}  // namespace forebay
