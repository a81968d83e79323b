#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "common/base/result.h"
#include "common/model/key_rules.h"
#include "common/model/object_version.h"
#include "common/model/posix_attributes.h"
#include "common/snapshot/etag.h"
#include "common/snapshot/snapshot.h"

namespace forebay {

struct SnapshotOptions {
  SnapshotId id;
  Uuid domain;           ///< Sharing domain: part of every object version.
  std::string endpoint;  ///< Normalised.
  std::string bucket;
  std::string prefix;  ///< "", or ends with '/', or exactly one object's key (RelativeKey).
  std::uint64_t block_bytes = 0;
  std::uint64_t listed_unix_s = 0;  ///< When the listing began.
  /// The link's generation before this one, or null. Rows with the same key, ETag and size keep
  /// their nodeid, and no nodeid of it is given to anything else.
  std::shared_ptr<const Snapshot> previous;
  /// Bits of the hash that nodeids are made of. Tests lower it to force collisions.
  int nodeid_bits = 62;
  /// Of keys, before they are sorted and written to hidden files beside the snapshot. Tests lower
  /// it to make many such files.
  std::size_t memory_bytes = std::size_t{64} << 20;
};

/// One object of a listing.
struct ListedKey {
  std::string_view key = {};  ///< Full S3 key, raw bytes (URL-decoded).
  std::uint64_t size = 0;
  /// Without quotes; "" = none that is valid: the key is hidden, unless it is a folder's marker.
  std::string_view etag = {};
  std::int64_t mtime_unix_s = 0;
  bool archived = false;  ///< GLACIER, DEEP_ARCHIVE or an archive tier: a GET would be refused.
  /// What S3 said when it was asked for the object's metadata; null = it was not.
  const PosixAttributes* posix = nullptr;
  std::span<const AttributeLine> lines = {};  ///< Of the manifest that name the object.
  const Md5Etag* packed_etag = nullptr;       ///< In place of `etag`, where it is known packed.
};

struct FinishedSnapshot {
  SnapshotTotals totals;
  std::uint64_t file_bytes = 0;
  SnapshotDigest digest;
};

/// Makes the snapshot file of one generation from a complete listing. One thread at a time. Holds
/// `memory_bytes` of keys, all hidden keys, and from Finish on about 45 bytes per object: what does
/// not go to the file in order, which are the tables, nodeids and coded names. The result depends
/// on the set of objects, not on the order of Add (but for a key added twice, where the last
/// counts).
class SnapshotBuilder {
 public:
  /// The file appears at `path` when Finish succeeds, whole and synced; until then `path` is
  /// untouched and "<path>.tmp" may be left by a crash (the next build overwrites it).
  SnapshotBuilder(SnapshotOptions options, std::string path);
  ~SnapshotBuilder();
  SnapshotBuilder(const SnapshotBuilder&) = delete;
  SnapshotBuilder& operator=(const SnapshotBuilder&) = delete;

  /// Keys that cannot be shown are counted and listed as hidden; they are no error. kInvalid: the
  /// key is not the link's, so the listing is not of this link and no generation can come of it.
  Status Add(const ListedKey& object);

  /// A key that an earlier generation hid and that was not listed again (partial_refresh.h).
  void AddHidden(std::string_view key, HiddenReason reason);

  /// Call once. kInvalid: more than a file of this format holds (2^31 rows, 4 GiB of coded names
  /// or directory paths), or `previous` is of another link. kInternal: the disk failed.
  Result<FinishedSnapshot> Finish();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace forebay
