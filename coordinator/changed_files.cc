#include "coordinator/changed_files.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <utility>

#include "common/base/wall_clock.h"
#include "common/model/key_rules.h"
#include "common/s3/list_parser.h"
#include "common/wire/messages.h"
#include "coordinator/records.h"

namespace forebay {
namespace {

constexpr std::string_view kPrefix = "changed/";

std::string KeyOf(const Uuid& link) { return fmt::format("{}{}", kPrefix, link.ToString()); }

bool IsBelow(std::string_view path, std::string_view folder) {
  if (folder.empty() || path == folder) return true;
  return path.size() > folder.size() && path.starts_with(folder) && path[folder.size()] == '/';
}

}  // namespace

std::string CommonFolder(const std::vector<std::string>& paths) {
  if (paths.empty()) return {};
  const std::string& first = paths.front();
  std::size_t length = first.rfind('/') == std::string::npos ? 0 : first.rfind('/');
  for (const std::string& path : paths) {
    while (length > 0 && !(path.starts_with(first.substr(0, length)) && path.size() > length &&
                           path[length] == '/')) {
      const std::size_t slash = first.rfind('/', length - 1);
      length = slash == std::string::npos ? 0 : slash;
    }
  }
  return first.substr(0, length);
}

Status ChangedFiles::Load() {
  Result<std::vector<std::pair<std::string, std::string>>> rows =
      parts_.store.Scan(std::string(kPrefix));
  if (!rows) return Fail(rows.error());
  StateBatch gone;
  {
    const std::scoped_lock lock(mutex_);
    for (const auto& [key, value] : *rows) {
      const Uuid id = Uuid::Parse(key.substr(kPrefix.size()));
      if (!parts_.links.FindById(id)) {
        gone.Delete(key);
        continue;
      }
      Status decoded = DecodeRecord(value, kept_[id]);
      if (!decoded) return decoded;
    }
  }
  return gone.empty() ? Status() : parts_.store.Write(gone, parts_.fence);
}

void ChangedFiles::Note(const proto::HeartbeatRequest& heartbeat) {
  if (heartbeat.changed().empty()) return;
  for (const proto::ChangedObject& object : heartbeat.changed()) {
    const Uuid id = UuidFromBytes(object.link());
    const std::optional<Link> link = parts_.links.FindById(id);
    if (!link) continue;
    const auto path = RelativeKey(link->spec.origin.prefix, object.key());
    if (!path || !IsListed(id, *path, object.etag())) continue;  // a reader behind the times
    spdlog::info("s3://{}/{} is not what was listed any more, says node {}",
                 link->spec.origin.bucket, Printable(object.key()), heartbeat.node_id());
    const std::scoped_lock lock(mutex_);
    waiting_[id].try_emplace(
        std::string(*path),
        Report{.path = std::string(*path), .etag = object.etag(), .since_unix_s = UnixSeconds()});
  }
  reported_.NotifyAll();
}

bool ChangedFiles::IsBusy() const {
  const std::scoped_lock lock(mutex_);
  return !waiting_.empty();
}

bool ChangedFiles::IsListed(const Uuid& link, std::string_view path, std::string_view etag) const {
  const std::optional<Link> now = parts_.links.FindById(link);
  if (!now || !now->generation) return false;
  const auto open = parts_.index.Find(link, now->generation->generation());
  if (!open) return false;
  const std::shared_ptr<const Snapshot> snapshot = open->snapshot();
  const std::optional<SnapshotRow> row = snapshot->Resolve(path);
  return row && !row->is_directory() && snapshot->EtagOf(*row) == etag;
}

Task<void> ChangedFiles::Look() {
  std::vector<Uuid> ids;
  {
    const std::scoped_lock lock(mutex_);
    for (const auto& [id, reports] : waiting_) ids.push_back(id);
  }
  for (const Uuid& id : ids) co_await LookAt(id);
}

/// What is still as it was reported. With it goes what has been listed anew.
std::vector<ChangedFiles::Report> ChangedFiles::Due(const Link& link) {
  std::vector<Report> due;
  const std::scoped_lock lock(mutex_);
  Reports& reports = waiting_[link.spec.id];
  std::erase_if(reports, [&](const auto& entry) {
    return !IsListed(link.spec.id, entry.first, entry.second.etag);
  });
  for (const auto& [path, report] : reports) due.push_back(report);
  if (due.empty()) waiting_.erase(link.spec.id);
  return due;
}

Task<void> ChangedFiles::LookAt(Uuid id) {
  const std::optional<Link> link = parts_.links.FindById(id);
  if (!link) {
    const std::scoped_lock lock(mutex_);
    waiting_.erase(id);
    co_return;
  }
  if (!link->task_id.empty()) co_return;  // it is being listed: its end shows what it saw
  std::vector<Report> due = Due(*link);
  const bool frozen = link->spec.refresh == RefreshPolicy::kImmutable;
  std::vector<Report> settled;  // nothing more can be done
  std::vector<Report> open;
  for (const Report& report : due) {
    if (frozen || report.listed) {
      settled.push_back(report);
    } else {
      open.push_back(report);
    }
  }
  if (!settled.empty()) {
    auto keep = [this, id, settled] { return Keep(id, settled); };
    Status kept = co_await parts_.offload.Run(std::move(keep));
    if (!kept) spdlog::error("changed files are not remembered: {}", kept.error().message);
  }
  if (!open.empty()) co_await ListAnew(link->spec, std::move(open));
}

/// One generation for all of them: what it costs does not grow with their number (docs/adr/0037).
Task<void> ChangedFiles::ListAnew(LinkSpec link, std::vector<Report> reports) {
  std::vector<std::string> all;
  std::vector<std::string> paths;  // not listed with others yet
  for (const Report& report : reports) {
    all.push_back(report.path);
    if (!report.listed_together) paths.push_back(report.path);
  }
  const bool together = paths.size() > 1 && all.size() <= kMostSingle;
  if (all.size() > kMostSingle) {
    paths = {CommonFolder(all)};
  } else if (!together) {
    paths = {all.front()};
  }
  const bool begun = co_await parts_.refresh(link, paths);
  if (!begun) co_return;
  const std::scoped_lock lock(mutex_);
  for (auto& [each, report] : waiting_[link.id]) {
    const bool is_one = std::ranges::find(paths, each) != paths.end();
    if (together && is_one) report.listed_together = true;
    if (!together && IsBelow(each, paths.front())) report.listed = true;
  }
}

/// Blocks.
Status ChangedFiles::Keep(const Uuid& id, const std::vector<Report>& reports) {
  proto::ChangedFilesRecord next;
  {
    const std::scoped_lock lock(mutex_);
    for (const Report& report : reports) waiting_[id].erase(report.path);
    if (waiting_[id].empty()) waiting_.erase(id);
    next = kept_[id];
  }
  // Those that a later listing has shown anew make room.
  proto::ChangedFilesRecord all;
  for (const proto::ChangedFilesRecord::File& file : next.files()) {
    const bool again =
        std::ranges::any_of(reports, [&](const Report& r) { return r.path == file.path(); });
    if (!again && IsListed(id, file.path(), file.etag())) *all.add_files() = file;
  }
  for (const Report& report : reports) {
    if (static_cast<std::size_t>(all.files_size()) >= kMostKept) break;
    proto::ChangedFilesRecord::File& file = *all.add_files();
    file.set_path(report.path);
    file.set_etag(report.etag);
    file.set_since_unix_s(report.since_unix_s);
  }
  StateBatch batch;
  batch.Put(KeyOf(id), all.SerializeAsString());
  Status written = parts_.store.Write(batch, parts_.fence);
  const std::scoped_lock lock(mutex_);
  kept_[id] = std::move(all);
  return written;
}

std::vector<proto::ChangedFile> ChangedFiles::Below(const Uuid& link, std::string_view path) const {
  proto::ChangedFilesRecord record;
  {
    const std::scoped_lock lock(mutex_);
    const auto kept = kept_.find(link);
    if (kept != kept_.end()) record = kept->second;
  }
  std::vector<proto::ChangedFile> files;
  for (const proto::ChangedFilesRecord::File& file : record.files()) {
    if (!IsBelow(file.path(), path) || !IsListed(link, file.path(), file.etag())) continue;
    proto::ChangedFile& changed = files.emplace_back();
    changed.set_path(file.path());
    changed.set_since_unix_s(file.since_unix_s());
  }
  return files;
}

}  // namespace forebay
