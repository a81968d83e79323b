#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/result.h"
#include "common/model/object_version.h"

namespace forebay {

/// Which object a copy is of, for ever.
struct CopyName {
  Uuid link;
  ObjectVersion version;

  auto operator<=>(const CopyName&) const = default;
};

/// What is kept beside a copy: of what it is, and the checksums of what was written.
///
/// As bytes, each number 64 bits as this machine has it: magic, version (high, low), nodeid, size,
/// block_bytes, the sums, and XXH3-64 of all before.
struct CopyRecord {
  ObjectVersion version;
  std::uint64_t nodeid = 0;  ///< Of the file in the listings that show this version.
  std::uint64_t size = 0;
  std::uint64_t block_bytes = 0;    ///< Of each piece; the last may be short.
  std::vector<std::uint64_t> sums;  ///< XXH3-64 of each piece.

  std::string Encode() const;
  /// kCorrupt: not what Encode made.
  static Result<CopyRecord> Decode(std::string_view bytes);
  /// kNotFound: there is none. kCorrupt, kInternal.
  static Result<CopyRecord> Load(const std::string& path);

  std::uint64_t pieces() const { return sums.size(); }
};

/// Reads the file and compares it with its record, piece by piece; `after` is called behind each
/// with its size, and ends it with kUnavailable by answering false. Reads the disk, not the page
/// cache, where the file system can do that. kNotFound: no such file. kCorrupt: it is not what was
/// written. kInternal: it cannot be read.
Status VerifyCopy(const std::string& path, const CopyRecord& record,
                  const std::function<bool(std::size_t bytes)>& after);

}  // namespace forebay
