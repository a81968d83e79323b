#pragma once

#include <cstdint>
#include <optional>

namespace forebay {

/// What an object's own metadata says of the file that it was uploaded from (x-amz-meta-file-*, as
/// AWS DataSync and FSx for Lustre write them). Each may be missing.
struct PosixAttributes {
  struct Time {
    std::int64_t unix_s = 0;
    std::uint32_t nanoseconds = 0;  ///< 0 … 999,999,999.
    bool operator==(const Time&) const = default;
  };
  std::optional<std::uint16_t> mode = std::nullopt;  ///< The nine permission bits.
  std::optional<std::uint32_t> uid = std::nullopt;
  std::optional<std::uint32_t> gid = std::nullopt;
  std::optional<Time> mtime = std::nullopt;

  bool operator==(const PosixAttributes&) const = default;
};

}  // namespace forebay
