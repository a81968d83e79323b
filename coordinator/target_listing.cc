#include "coordinator/target_listing.h"

#include <string>
#include <string_view>
#include <utility>

namespace forebay {
namespace {

constexpr std::uint32_t kFile = 0;  // ListedEntry.kind
constexpr std::uint32_t kDirectory = 1;

proto::ListedEntry EntryOf(const Snapshot& snapshot, std::string_view name,
                           const SnapshotRow& row) {
  proto::ListedEntry entry;
  entry.set_name(std::string(name));
  entry.set_kind(row.is_directory() ? kDirectory : kFile);
  entry.set_size(row.size);
  entry.set_mtime_s(row.mtime_unix_s);
  if (!row.is_directory()) entry.set_etag(snapshot.EtagOf(row));
  return entry;
}

}  // namespace

Result<TargetPage> ListEntries(const Snapshot& snapshot, const SnapshotRow& target,
                               std::uint64_t cursor, std::uint32_t limit) {
  TargetPage page;
  if (!target.is_directory()) {
    page.entries.push_back(EntryOf(snapshot, snapshot.NameOf(target), target));
    page.rows.push_back(target);
    return page;
  }
  DirectoryCursor entries = snapshot.ReadDirectory(target.directory, cursor);
  std::uint64_t position = cursor;
  while (entries.Next()) {
    if (page.entries.size() == limit) {
      page.next_cursor = position;
      break;
    }
    page.entries.push_back(EntryOf(snapshot, entries.name(), entries.row()));
    page.rows.push_back(entries.row());
    position = entries.position();
  }
  if (entries.damaged()) return Fail(Code::kCorrupt, "the link's listing is damaged");
  return page;
}

Result<TargetPage> ListHidden(const Snapshot& snapshot, const SnapshotRow& target,
                              std::uint64_t cursor, std::uint32_t limit) {
  TargetPage page;
  if (!target.is_directory()) return page;
  const std::string below = snapshot.KeyOf(target);
  std::uint64_t index = 0;
  Status walked = snapshot.ForEachHidden([&](std::string_view key, HiddenReason reason) {
    if (!key.starts_with(below)) return true;
    if (index++ < cursor) return true;
    if (page.entries.size() == limit) {
      page.next_cursor = index - 1;
      return false;
    }
    proto::ListedEntry entry;
    entry.set_name(std::string(key));
    entry.set_reason(std::string(HiddenReasonText(reason)));
    page.entries.push_back(std::move(entry));
    return true;
  });
  if (!walked) return Fail(walked.error());
  return page;
}

}  // namespace forebay
