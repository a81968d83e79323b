#pragma once

#include <string>
#include <string_view>

#include "common/base/result.h"

namespace forebay {

// RFC 4648, section 4: the alphabet with '+' and '/', padded with '='.

std::string Base64Encode(std::string_view bytes);

/// kInvalid for anything that Base64Encode would not write.
Result<std::string> Base64Decode(std::string_view text);

}  // namespace forebay
