#include "common/snapshot/changes.h"

#include <optional>
#include <vector>

namespace forebay {
namespace {

struct Pair {
  std::uint32_t before = 0;
  std::uint32_t after = 0;
};

/// Merges the entries of two folders, which both are in byte order of their names.
class FolderMerge {
 public:
  using Visit = std::function<bool(const SnapshotChange&)>;

  FolderMerge(const Snapshot& before, const Snapshot& after, const Visit& visit)
      : before_(before), after_(after), visit_(visit) {}

  /// False when the visitor wants no more. Folders in both are added to `below`.
  Result<bool> Run(Pair folder, std::vector<Pair>& below) {
    const std::optional<SnapshotDirectory> directory = after_.DirectoryAt(folder.after);
    const auto row = directory ? after_.RowAt(directory->row) : std::nullopt;
    if (!row) return Fail(Damaged());
    folder_ = folder.after;
    parent_ = row->nodeid;
    DirectoryCursor then = before_.ReadDirectory(folder.before);
    DirectoryCursor now = after_.ReadDirectory(folder.after);
    bool has_then = then.Next();
    bool has_now = now.Next();
    bool more = true;
    while (more && (has_then || has_now)) {
      const int order = Order(has_then, then, has_now, now);
      if (order < 0) more = Tell(SnapshotChange::Kind::kRemoved, then);
      if (order > 0) more = Tell(SnapshotChange::Kind::kAdded, now);
      if (order == 0) more = Both(then.row(), now, below);
      if (order <= 0) has_then = then.Next();
      if (order >= 0) has_now = now.Next();
    }
    if (then.damaged() || now.damaged()) return Fail(Damaged());
    return more;
  }

 private:
  static Error Damaged() {
    return Error{Code::kCorrupt, "the snapshot is damaged: drop it and fetch it again"};
  }

  static int Order(bool has_then, const DirectoryCursor& then, bool has_now,
                   const DirectoryCursor& now) {
    if (!has_then) return 1;
    if (!has_now) return -1;
    return then.name().compare(now.name());
  }

  bool Tell(SnapshotChange::Kind kind, const DirectoryCursor& entry) {
    return visit_({kind, parent_, entry.name(), entry.row().nodeid});
  }

  bool Both(const SnapshotRow& then, const DirectoryCursor& now, std::vector<Pair>& below) {
    const SnapshotRow& row = now.row();
    if (then.nodeid != row.nodeid || then.is_directory() != row.is_directory()) {
      return Tell(SnapshotChange::Kind::kReplaced, now);
    }
    if (row.is_directory() && IsBelow(row.directory)) {
      below.push_back({then.directory, row.directory});
    }
    if (then.mtime_unix_s == row.mtime_unix_s && before_.PosixOf(then) == after_.PosixOf(row)) {
      return true;
    }
    return Tell(SnapshotChange::Kind::kTouched, now);
  }

  /// A folder is entered from its parent alone and has a higher number: no damaged file makes the
  /// walk meet one twice.
  bool IsBelow(std::uint32_t directory) const {
    const std::optional<SnapshotDirectory> found = after_.DirectoryAt(directory);
    return found && found->parent == folder_ && directory > folder_;
  }

  const Snapshot& before_;
  const Snapshot& after_;
  const Visit& visit_;
  std::uint32_t folder_ = 0;  // in `after_`
  std::uint64_t parent_ = 0;  // its nodeid
};

}  // namespace

Status ForEachChange(const Snapshot& before, std::uint32_t directory_before, const Snapshot& after,
                     std::uint32_t directory_after,
                     const std::function<bool(const SnapshotChange&)>& visit) {
  FolderMerge merge(before, after, visit);
  std::vector<Pair> open = {{directory_before, directory_after}};
  while (!open.empty()) {
    const Pair folder = open.back();
    open.pop_back();
    Result<bool> more = merge.Run(folder, open);
    if (!more) return Fail(more.error());
    if (!*more) return {};
  }
  return {};
}

}  // namespace forebay
