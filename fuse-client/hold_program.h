#pragma once

#include <string>
#include <vector>

namespace forebay {

/// `forebay-mount --hold SOCKET`: a Holder's life, in the foreground, until SIGTERM or SIGINT;
/// SIGHUP changes nothing. `words` are what follows --hold. Returns the exit code.
int RunHold(const std::vector<std::string>& words);

}  // namespace forebay
