#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/base/result.h"
#include "common/model/key_rules.h"
#include "common/snapshot/etag.h"
#include "common/snapshot/listing_runs.h"
#include "common/snapshot/snapshot_builder.h"

namespace forebay {

struct HiddenKey {
  std::string key;
  HiddenReason reason;
};

/// The objects that were added so far.
class Listing {
 public:
  /// Of what is too much for `memory_bytes`, files beside `path` are made (ListingRuns).
  Listing(std::string prefix, std::string path, std::size_t memory_bytes)
      : prefix_(std::move(prefix)), runs_(std::move(path), memory_bytes) {}

  Status Add(const ListedKey& object);
  /// Call once, after the last Add.
  Status Sort() { return runs_.Sort(); }

  const std::string& prefix() const { return prefix_; }
  /// After Sort: in the order of ComparePaths, equal paths as they were added.
  std::span<const ListedEntry> entries() const { return runs_.entries(); }
  std::string_view PathOf(const ListedEntry& entry) const { return runs_.PathOf(entry); }
  std::string EtagOf(const ListedEntry& entry) const;
  StoredEtag StoredEtagOf(const ListedEntry& entry) const;
  std::string_view OpaqueEtagOf(const ListedEntry& entry) const {
    return runs_.OpaqueEtagOf(entry);
  }
  std::string_view ExtrasOf(const ListedEntry& entry) const { return runs_.ExtrasOf(entry); }
  bool has_posix() const { return has_posix_; }  ///< That something was added with it.
  bool has_lines() const { return has_lines_; }
  /// For loops over all entries, each time that `number` has grown by one.
  void Passed(std::size_t number) const {
    if (number % kRelaxEntries == 0) runs_.Relax();
  }

  void Hide(std::string_view path, HiddenReason reason);
  /// By its full key, from an earlier generation.
  void HideKey(std::string_view key, HiddenReason reason);
  /// All hidden keys in byte order, each once. They are held in memory, however many: their bytes
  /// count against `memory_bytes`.
  std::vector<HiddenKey> TakeHidden();

 private:
  static constexpr std::size_t kRelaxEntries = 1 << 18;  // 10 to 20 MiB of them

  void Hold(std::string key, HiddenReason reason);

  std::string prefix_;
  ListingRuns runs_;
  std::vector<HiddenKey> hidden_;
  std::size_t hidden_bytes_ = 0;
  bool root_marker_with_bytes_ = false;
  bool has_posix_ = false;
  bool has_lines_ = false;
};

}  // namespace forebay
