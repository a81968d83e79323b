#include "coordinator/preload_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <functional>
#include <optional>
#include <utility>

#include "common/model/record_size.h"
#include "common/s3/list_parser.h"

namespace forebay {
namespace {

constexpr std::size_t kNamesInMessage = 3;

Error Damaged() {
  return Error{Code::kCorrupt,
               "the link's listing is damaged: restart the coordinator, which checks it and lists "
               "again"};
}

std::uint64_t PiecesOf(std::uint64_t size, std::uint64_t block_bytes) {
  return size == 0 ? 1 : (size + block_bytes - 1) / block_bytes;
}

void Append(std::vector<RowRange>& ranges, std::uint32_t row) {
  if (!ranges.empty() && ranges.back().end == row) {
    ++ranges.back().end;
  } else {
    ranges.push_back({row, row + 1});
  }
}

/// Takes rows one after the other, each once.
class PlanBuilder {
 public:
  PlanBuilder(const Snapshot& snapshot, ArchivedObjects archived)
      : snapshot_(snapshot), archived_(archived), taken_(snapshot.rows()) {}

  using Filter = std::function<bool(std::uint32_t row)>;

  /// All files of `root`, or the file itself, that pass the filter. False: the snapshot is damaged.
  bool Take(const SnapshotRow& root, const Filter& filter) {
    if (!root.is_directory()) return TakeRows({root.index, root.index + 1}, filter);
    const std::optional<SnapshotDirectory> top = snapshot_.DirectoryAt(root.directory);
    if (!top) return false;
    for (std::uint32_t number = root.directory; number < top->end; ++number) {
      const std::optional<SnapshotDirectory> folder = snapshot_.DirectoryAt(number);
      if (!folder) return false;
      const RowRange rows{folder->first_row, folder->first_row + folder->row_count};
      if (!TakeRows(rows, filter)) return false;
    }
    return true;
  }

  bool TakeRows(RowRange rows, const Filter& filter) {
    for (std::uint32_t index = rows.begin; index < rows.end; ++index) {
      if (taken_[index]) continue;
      const std::optional<SnapshotRow> row = snapshot_.RowAt(index);
      if (!row) return false;
      if (row->is_directory() || (filter && !filter(index))) continue;
      if (row->archived && archived_ == ArchivedObjects::kLeaveOut) continue;
      taken_[index] = true;
      Append(plan_.rows, index);
      ++plan_.objects;
      plan_.bytes += row->size;
      if (row->size > 0) plan_.blocks += PiecesOf(row->size, snapshot_.block_bytes());
      plan_.disk_bytes += ObjectDiskBytes(row->size, snapshot_.block_bytes());
    }
    return true;
  }

  bool Has(std::uint32_t row) const { return taken_[row]; }
  PreloadPlan& plan() { return plan_; }

 private:
  const Snapshot& snapshot_;
  const ArchivedObjects archived_;
  std::vector<bool> taken_;
  PreloadPlan plan_;
};

/// Names of a list that are not there.
struct Unknown {
  std::uint64_t count = 0;
  std::uint64_t names = 0;
  std::string first;

  void Note(std::string_view name) {
    if (count++ >= kNamesInMessage) return;
    first += fmt::format("{}'{}'", first.empty() ? "" : ", ", Printable(name));
  }
};

/// Calls `visit(row)` for each name of the file that is below `target`; notes the others.
Status ReadNames(const Snapshot& snapshot, const SnapshotRow& target, const std::string& path,
                 Unknown& unknown, const std::function<bool(const SnapshotRow&)>& visit) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return Fail(Code::kInternal, "cannot read the list of names " + path);
  const std::string above = snapshot.PathOf(target);
  std::string line;
  while (std::getline(file, line)) {
    std::string_view name = line;
    while (name.starts_with("./")) name.remove_prefix(2);
    if (name.empty()) continue;
    ++unknown.names;
    std::string full = above.empty() ? std::string(name) : above + "/" + std::string(name);
    const std::optional<SnapshotRow> row = snapshot.Resolve(full);
    if (!row) {
      unknown.Note(name);
    } else if (!visit(*row)) {
      return Fail(Damaged());
    }
  }
  if (file.bad()) return Fail(Code::kInternal, "cannot read the list of names " + path);
  return {};
}

Status CheckKnown(const Unknown& unknown, const Snapshot& snapshot, const SnapshotRow& target) {
  if (unknown.count == 0) return {};
  const std::string path = snapshot.PathOf(target);
  return Fail(Code::kNotFound,
              fmt::format("{} of the {} names in the list are not in {}: {}{}; nothing was started",
                          unknown.count, unknown.names,
                          path.empty() ? "the link" : "'" + Printable(path) + "'", unknown.first,
                          unknown.count > kNamesInMessage ? ", …" : ""));
}

Result<PreloadPlan> WithNames(const Snapshot& snapshot, const SnapshotRow& target,
                              const std::string& file, ArchivedObjects archived) {
  PlanBuilder builder(snapshot, archived);
  if (file.empty()) {
    if (!builder.Take(target, nullptr)) return Fail(Damaged());
    return std::move(builder.plan());
  }
  Unknown unknown;
  auto take = [&](const SnapshotRow& row) { return builder.Take(row, nullptr); };
  Status read = ReadNames(snapshot, target, file, unknown, take);
  if (read) read = CheckKnown(unknown, snapshot, target);
  if (!read) return Fail(read.error());
  return std::move(builder.plan());
}

/// `all`, with the files of the list first.
Result<PreloadPlan> InOrder(const Snapshot& snapshot, const SnapshotRow& target, PreloadPlan all,
                            const std::string& file) {
  PlanBuilder member(snapshot, ArchivedObjects::kTry);
  for (const RowRange& rows : all.rows) {
    if (!member.TakeRows(rows, nullptr)) return Fail(Damaged());
  }
  PlanBuilder builder(snapshot, ArchivedObjects::kTry);
  const auto wanted = [&](std::uint32_t row) { return member.Has(row); };
  Unknown unknown;
  Status read = ReadNames(snapshot, target, file, unknown,
                          [&](const SnapshotRow& row) { return builder.Take(row, wanted); });
  if (read) read = CheckKnown(unknown, snapshot, target);
  if (!read) return Fail(read.error());
  for (const RowRange& rows : all.rows) {
    if (!builder.TakeRows(rows, nullptr)) return Fail(Damaged());
  }
  return std::move(builder.plan());
}

}  // namespace

