#include <xxhash.h>

#include <cstring>
#include <optional>
#include <utility>
#include <vector>

#include "common/base/files.h"
#include "common/snapshot/delta.h"
#include "common/snapshot/delta_entries.h"
#include "common/snapshot/delta_format.h"
#include "common/snapshot/delta_lines.h"
#include "common/snapshot/tree_cursor.h"

namespace forebay {
namespace {

std::unexpected<Error> Damaged() {
  return Fail(Code::kCorrupt, "the snapshot is damaged: list the link again");
}

/// Goes through both trees side by side.
class TreeComparison {
 public:
  TreeComparison(const Snapshot& before, const FolderMarks& marks_before, const Snapshot& after,
                 const FolderMarks& marks_after, const DeltaLines& lines, std::uint64_t bytes_max)
      : after_(after),
        marks_before_(marks_before),
        marks_after_(marks_after),
        lines_(lines),
        bytes_max_(bytes_max),
        pair_(before, after) {}

  /// False when more than `bytes_max` have changed.
  Result<bool> Run(std::string& out) {
    while (out.size() <= bytes_max_ && pair_.Next()) {
      if (pair_.order() < 0) Remove(out);
      if (pair_.order() > 0) Add(out);
      if (pair_.order() == 0) Compare(out);
    }
    if (pair_.damaged()) return Damaged();
    return out.size() <= bytes_max_;
  }

 private:
  void Remove(std::string& out) {
    if (pair_.then().row().is_directory()) pair_.SkipBelowThen();
    writer_.Append({.kind = DeltaEntry::Kind::kRemoved, .path = pair_.then().path()}, out);
  }

  void AppendFile(std::string& out) {
    const SnapshotRow& row = pair_.now().row();
    writer_.Append({.kind = DeltaEntry::Kind::kFile,
                    .path = pair_.now().path(),
                    .size = row.size,
                    .mtime_unix_s = row.mtime_unix_s,
                    .archived = row.archived,
                    .etag = after_.EtagOf(row),
                    .posix = after_.PosixOf(row),
                    .lines = lines_.LinesOf(row)},
                   out);
  }

  void AppendFolder(std::optional<FolderMark> mark, std::string& out) {
    writer_.Append({.kind = DeltaEntry::Kind::kFolder, .path = pair_.now().path(), .mark = mark},
                   out);
  }

  // A folder without a mark shows by what it holds.
  void Add(std::string& out) {
    if (!pair_.now().row().is_directory()) return AppendFile(out);
    std::optional<FolderMark> mark = marks_after_.MarkOf(pair_.now().row());
    if (mark) AppendFolder(mark, out);
  }

  void Compare(std::string& out) {
    const SnapshotRow& then = pair_.then().row();
    const SnapshotRow& now = pair_.now().row();
    if (!now.is_directory()) {
      if (then.is_directory()) pair_.SkipBelowThen();
      if (!lines_.HasStayed(then, now)) AppendFile(out);
      return;
    }
    std::optional<FolderMark> mark = marks_after_.MarkOf(now);
    if (then.is_directory()) {
      if (mark != marks_before_.MarkOf(then)) AppendFolder(mark, out);
    } else if (mark) {
      AppendFolder(mark, out);
    } else {
      writer_.Append({.kind = DeltaEntry::Kind::kRemoved, .path = pair_.then().path()}, out);
    }
  }

