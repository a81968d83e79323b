#pragma once

#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/deadline.h"
#include "common/s3/aws_settings.h"
#include "common/s3/credentials.h"

namespace forebay {

/// The words of a command line: blanks part them, '…' and "…" keep them, a backslash outside of
/// '…' takes the next character as it is. Empty when a quote is not closed.
std::vector<std::string> SplitCommand(std::string_view command);

/// Runs a profile's credential_process, without a shell and with `environment`, and reads the JSON
/// that it prints ("Process credential provider", AWS SDKs and Tools Reference Guide). Its standard
/// error goes nowhere: it may hold secrets. Ends it, and what it started, after `patience` or when
/// `stop` is requested. Blocks.
CredentialAnswer RunCredentialProcess(const std::string& command, const std::string& provider,
                                      const AwsEnvironment& environment, Duration patience,
                                      std::stop_token stop);

}  // namespace forebay
