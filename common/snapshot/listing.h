#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/result.h"
#include "common/model/key_rules.h"
#include "common/snapshot/snapshot_builder.h"
#include "common/snapshot/snapshot_format.h"

namespace forebay {

/// One showable key of a listing, as it waits for Finish().
struct ListedEntry {
  const char* path_begin;  ///< In the listing's arena; a marker keeps its slash.
  SnapshotAttributes attributes;
  std::uint32_t mtime_unix_s;
  std::uint16_t path_bytes;
  bool out_of_range;  ///< HiddenReason::kOutOfRange; it shows nothing.
  std::array<std::uint8_t, 16> etag;

  std::string_view path() const { return {path_begin, path_bytes}; }
  bool marker() const { return path().ends_with('/'); }
};
static_assert(sizeof(ListedEntry) == 40);

struct HiddenKey {
  std::string key;
  HiddenReason reason;
};

/// The objects that were added so far, unsorted, duplicates included.
class Listing {
 public:
  explicit Listing(std::string prefix) : prefix_(std::move(prefix)) {}

  Status Add(const ListedKey& object);

  const std::string& prefix() const { return prefix_; }
  const std::vector<ListedEntry>& entries() const { return entries_; }
  std::string EtagOf(const ListedEntry& entry) const;
  std::string_view OpaqueEtagOf(const ListedEntry& entry) const;

  void Hide(std::string_view path, HiddenReason reason);
  /// By its full key, from an earlier generation.
  void HideKey(std::string_view key, HiddenReason reason);
  /// All hidden keys in byte order, each once.
  std::vector<HiddenKey> TakeHidden();

 private:
  const char* Keep(std::string_view path);

  std::string prefix_;
  std::vector<ListedEntry> entries_;
  std::vector<std::unique_ptr<char[]>> arena_;
  std::size_t arena_free_ = 0;  // bytes left in the last chunk
  std::string opaque_etags_;
  std::vector<HiddenKey> hidden_;
  bool root_marker_with_bytes_ = false;
};

}  // namespace forebay