  const Snapshot& after_;
  const FolderMarks& marks_before_;
  const FolderMarks& marks_after_;
  const DeltaLines& lines_;
  const std::uint64_t bytes_max_;
  TreePair pair_;
  DeltaEntryWriter writer_;
};

struct HiddenView {
  std::string_view key;
  HiddenReason reason;
};

// They are read where they lie; what is kept is 24 bytes a key.
Result<std::vector<HiddenView>> HiddenOf(const Snapshot& snapshot) {
  std::vector<HiddenView> hidden;
  Status read = snapshot.ForEachHidden([&](std::string_view key, HiddenReason reason) {
    hidden.push_back({key, reason});
    return true;
  });
  if (!read) return Fail(read.error());
  return hidden;
}

Status CompareHidden(const Snapshot& before, const Snapshot& after, std::string& out) {
  const auto then = HiddenOf(before);
  if (!then) return Fail(then.error());
  const auto now = HiddenOf(after);
  if (!now) return Fail(now.error());
  DeltaHiddenWriter writer;
  auto old = then->begin();
  for (const HiddenView& hidden : *now) {
    for (; old != then->end() && old->key < hidden.key; ++old) {
      writer.Append({.key = old->key, .reason = std::nullopt}, out);
    }
    const bool known = old != then->end() && old->key == hidden.key;
    if (!known || old->reason != hidden.reason) {
      writer.Append({.key = hidden.key, .reason = hidden.reason}, out);
    }
    if (known) ++old;
  }
  for (; old != then->end(); ++old) {
    writer.Append({.key = old->key, .reason = std::nullopt}, out);
  }
  return {};
}

std::string HeaderOf(const Snapshot& after, const DeltaEnds& ends, std::uint32_t format,
                     std::uint64_t entries_bytes, std::string_view body) {
  DeltaHeader header{};
  header.magic = kDeltaMagic;
  header.format = format;
  header.header_bytes = sizeof header;
  header.file_bytes = sizeof header + body.size();
  header.link = ends.link.bytes;
  header.before = ends.before;
  header.after = ends.after;
  header.before_digest = {ends.before_digest.high, ends.before_digest.low};
  header.after_digest = {ends.after_digest.high, ends.after_digest.low};
  header.listed_unix_s = after.listed_unix_s();
  header.block_bytes = after.block_bytes();
  header.entries_bytes = entries_bytes;
  header.hidden_bytes = body.size() - entries_bytes;
  header.body_checksum = XXH3_64bits(body.data(), body.size());
  header.checksum = XXH3_64bits(&header, offsetof(DeltaHeader, checksum));
  return {reinterpret_cast<const char*>(&header), sizeof header};
}

}  // namespace

Result<WrittenDelta> WriteDelta(const Snapshot& before, const Snapshot& after,
                                const DeltaEnds& ends, std::uint64_t bytes_max,
                                const std::string& path) {
  if (before.source() != after.source() || before.domain() != after.domain()) {
    return WrittenDelta{.why_none = "the link's source has changed"};
  }
  const WrittenDelta too_large{.why_none = "too much has changed"};
  const Result<DeltaLines> lines = DeltaLines::Of(before, after, bytes_max);
  if (!lines) return Fail(lines.error());
  if (!lines->why_none().empty()) return WrittenDelta{.why_none = lines->why_none()};
  const auto marks_before = FolderMarks::Of(before);
  if (!marks_before) return Fail(marks_before.error());
  const auto marks_after = FolderMarks::Of(after);
  if (!marks_after) return Fail(marks_after.error());
  std::string body;
  TreeComparison comparison(before, *marks_before, after, *marks_after, *lines, bytes_max);
  const Result<bool> compared = comparison.Run(body);
  if (!compared) return Fail(compared.error());
  if (!*compared) return too_large;
  const std::uint64_t entries_bytes = body.size();
  Status hidden = CompareHidden(before, after, body);
  if (!hidden) return Fail(hidden.error());
  if (sizeof(DeltaHeader) + body.size() > bytes_max) return too_large;
  const std::uint32_t format = lines->any() ? kDeltaFormatWithLines : kDeltaFormat;
  const std::string file = HeaderOf(after, ends, format, entries_bytes, body) + body;
  Status written = WriteFileAtomically(path, file);
  if (!written) return Fail(written.error());
  const XXH128_hash_t digest = XXH3_128bits(file.data(), file.size());
  return WrittenDelta{.bytes = file.size(), .digest = {digest.high64, digest.low64}};
}

}  // namespace forebay
