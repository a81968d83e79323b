#pragma once

#include <string>

#include "common/model/posix_attributes.h"

namespace forebay {

/// The x-amz-meta-file-* headers of an object, as they came; "" = there was none.
struct FileMetadata {
  std::string permissions = {};
  std::string owner = {};
  std::string group = {};
  std::string mtime = {};
};

/// What AWS DataSync and FSx for Lustre mean by them (AWS, FSx for Lustre user guide, "POSIX
/// metadata support for data repositories"): permissions in octal, with or without the type of the
/// file, of which the nine bits count; owner and group as numbers; mtime since 1970 in nanoseconds
/// when it ends with "ns", else in milliseconds. What cannot be read is missing.
PosixAttributes ParsePosixMetadata(const FileMetadata& metadata);

}  // namespace forebay
