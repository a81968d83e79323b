#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "common/snapshot/snapshot.h"
#include "fuse-client/large_text.h"

namespace forebay {

/// `.forebay/manifest`: every file of a mount, one line each,
///
///     <size in bytes> TAB <path from the mount's root> LF
///
/// in the order of ComparePaths. In the path a backslash and the bytes 00-1f and 7f are written as
/// \xNN (two small hex digits); all other bytes stand for themselves, as UTF-8 does.
std::string ManifestLine(std::string_view path, std::uint64_t size);

/// `.forebay/attributes.jsonl`: every line of the link's augmented manifest that names a file of
/// the mount, in the manifest's order, one line each,
///
///     {"path":<path from the mount's root>,"attributes":<the manifest's line>} LF
std::string AttributesLine(std::string_view path, std::string_view json);

/// Of one directory of a snapshot, which is the mount's root; `directory` is its number.
/// kCorrupt: the listing is damaged.
std::shared_ptr<LargeText> MakeManifest(std::shared_ptr<const Snapshot> snapshot,
                                        std::uint32_t directory, std::string folder);
std::shared_ptr<LargeText> MakeAttributes(std::shared_ptr<const Snapshot> snapshot,
                                          std::uint32_t directory, std::string folder);

}  // namespace forebay
