#pragma once

#include <string_view>

#include "common/base/result.h"

namespace forebay {

/// The errno that a system call on the mount answers for a failure. What a user can do something
/// about is in the message, which goes to the log and to `.forebay/errors`; the errno only has to
/// be one that programs expect of that call.
int ErrnoOf(Code code);

/// "EIO" for 5, "OK" for 0, "other" for a number without a name: a label of bounded variety.
std::string_view ErrnoName(int number);

}  // namespace forebay
