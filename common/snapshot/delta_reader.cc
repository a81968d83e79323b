#include <xxhash.h>

#include <cstring>
#include <filesystem>
#include <functional>
#include <optional>
#include <system_error>
#include <utility>
#include <vector>

#include "common/snapshot/carry.h"
#include "common/snapshot/delta.h"
#include "common/snapshot/delta_entries.h"
#include "common/snapshot/delta_format.h"
#include "common/snapshot/tree_cursor.h"

namespace forebay {
namespace {

std::unexpected<Error> Unusable(const std::string& what) {
  return Fail(Code::kCorrupt, "the difference between two listings " + what +
                                  ": the whole listing must be fetched");
}

Result<DeltaHeader> HeaderOf(std::string_view delta, const DeltaEnds& ends) {
  DeltaHeader header;
  if (delta.size() < sizeof header) return Unusable("is shorter than its header");
  std::memcpy(&header, delta.data(), sizeof header);
  if (header.magic != kDeltaMagic) return Unusable("is none");
  if (header.format != kDeltaFormat && header.format != kDeltaFormatWithLines) {
    return Unusable("has format " + std::to_string(header.format) + ", which this program does " +
                    "not read");
  }
  const std::string_view body = delta.substr(sizeof header);
  if (header.checksum != XXH3_64bits(&header, offsetof(DeltaHeader, checksum)) ||
      header.header_bytes != sizeof header || header.file_bytes != delta.size() ||
      header.entries_bytes > body.size() ||
      header.hidden_bytes != body.size() - header.entries_bytes ||
      header.body_checksum != XXH3_64bits(body.data(), body.size())) {
    return Unusable("is damaged");
  }
  const DeltaEnds found{.link = {.bytes = header.link},
                        .before = header.before,
                        .after = header.after,
                        .before_digest = {header.before_digest[0], header.before_digest[1]},
                        .after_digest = {header.after_digest[0], header.after_digest[1]}};
  if (found != ends) return Unusable("is between other generations");
  return header;
}

/// Gives the builder what a generation holds, with the entries of a difference in their places.
class Merge {
 public:
  Merge(const Snapshot& before, const FolderMarks& marks, DeltaReader entries,
        SnapshotBuilder& builder)
      : before_(before),
        marks_(marks),
        entries_(std::move(entries)),
        builder_(builder),
        then_(before) {}

  Status Run() {
    bool has_then = then_.Next();
    Status done = TakeEntry();
    while (done && (has_then || entry_)) {
      const int order = Order(has_then);
      if (order < 0) done = Keep();
      if (order > 0) done = Put(false);
      if (order == 0) done = PutOver();
      if (order <= 0) has_then = then_.Next();
      if (done && order >= 0) done = TakeEntry();
    }
    if (!done) return done;
    if (then_.damaged()) return Fail(Code::kCorrupt, "the snapshot before is damaged");
    return {};
  }

 private:
  int Order(bool has_then) const {
    if (!has_then) return 1;
    if (!entry_) return -1;
    return ComparePaths(then_.path(), entry_->path);
  }

  Status TakeEntry() {
    Result<std::optional<DeltaEntry>> next = entries_.NextEntry();
    if (!next) return Fail(next.error());
    entry_ = std::move(*next);
    return {};
  }

  Status AddFolder(std::string_view path, const FolderMark& mark) {
    const std::string key = KeyAtPath(before_.source().prefix, path) + "/";
    return builder_.Add({.key = key,
                         .mtime_unix_s = mark.mtime_unix_s,
                         .posix = mark.posix ? &*mark.posix : nullptr});
  }

  Status Keep() {
    const SnapshotRow& row = then_.row();
    if (!row.is_directory()) return KeepFile(row);
    const std::optional<FolderMark> mark = marks_.MarkOf(row);
    return mark ? AddFolder(then_.path(), *mark) : Status();
  }

  Status KeepFile(const SnapshotRow& row) {
    std::vector<AttributeLine> lines = before_.LinesOf(row);
    for (AttributeLine& line : lines) line.place = DeltaLinePlace{.before = line.place}.Packed();
    return AddFileOf(before_, row, then_.path(), lines, builder_);
  }