Result<PreloadPlan> MakePreloadPlan(std::shared_ptr<const Snapshot> snapshot,
                                    const SnapshotRow& target, const NameFiles& files,
                                    ArchivedObjects archived) {
  const bool listed = !files.names.empty() || !files.order.empty();
  if (listed && !target.is_directory()) {
    return Fail(Code::kInvalid,
                fmt::format("'{}' is a file: a list of names needs a folder or a link as target",
                            Printable(snapshot->PathOf(target))));
  }
  Result<PreloadPlan> plan = WithNames(*snapshot, target, files.names, archived);
  if (plan && !files.order.empty()) {
    plan = InOrder(*snapshot, target, std::move(*plan), files.order);
  }
  if (plan) plan->snapshot = std::move(snapshot);
  return plan;
}

PreloadNeed NeedOf(const PreloadPlan& plan, const CacheTally& cached, double share,
                   const PreloadRoom& room) {
  const auto missing = [share, &room](std::uint64_t all, std::uint64_t there) {
    const double part = share == 0 ? 1.0 : share;
    const auto wanted = static_cast<std::uint64_t>(std::ceil(part * static_cast<double>(all)));
    return (wanted - std::min(wanted, there)) * room.replicas;
  };
  const std::uint64_t of_blocks = missing(plan.bytes, cached.cached_bytes);
  const std::uint64_t in_quota = room.quota_bytes - std::min(room.quota_bytes, room.link_bytes);
  if (room.quota_bytes != 0 && of_blocks > in_quota && in_quota < room.disk_bytes)
    return {.needed_bytes = of_blocks, .room_bytes = in_quota, .quota_bound = true};
  return {.needed_bytes = missing(plan.disk_bytes, cached.cached_disk_bytes),
          .room_bytes = room.disk_bytes,
          .quota_bound = false};
}

Result<bool> PreloadWalk::NextFile() {
  version_known_ = false;
  offset_ = 0;
  for (; range_ < plan_->rows.size(); ++range_) {
    const RowRange& rows = plan_->rows[range_];
    next_row_ = std::max(next_row_, rows.begin);
    while (next_row_ < rows.end) {
      const std::optional<SnapshotRow> row = plan_->snapshot->RowAt(next_row_++);
      if (!row) return Fail(Damaged());
      if (row->is_directory()) continue;
      file_ = *row;
      in_file_ = true;
      return true;
    }
    next_row_ = 0;
  }
  return false;
}

Result<std::vector<PreloadPiece>> PreloadWalk::Next(std::size_t limit) {
  const Snapshot& snapshot = *plan_->snapshot;
  std::vector<PreloadPiece> pieces;
  while (pieces.size() < limit) {
    if (!in_file_) {
      Result<bool> more = NextFile();
      if (!more) return Fail(more.error());
      if (!*more) break;
    }
    PreloadPiece piece;
    piece.row = file_.index;
    if (file_.size > 0) {
      if (!std::exchange(version_known_, true)) version_ = snapshot.VersionOf(file_);
      piece.block = BlockAt(version_, file_.size, snapshot.block_bytes(), offset_);
      offset_ += piece.block.length;
    }
    piece.ends_object = offset_ == file_.size;
    in_file_ = !piece.ends_object;
    pieces.push_back(piece);
  }
  return pieces;
}

Status PreloadWalk::Skip(std::uint64_t pieces) {
  const std::uint64_t block_bytes = plan_->snapshot->block_bytes();
  while (pieces > 0) {
    Result<bool> more = NextFile();
    if (!more) return Fail(more.error());
    if (!*more) return {};
    const std::uint64_t here = PiecesOf(file_.size, block_bytes);
    if (pieces < here) {
      offset_ = pieces * block_bytes;
      return {};
    }
    pieces -= here;
    in_file_ = false;
  }
  return {};
}

}  // namespace forebay
