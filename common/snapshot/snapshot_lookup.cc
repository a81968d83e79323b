// How the reader finds rows: by name, by nodeid, by path, and what a row is.
#include <algorithm>
#include <bit>
#include <cstddef>
#include <variant>

#include "common/snapshot/etag.h"
#include "common/snapshot/snapshot.h"

namespace forebay {

std::optional<SnapshotRow> Snapshot::RowOf(std::uint32_t index,
                                           const SnapshotRowRecord& record) const {
  const SnapshotAttributes attributes{record.packed};
  SnapshotRow row{.nodeid = record.nodeid,
                  .size = attributes.size(),
                  .index = index,
                  .mtime_unix_s = record.mtime_unix_s,
                  .archived = attributes.archived()};
  if (!attributes.directory()) return row;
  // Row and directory name each other, so that no damaged file can make a walk go round.
  if (row.size >= header_.directories) return std::nullopt;
  row.directory = static_cast<std::uint32_t>(row.size);
  row.size = 0;
  row.kind = SnapshotEntryKind::kDirectory;
  const auto directory =
      RecordAt<SnapshotDirectoryRecord>(SnapshotSection::kDirectories, row.directory);
  if (directory.row != index) return std::nullopt;
  return row;
}

std::optional<SnapshotRow> Snapshot::RowAt(std::uint32_t index) const {
  if (index >= header_.rows) return std::nullopt;
  return RowOf(index, RecordAt<SnapshotRowRecord>(SnapshotSection::kRows, index));
}

std::optional<SnapshotDirectory> Snapshot::DirectoryAt(std::uint32_t directory) const {
  if (directory >= header_.directories) return std::nullopt;
  const auto record = RecordAt<SnapshotDirectoryRecord>(SnapshotSection::kDirectories, directory);
  const std::string_view paths = TextOf(SnapshotSection::kPaths);
  const bool parent_before = record.parent < directory || directory == kRootDirectory;
  if (record.path_offset > paths.size() || record.path_bytes > paths.size() - record.path_offset ||
      record.first_row > header_.rows || record.row_count > header_.rows - record.first_row ||
      record.row >= header_.rows || !parent_before || record.end <= directory ||
      record.end > header_.directories) {
    return std::nullopt;
  }
  return SnapshotDirectory{.path = paths.substr(record.path_offset, record.path_bytes),
                           .parent = directory == kRootDirectory ? kRootDirectory : record.parent,
                           .row = record.row,
                           .first_row = record.first_row,
                           .row_count = record.row_count,
                           .end = record.end};
}

std::optional<SnapshotRow> Snapshot::Lookup(std::uint32_t directory, std::string_view name) const {
  if (directory >= header_.directories || name.empty() || name.size() > kMaxNameBytes) {
    return std::nullopt;
  }
  const auto record = RecordAt<SnapshotDirectoryRecord>(SnapshotSection::kDirectories, directory);
  const std::string_view tags = TextOf(SnapshotSection::kNameTags);
  const std::string_view names = TextOf(SnapshotSection::kNames);
  const std::uint64_t hash = SnapshotNameHash(directory, name);
  const auto tag = static_cast<char>(SnapshotNameTag(hash));
  std::uint64_t slot = SnapshotFirstSlot(hash, tags.size());
  for (std::size_t probes = 0; probes < tags.size() && tags[slot] != 0; ++probes) {
    if (tags[slot] == tag) {
      const auto row = RecordAt<std::uint32_t>(SnapshotSection::kNameSlots, slot);
      // Unsigned: a row before the directory's first is far behind its last.
      if (row - record.first_row < record.row_count && row < header_.rows) {
        const auto group =
            RecordAt<std::uint32_t>(SnapshotSection::kNameGroups, row / kNameGroupRows);
        if (GroupNameEquals(names, group, row % kNameGroupRows, name)) return RowAt(row);
      }
    }
    slot = slot + 1 == tags.size() ? 0 : slot + 1;
  }
  return std::nullopt;
}

std::optional<SnapshotRow> Snapshot::Resolve(std::string_view path) const {
  while (path.starts_with('/')) path.remove_prefix(1);
  while (path.ends_with('/')) path.remove_suffix(1);
  std::optional<SnapshotRow> row = RowAt(0);
  while (row && !path.empty()) {
    const std::size_t end = std::min(path.find('/'), path.size());
    if (!row->is_directory()) return std::nullopt;
    row = Lookup(row->directory, path.substr(0, end));
    path.remove_prefix(std::min(end + 1, path.size()));
  }
  return row;
}

std::optional<SnapshotRow> Snapshot::FindNodeid(std::uint64_t nodeid) const {
  if (nodeid == kRootNodeid) return RowAt(0);
  const std::uint64_t slots = header_.slots;
  std::uint64_t slot = SnapshotNodeidSlot(nodeid, slots);
  for (std::uint64_t probes = 0; probes < slots; ++probes) {
    const auto row = RecordAt<std::uint32_t>(SnapshotSection::kNodeidSlots, slot);
    if (row == 0 || row >= header_.rows) return std::nullopt;
    const auto record = RecordAt<SnapshotRowRecord>(SnapshotSection::kRows, row);
    if (record.nodeid == nodeid) return RowOf(row, record);
    slot = slot + 1 == slots ? 0 : slot + 1;
  }
  return std::nullopt;
}

std::uint32_t Snapshot::ParentOf(const SnapshotRow& row) const {
  if (row.is_directory()) {
    const auto directory = DirectoryAt(row.directory);
    return directory ? directory->parent : kRootDirectory;
  }
  // The last directory that begins at or before the row: those behind it that are empty begin
  // after it.
  std::uint32_t low = 0;
  std::uint32_t high = header_.directories;
  while (high - low > 1) {
    const std::uint32_t middle = low + (high - low) / 2;
    const auto record = RecordAt<SnapshotDirectoryRecord>(SnapshotSection::kDirectories, middle);
    (record.first_row <= row.index ? low : high) = middle;
  }
  return low;
}

bool Snapshot::StartAt(NameDecoder& decoder, std::uint32_t row) const {
  if (row >= header_.rows) return false;
  const auto group = RecordAt<std::uint32_t>(SnapshotSection::kNameGroups, row / kNameGroupRows);
  bool good = decoder.Start(TextOf(SnapshotSection::kNames), group);
  for (std::uint32_t i = 0; good && i < row % kNameGroupRows; ++i) good = decoder.Next();
  return good;
}

std::string Snapshot::NameOf(const SnapshotRow& row) const {
  NameDecoder decoder;
  return StartAt(decoder, row.index) ? std::string(decoder.name()) : std::string();
}

std::string Snapshot::PathOf(const SnapshotRow& row) const {
  const auto directory = DirectoryAt(row.is_directory() ? row.directory : ParentOf(row));
  if (!directory) return {};
  std::string path(directory->path);
  NameDecoder decoder;
  if (row.is_directory() || !StartAt(decoder, row.index)) return path;
  if (!path.empty()) path.push_back('/');
  return path.append(decoder.name());
}

std::string Snapshot::KeyOf(const SnapshotRow& row) const {
  if (!row.is_directory()) return KeyAtPath(source_.prefix, PathOf(row));
  if (IsSingleObjectPrefix(source_.prefix)) {
    return std::string(source_.prefix.substr(0, source_.prefix.rfind('/') + 1));
  }
  std::string key = KeyAtPath(source_.prefix, PathOf(row));
  if (row.directory != kRootDirectory) key.push_back('/');
  return key;
}

StoredEtag Snapshot::StoredEtagOf(const SnapshotRow& row) const {
  if (row.is_directory() || row.index >= header_.rows) return std::string_view();
  const auto record = RecordAt<SnapshotRowRecord>(SnapshotSection::kRows, row.index);
  const SnapshotAttributes attributes{record.packed};
  if (!attributes.opaque_etag()) return Md5Etag{.md5 = record.etag, .parts = attributes.parts()};
  const auto opaque = std::bit_cast<SnapshotOpaqueEtag>(record.etag);
  const std::string_view etags = TextOf(SnapshotSection::kEtags);
  if (opaque.offset > etags.size() || opaque.bytes > etags.size() - opaque.offset) {
    return std::string_view();
  }
  return etags.substr(opaque.offset, opaque.bytes);
}

std::string Snapshot::EtagOf(const SnapshotRow& row) const {
  const StoredEtag etag = StoredEtagOf(row);
  const Md5Etag* const md5 = std::get_if<Md5Etag>(&etag);
  return md5 != nullptr ? ToString(*md5) : std::string(std::get<std::string_view>(etag));
}

ObjectVersion Snapshot::VersionOf(const SnapshotRow& row) const {
  const std::string key = KeyOf(row);
  const std::string etag = EtagOf(row);
  return ComputeObjectVersion({.domain = domain_,
                               .endpoint = source_.endpoint,
                               .bucket = source_.bucket,
                               .key = key,
                               .etag = etag,
                               .size = row.size});
}

}  // namespace forebay
