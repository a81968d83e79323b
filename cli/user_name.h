#pragma once

#include <string>

namespace forebay {

/// Of the user who runs this program; "" when the system does not know him.
std::string UserName();

}  // namespace forebay
