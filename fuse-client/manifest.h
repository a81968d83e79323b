#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>

#include "common/base/buffer.h"
#include "common/base/result.h"
#include "common/snapshot/snapshot.h"

namespace forebay {

/// `.forebay/manifest`: every file of a mount, one line each,
///
///     <size in bytes> TAB <path from the mount's root> LF
///
/// in the order of ComparePaths. In the path a backslash and the bytes 00-1f and 7f are written as
/// \xNN (two small hex digits); all other bytes stand for themselves, as UTF-8 does.
std::string ManifestLine(std::string_view path, std::uint64_t size);

/// The manifest of one directory of a snapshot, which never changes. It may be as large as the
/// listing, so it lies in a nameless file on disk, mapped, from when it is asked for until nobody
/// holds it.
class Manifest {
 public:
  /// `folder`: where there is room for it. `directory` is the root's number.
  Manifest(std::shared_ptr<const Snapshot> snapshot, std::uint32_t directory, std::string folder)
      : snapshot_(std::move(snapshot)), directory_(directory), folder_(std::move(folder)) {}

  /// Blocks while it is written (a second for some million files); many may call. kInternal: no
  /// room on disk. kCorrupt: the listing is damaged.
  Result<Slice> Text();

 private:
  Result<Slice> Write() const;

  const std::shared_ptr<const Snapshot> snapshot_;
  const std::uint32_t directory_;
  const std::string folder_;
  std::mutex mutex_;
  std::weak_ptr<const Slice> last_;
};

}  // namespace forebay
