#include "common/snapshot/carry.h"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "common/model/key_rules.h"
#include "common/snapshot/etag.h"

namespace forebay {
namespace {

std::unexpected<Error> Damaged() {
  return Fail(Code::kCorrupt, "the snapshot is damaged: list the link again");
}

}  // namespace

Status AddFileOf(const Snapshot& from, const SnapshotRow& row, std::string_view path,
                 SnapshotBuilder& builder) {
  const std::vector<AttributeLine> lines = from.LinesOf(row);
  return AddFileOf(from, row, path, lines, builder);
}

Status AddFileOf(const Snapshot& from, const SnapshotRow& row, std::string_view path,
                 std::span<const AttributeLine> lines, SnapshotBuilder& builder) {
  const std::string key = KeyAtPath(from.source().prefix, path);
  const StoredEtag etag = from.StoredEtagOf(row);
  const Md5Etag* const packed = std::get_if<Md5Etag>(&etag);
  const std::optional<PosixAttributes> posix = from.PosixOf(row);
  return builder.Add(ListedKey{.key = key,
                               .size = row.size,
                               .etag = packed != nullptr ? "" : std::get<std::string_view>(etag),
                               .mtime_unix_s = row.mtime_unix_s,
                               .archived = row.archived,
                               .posix = posix ? &*posix : nullptr,
                               .lines = lines,
                               .packed_etag = packed});
}

Status AddFoldersOf(const Snapshot& from, const WantedPath& wanted, SnapshotBuilder& builder) {
  for (std::uint32_t d = 1; d < from.directories(); ++d) {
    const std::optional<SnapshotDirectory> directory = from.DirectoryAt(d);
    if (!directory) return Damaged();
    if (!wanted(directory->path)) continue;
    const std::optional<SnapshotRow> row = from.RowAt(directory->row);
    if (!row) return Damaged();
    const std::string key = KeyAtPath(from.source().prefix, directory->path) + "/";
    const std::optional<PosixAttributes> posix = from.PosixOf(*row);
    Status added = builder.Add(ListedKey{
        .key = key, .mtime_unix_s = row->mtime_unix_s, .posix = posix ? &*posix : nullptr});
    if (!added) return added;
  }
  return {};
}

Status AddHiddenOf(const Snapshot& from, const WantedPath& wanted, SnapshotBuilder& builder) {
  return from.ForEachHidden([&](std::string_view key, HiddenReason reason) {
    if (wanted(PathOfHidden(from, key))) builder.AddHidden(key, reason);
    return true;
  });
}

std::string_view PathOfHidden(const Snapshot& from, std::string_view key) {
  const std::string_view prefix = from.source().prefix;
  return key.starts_with(prefix) ? key.substr(prefix.size()) : key;
}

}  // namespace forebay
