#pragma once

#include <string>
#include <vector>

#include "common/base/result.h"

namespace forebay {

/// A command line in the words of forebay-mount.
struct MountArguments {
  std::vector<std::string> arguments;
  std::vector<std::string> warnings;  ///< What was ignored although it may matter.
  bool fake = false;                  ///< `mount -f`: check, and do nothing.
};

/// Translates how mount(8) calls a helper, `mount.forebay SOURCE MOUNTPOINT [-sfnv] [-o OPTIONS]`,
/// with SOURCE = [HOST:PORT[,HOST:PORT]/]LINK[/sub/path] (INTERFACE, Programs). `arguments` are
/// without the program's name. kInvalid names the option and the nearest known one.
Result<MountArguments> TranslateMountArguments(const std::vector<std::string>& arguments);

}  // namespace forebay
