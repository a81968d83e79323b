#pragma once

#include <string>
#include <vector>

#include "common/base/result.h"

namespace forebay {

/// A command line in the words of forebay-mount.
struct MountArguments {
  std::vector<std::string> arguments;
  std::string source;                 ///< As given: what the mount table shows, and `mount -a`
                                      ///< compares with its line of fstab.
  std::vector<std::string> warnings;  ///< What was ignored although it may matter.
  bool fake = false;                  ///< `mount -f`: check, and do nothing.
};

/// Translates how mount(8) calls a helper, `mount.forebay SOURCE MOUNTPOINT [-sfnv] [-o OPTIONS]`,
/// with SOURCE = [HOST:PORT[,HOST:PORT]/]LINK[/sub/path], or / or HOST:PORT/ for every link.
/// `arguments` are without the program's name. Every option of forebay-mount is known after -o, by
/// its flag's name. kInvalid names the option and the nearest known one; -s, as mount(8) has it,
/// lets unknown ones pass.
Result<MountArguments> TranslateMountArguments(const std::vector<std::string>& arguments);

}  // namespace forebay
