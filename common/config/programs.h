#pragma once

#include <array>
#include <string_view>

namespace forebay {

/// A program that is configured by sections of the file: what its --help and its manual page say.
struct ProgramText {
  std::string_view name;
  std::string_view summary;  ///< A sentence or two.
  /// Those of the file that are its own flags, too; "" = no more.
  std::array<std::string_view, 4> sections;
};

inline constexpr ProgramText kCoordinatorProgram{
    "forebay-coordinator",
    "Knows which S3 prefixes are linked, what they hold and which cache node owns what. Never on "
    "the "
    "data path.",
    {"coordinator", "s3", "trust", "log"}};

inline constexpr ProgramText kNodeProgram{
    "forebay-node",
    "Keeps blocks of S3 objects on this machine's disks and serves them to mounts; fetches what is "
    "missing, once.",
    {"node", "s3", "trust", "log"}};

inline constexpr ProgramText kMountProgram{
    "forebay-mount",
    "Shows a link, or with / every link, as a read-only directory, out of the cache nodes. "
    "The mount survives the death of the process that serves it. `forebay-mount --upgrade "
    "MOUNTPOINT` lets this program serve a mount that another version serves; what uses it sees a "
    "short pause. As the service forebay-mount@NAME, whose options are variables in "
    "/etc/forebay/mounts/NAME.env, it survives restarts of the service, too; and those of a "
    "container, beside a `forebay-mount --hold SOCKET` in another one (--held-by).",
    {"mount", "trust", "log", ""}};

}  // namespace forebay
