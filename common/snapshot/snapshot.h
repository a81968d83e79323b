#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/result.h"
#include "common/model/key_rules.h"
#include "common/model/object_version.h"
#include "common/model/posix_attributes.h"
#include "common/snapshot/etag.h"
#include "common/snapshot/name_groups.h"
#include "common/snapshot/snapshot_format.h"

namespace forebay {

/// Which generation of which link a snapshot must be.
struct SnapshotId {
  Uuid link;
  std::uint64_t generation = 0;

  bool operator==(const SnapshotId&) const = default;
};

/// Where the objects are. Views point into the snapshot.
struct SnapshotSource {
  std::string_view endpoint;  ///< Normalised, as in ObjectIdentity.
  std::string_view bucket;
  std::string_view prefix;  ///< "", or ends with '/', or the key of the link's one object.

  bool operator==(const SnapshotSource&) const = default;
};

struct SnapshotTotals {
  std::uint64_t objects = 0;      ///< Visible files.
  std::uint64_t bytes = 0;        ///< Sum of their sizes.
  std::uint64_t large_bytes = 0;  ///< Sum of the sizes >= kLargeObjectBytes (choice of mount mode).
  std::uint64_t directories = 0;  ///< With the root.
  std::uint64_t hidden_keys = 0;
  std::array<std::uint64_t, kHiddenReasonSlots> hidden_by_reason{};  ///< By HiddenReason.

  bool operator==(const SnapshotTotals&) const = default;
};

SnapshotTotals TotalsOf(const SnapshotHeader& header);

/// XXH3-128 of a whole snapshot file, kept by its publisher.
struct SnapshotDigest {
  std::uint64_t high = 0;
  std::uint64_t low = 0;

  bool operator==(const SnapshotDigest&) const = default;
};

/// A line of an augmented manifest.
struct AttributeLine {
  std::uint64_t place = 0;     ///< They are kept in ascending order of it.
  std::string_view json = {};  ///< Less than 4 GiB.
};

enum class SnapshotEntryKind : std::uint8_t { kFile, kDirectory };

/// One visible file or directory; the root is row 0.
struct SnapshotRow {
  std::uint64_t nodeid = 0;
  std::uint64_t size = 0;          ///< Bytes of the object; 0 for a directory.
  std::uint32_t index = 0;         ///< Row number in this snapshot.
  std::uint32_t directory = 0;     ///< A directory's own directory number; 0 for a file.
  std::uint32_t mtime_unix_s = 0;  ///< A directory's is the newest below it.
  SnapshotEntryKind kind = SnapshotEntryKind::kFile;
  bool archived = false;  ///< In an S3 storage class that must be restored before a GET.

  bool is_directory() const { return kind == SnapshotEntryKind::kDirectory; }
  bool operator==(const SnapshotRow&) const = default;
};

/// One directory. Numbers are a preorder: the directories below `d` are d+1 … end-1.
struct SnapshotDirectory {
  std::string_view path;        ///< From the link's root, no slash at the ends; "" = the root.
  std::uint32_t parent = 0;     ///< Directory number; the root is its own parent.
  std::uint32_t row = 0;        ///< The row that shows it (nodeid, mtime).
  std::uint32_t first_row = 0;  ///< Its entries, in byte order of their names.
  std::uint32_t row_count = 0;
  std::uint32_t end = 0;
};

class Snapshot;

/// Reads the entries of one directory in byte order of their names, without allocating. The
/// snapshot must outlive it.
///
///     DirectoryCursor cursor = snapshot->ReadDirectory(dir, offset);
///     while (cursor.Next()) { use cursor.name(), cursor.row(), cursor.position() }
class DirectoryCursor {
 public:
  /// Of no directory: damaged().
  DirectoryCursor(const Snapshot& snapshot, const std::optional<SnapshotDirectory>& directory,
                  std::uint64_t position);

  /// False at the end, or where the file is damaged (then damaged() is true).
  bool Next();
  std::string_view name() const { return decoder_.name(); }  ///< Valid until Next().
  const SnapshotRow& row() const { return row_; }
  /// 1 for a directory's first entry: where a later ReadDirectory goes on after this entry. Stable
  /// for this snapshot.
  std::uint64_t position() const { return position_; }
  bool damaged() const { return damaged_; }

 private:
  const Snapshot* snapshot_;
  std::uint32_t first_row_;
  std::uint32_t row_count_;
  std::uint64_t position_;
  bool starting_ = true;
  bool damaged_;
  NameDecoder decoder_;
  SnapshotRow row_;
};

/// Reads the lines of an augmented manifest in its order. The snapshot must outlive it.
class LineCursor {
 public:
  explicit LineCursor(const Snapshot& snapshot) : snapshot_(&snapshot) {}

  /// False at the end, or where the file is damaged (then damaged() is true).
  bool Next();
  std::uint32_t row() const { return row_; }       ///< Of the object that the line names.
  std::string_view json() const { return json_; }  ///< In the snapshot.
  std::uint64_t place() const { return place_; }   ///< As LinesOf says it.
  bool damaged() const { return damaged_; }