  /// The entry, where nothing is or what is there makes room.
  Status Put(bool makes_room) {
    const DeltaEntry& entry = *entry_;
    if (entry.kind == DeltaEntry::Kind::kFolder && entry.mark) {
      return AddFolder(entry.path, *entry.mark);
    }
    if (entry.kind == DeltaEntry::Kind::kFile) {
      const std::string key = KeyAtPath(before_.source().prefix, entry.path);
      return builder_.Add({.key = key,
                           .size = entry.size,
                           .etag = entry.etag,
                           .mtime_unix_s = entry.mtime_unix_s,
                           .archived = entry.archived,
                           .posix = entry.posix ? &*entry.posix : nullptr,
                           .lines = entry.lines});
    }
    if (!makes_room) return Unusable("removes what is not there");
    return {};
  }

  Status PutOver() {
    const bool stays = entry_->kind == DeltaEntry::Kind::kFolder;
    if (then_.row().is_directory() && !stays) then_.SkipBelow();
    return Put(true);
  }

  const Snapshot& before_;
  const FolderMarks& marks_;
  DeltaReader entries_;
  SnapshotBuilder& builder_;
  TreeCursor then_;
  std::optional<DeltaEntry> entry_;
};

Status MergeHidden(const Snapshot& before, std::string_view bytes, SnapshotBuilder& builder) {
  DeltaReader reader(bytes);
  Result<std::optional<DeltaHidden>> next = reader.NextHidden();
  const auto add_next = [&] {
    if ((*next)->reason) builder.AddHidden((*next)->key, *(*next)->reason);
    next = reader.NextHidden();
  };
  Status read = before.ForEachHidden([&](std::string_view key, HiddenReason reason) {
    while (next && *next && (*next)->key < key) add_next();
    if (!next) return false;
    if (*next && (*next)->key == key) {
      add_next();
    } else {
      builder.AddHidden(key, reason);
    }
    return true;
  });
  if (!read) return read;
  while (next && *next) add_next();
  if (!next) return Fail(next.error());
  return {};
}

SnapshotOptions OptionsBehind(const std::shared_ptr<const Snapshot>& before,
                              const DeltaHeader& header) {
  SnapshotOptions options;
  options.id = {.link = {.bytes = header.link}, .generation = header.after};
  options.domain = before->domain();
  options.endpoint = before->source().endpoint;
  options.bucket = before->source().bucket;
  options.prefix = before->source().prefix;
  options.block_bytes = header.block_bytes;
  options.listed_unix_s = header.listed_unix_s;
  options.previous = before;
  return options;
}

}  // namespace

Result<FinishedSnapshot> WriteFromDelta(const std::shared_ptr<const Snapshot>& before,
                                        std::string_view delta, const DeltaEnds& ends,
                                        const std::string& path) {
  const Result<DeltaHeader> header = HeaderOf(delta, ends);
  if (!header) return Fail(header.error());
  if (before->id() != SnapshotId{.link = ends.link, .generation = ends.before}) {
    return Unusable("is of another generation than the one that is here");
  }
  const auto marks = FolderMarks::Of(*before);
  if (!marks) return Fail(marks.error());
  SnapshotBuilder builder(OptionsBehind(before, *header), path);
  DeltaReader entries(delta.substr(sizeof(DeltaHeader), header->entries_bytes),
                      header->format == kDeltaFormatWithLines);
  Merge merge(*before, *marks, std::move(entries), builder);
  Status merged = merge.Run();
  if (!merged) return Fail(merged.error());
  merged = MergeHidden(*before, delta.substr(sizeof(DeltaHeader) + header->entries_bytes), builder);
  if (!merged) return Fail(merged.error());
  Result<FinishedSnapshot> finished = builder.Finish();
  if (!finished || finished->digest == ends.after_digest) return finished;
  std::error_code ignored;
  std::filesystem::remove(path, ignored);
  return Unusable("leads to another file than the one that was announced");
}

}  // namespace forebay