 private:
  const Snapshot* snapshot_;
  std::uint32_t row_ = 0;
  std::string_view json_;
  std::uint64_t place_ = 0;
  std::uint64_t end_ = 0;
  bool damaged_ = false;
};

/// One generation of a link's namespace: an immutable file, mapped read-only (DESIGN 6.8,
/// docs/SNAPSHOT_FORMAT.md). Open checks the header and bounds, not every byte: whoever fetched the
/// file calls VerifyAll (or compares Digest) before it trusts it. No bytes, however wrong, make a
/// call read outside the mapping or not return. All calls are const, thread-safe, and allocate only
/// where they return a std::string.
class Snapshot {
 public:
  /// kNotFound: no such file. kCorrupt: truncated, damaged, of a newer format, no snapshot at all,
  /// or not `expected`: drop it and fetch it again. kInternal: the host refused.
  static Result<std::shared_ptr<const Snapshot>> Open(
      const std::string& path, std::optional<SnapshotId> expected = std::nullopt);
  /// The same of an open file, which stays the caller's; `name` is for messages.
  static Result<std::shared_ptr<const Snapshot>> OpenFile(
      int fd, const std::string& name, std::optional<SnapshotId> expected = std::nullopt);
  ~Snapshot();
  Snapshot(const Snapshot&) = delete;
  Snapshot& operator=(const Snapshot&) = delete;

  SnapshotId id() const { return id_; }
  const Uuid& domain() const { return domain_; }
  const SnapshotSource& source() const { return source_; }
  const SnapshotTotals& totals() const { return totals_; }
  std::uint64_t block_bytes() const { return header_.block_bytes; }
  std::uint64_t listed_unix_s() const { return header_.listed_unix_s; }
  std::uint64_t file_bytes() const { return header_.file_bytes; }
  std::uint32_t rows() const { return header_.rows; }
  std::uint32_t directories() const { return header_.directories; }

  /// Compares every 64 KiB cell of the file with its checksum; kCorrupt names the first that
  /// differs. Reads the whole file.
  Status VerifyAll() const;
  SnapshotDigest Digest() const;

  /// The entry `name` of directory number `directory`; nothing when there is none.
  std::optional<SnapshotRow> Lookup(std::uint32_t directory, std::string_view name) const;
  std::optional<SnapshotRow> FindNodeid(std::uint64_t nodeid) const;
  /// By path from the link's root; slashes at the ends are ignored; "" is the root.
  std::optional<SnapshotRow> Resolve(std::string_view path) const;
  std::optional<SnapshotRow> RowAt(std::uint32_t index) const;
  std::optional<SnapshotDirectory> DirectoryAt(std::uint32_t directory) const;
  /// The number of the directory that holds `row`; the root's is the root.
  std::uint32_t ParentOf(const SnapshotRow& row) const;

  /// Entries from `position` on: 0, or what DirectoryCursor::position() gave.
  DirectoryCursor ReadDirectory(std::uint32_t directory, std::uint64_t position = 0) const;

  std::string NameOf(const SnapshotRow& row) const;
  std::string PathOf(const SnapshotRow& row) const;  ///< "" for the root.
  /// The full S3 key; of a directory the key prefix of what it holds ("train/a/").
  std::string KeyOf(const SnapshotRow& row) const;
  std::string EtagOf(const SnapshotRow& row) const;  ///< As S3 gave it, no quotes; "" = directory.
  /// The same without making a text of it; points into the snapshot.
  StoredEtag StoredEtagOf(const SnapshotRow& row) const;
  ObjectVersion VersionOf(const SnapshotRow& row) const;  ///< Of a file.

  /// What S3 said of the row's object, or of a directory's marker; nothing where it was not asked.
  std::optional<PosixAttributes> PosixOf(const SnapshotRow& row) const;
  bool has_posix() const { return extras_.posix.bytes != 0; }
  /// The lines of the link's augmented manifest that name the object, in its order. Their places
  /// are where they are among all lines, in bytes: less than line_bytes().
  std::vector<AttributeLine> LinesOf(const SnapshotRow& row) const;
  bool has_lines() const { return extras_.line_rows.bytes != 0; }
  std::uint64_t line_bytes() const { return extras_.lines.bytes; }
  /// Calls `visit(row, json)` for every line in the manifest's order, until it answers false.
  /// kCorrupt where the file is damaged.
  Status ForEachLine(
      const std::function<bool(const SnapshotRow& row, std::string_view json)>& visit) const;

  /// Calls `visit(row, path)` for every file below `directory` in the order of ComparePaths, until
  /// it answers false. kCorrupt where the file is damaged.
  Status ForEachFile(
      std::uint32_t directory,
      const std::function<bool(const SnapshotRow& row, std::string_view path)>& visit) const;
  /// Calls `visit(key, reason)` for every hidden key in byte order, until it answers false.
  Status ForEachHidden(
      const std::function<bool(std::string_view key, HiddenReason reason)>& visit) const;

 private:
  friend class DirectoryCursor;
  friend class LineCursor;
  Snapshot(const std::byte* base, std::size_t bytes) : base_(base), bytes_(bytes) {}

  Status Check(const std::optional<SnapshotId>& expected);
  Status CheckHeader() const;
  Status CheckSections() const;
  Status CheckRoot() const;
  bool TakeExtras();
  std::string_view TextOf(SnapshotSection section) const;
  // Record `index` of a section that holds T's; the caller knows that it is inside.
  template <typename T>
  T RecordAt(SnapshotSection section, std::uint64_t index) const {
    T record;
    std::memcpy(&record, base_ + header_.section(section).offset + index * sizeof(T), sizeof(T));
    return record;
  }
  struct Line {
    std::uint32_t row = 0;
    std::string_view json;
    std::uint64_t place = 0;
    std::uint64_t end = 0;
    std::uint64_t next = 0;
  };
  std::optional<Line> LineAt(std::uint64_t at) const;
  std::optional<SnapshotRow> RowOf(std::uint32_t index, const SnapshotRowRecord& record) const;
  bool StartAt(NameDecoder& decoder, std::uint32_t row) const;

  const std::byte* base_;
  std::size_t bytes_;
  SnapshotHeader header_{};  // a copy: what was checked cannot change under us
  SnapshotExtras extras_{};  // likewise
  SnapshotId id_;
  Uuid domain_;
  SnapshotSource source_;
  SnapshotTotals totals_;
};

}  // namespace forebay
