#include "coordinator/link_registry.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <charconv>
#include <tuple>
#include <utility>

#include "common/model/link_set.h"
#include "common/wire/messages.h"
#include "coordinator/frozen_links.h"
#include "coordinator/records.h"
#include "coordinator/target.h"

namespace forebay {
namespace {

constexpr const char* kLinkPrefix = "link/";
constexpr const char* kVersionKey = "links/version";

std::string LinkKey(const Uuid& id) { return kLinkPrefix + id.ToString(); }

std::string Encode(const Link& link) {
  proto::LinkRecord record;
  *record.mutable_spec() = ToProto(link.spec);
  if (link.generation) *record.mutable_generation() = *link.generation;
  if (link.previous) *record.mutable_previous() = *link.previous;
  record.set_next_generation(link.next_generation);
  record.set_task_id(link.task_id);
  // A release that knows one path alone lists the whole link instead of several.
  const std::vector<std::string> paths = SplitPaths(link.refresh_path);
  if (paths.size() > 1) *record.mutable_refresh_paths() = {paths.begin(), paths.end()};
  if (paths.size() <= 1) record.set_refresh_path(link.refresh_path);
  record.set_checked_unix_s(link.checked_unix_s);
  record.set_refresh_error(link.refresh_error);
  return record.SerializeAsString();
}

Result<Link> Decode(std::string_view bytes) {
  proto::LinkRecord record;
  Status decoded = DecodeRecord(bytes, record);
  if (!decoded) return Fail(decoded.error());
  Result<LinkSpec> spec = FromProto(record.spec());
  if (!spec) return Fail(spec.error());
  Link link;
  link.spec = std::move(*spec);
  if (record.has_generation()) link.generation = record.generation();
  if (record.has_previous()) link.previous = record.previous();
  link.next_generation = record.next_generation();
  link.task_id = record.task_id();
  link.refresh_path = record.refresh_path();
  if (const auto& paths = record.refresh_paths(); !paths.empty())
    link.refresh_path = JoinPaths({paths.begin(), paths.end()});
  link.checked_unix_s = record.checked_unix_s();
  link.refresh_error = record.refresh_error();
  return link;
}

/// `parts` as they are when they are what is wanted.
Result<std::vector<LinkRegistry::Added>> SameSet(const std::vector<Link>& parts,
                                                 const std::vector<LinkSpec>& wanted) {
  const std::string& set = wanted.front().set;
  std::vector<LinkRegistry::Added> same;
  for (const LinkSpec& spec : wanted) {
    const auto part = std::ranges::find(
        parts, spec.name, [](const Link& link) { return std::string_view(link.spec.name); });
    const std::string difference = part == parts.end()
                                       ? "it has no part '" + std::string(PartOf(spec)) + "'"
                                       : DescribeDifference(part->spec, spec);
    if (!difference.empty()) {
      return Fail(Code::kInvalid,
                  fmt::format("set '{}' exists with other parts or options ({}): unlink it first, "
                              "or give this one another name with --as",
                              set, difference));
    }
    same.push_back({.link = *part, .is_new = false});
  }
  if (parts.size() == wanted.size()) return same;
  return Fail(Code::kInvalid,
              fmt::format("set '{}' exists with {} parts, not {}: unlink it first, or give this "
                          "one another name with --as",
                          set, parts.size(), wanted.size()));
}

/// What a refresh of `paths` of the link is called.
std::string TargetOf(const Link& link, const std::vector<std::string>& paths) {
  if (paths.empty()) return link.spec.name;
  const std::string first = link.spec.name + "/" + paths.front();
  return paths.size() == 1 ? first : fmt::format("{} and {} more", first, paths.size() - 1);
}

}  // namespace

std::string JoinPaths(const std::vector<std::string>& paths) {
  std::string joined;
  for (const std::string& path : paths) {
    if (!joined.empty()) joined.push_back('\0');
    joined += path;
  }
  return joined;
}

std::vector<std::string> SplitPaths(std::string_view joined) {
  std::vector<std::string> paths;
  while (!joined.empty()) {
    const std::size_t end = std::min(joined.find('\0'), joined.size());
    if (end > 0) paths.emplace_back(joined.substr(0, end));
    joined.remove_prefix(std::min(end + 1, joined.size()));
  }
  return paths;
}

LinkRegistry::LinkRegistry(StateStore& store, std::uint64_t fence, TaskBook& tasks)
    : store_(store), fence_(fence), tasks_(tasks) {}

Status LinkRegistry::Load() {
  Result<std::optional<std::string>> version = store_.Get(kVersionKey);
  if (!version) return Fail(version.error());
  auto rows = store_.Scan(kLinkPrefix);
  if (!rows) return Fail(rows.error());
  std::scoped_lock lock(mutex_);
  if (version->has_value()) {
    const std::string& text = **version;
    std::from_chars(text.data(), text.data() + text.size(), version_);
  }
  for (const auto& [key, value] : *rows) {
    Result<Link> link = Decode(value);
    if (!link) return Fail(link.error().Within("reading " + key));
    std::string name = link->spec.name;
    links_.insert_or_assign(std::move(name), std::move(*link));
  }
  return {};
}

Status LinkRegistry::Persist(StateBatch batch) {
  batch.Put(kVersionKey, std::to_string(version() + 1));
  for (std::string& key : tasks_.TakeExpiredKeys()) batch.Delete(std::move(key));
  return store_.Write(batch, fence_);
}

Status LinkRegistry::CheckNoSet(std::string_view name) const {
  const std::vector<Link> parts = PartsOf(name);
  if (parts.empty()) return {};
  return Fail(Code::kInvalid,
              fmt::format("'{}' is a set of {} links: unlink it first, or give this one another "
                          "name with --as",
                          name, parts.size()));
}

Status LinkRegistry::CheckAdd(const LinkSpec& spec) const {
  Status free = CheckNoSet(spec.name);
  if (!free) return free;
  std::scoped_lock lock(mutex_);
  const auto existing = links_.find(spec.name);
  if (existing == links_.end()) return CheckSharing(spec);
  const std::string difference = DescribeDifference(existing->second.spec, spec);
  if (difference.empty()) return {};
  return Fail(Code::kInvalid,
              fmt::format("link '{}' exists with other options ({}): unlink it first, or give "
                          "this one another name with --as",
                          spec.name, difference));
}

/// Who reads through one link gets what was fetched through the other: S3 has to allow both alike.
Status LinkRegistry::CheckSharing(const LinkSpec& spec) const {
  if (spec.sharing_domain.empty()) return {};
  const auto access = [](const LinkOrigin& origin) {
    return std::tie(origin.profile, origin.sign, origin.requester_pays, origin.expected_owner);
  };
  for (const auto& [name, link] : links_) {
    if (link.spec.sharing_domain != spec.sharing_domain) continue;
    if (access(link.spec.origin) == access(spec.origin)) continue;
    return Fail(Code::kInvalid,
                fmt::format("link '{}' of sharing domain '{}' reaches S3 with another profile, "
                            "signature, payer or expected owner: links share blocks only where S3 "
                            "allows them the same; give this one the same, or another domain",
                            name, spec.sharing_domain));
  }
  return {};
}

Result<LinkRegistry::Added> LinkRegistry::Add(LinkSpec spec) {
  std::scoped_lock changing(change_mutex_);
  Status fits = CheckAdd(spec);
  if (!fits) return Fail(fits.error());
  {
    std::scoped_lock lock(mutex_);
    const auto existing = links_.find(spec.name);
    if (existing != links_.end()) return Added{.link = existing->second, .is_new = false};
  }
  Link link;
  link.spec = std::move(spec);
  const proto::TaskState task = TaskBook::Begin("link", link.spec.name);
  link.task_id = task.id();
  Status stored = Store(link, task);
  if (!stored) return Fail(stored.error());
  return Added{.link = std::move(link), .is_new = true};
}

Status LinkRegistry::CheckNewSet(const std::vector<LinkSpec>& specs) const {
  const std::string& set = specs.front().set;
  std::scoped_lock lock(mutex_);
  if (links_.contains(set)) {
    return Fail(Code::kInvalid, fmt::format("'{}' is a link: unlink it first, or give the set "
                                            "another name with --as",
                                            set));
  }
  for (const LinkSpec& spec : specs) {
    Status may = CheckSharing(spec);
    if (!may) return may;
    const bool is_set = std::ranges::any_of(
        links_, [&](const auto& link) { return link.second.spec.set == spec.name; });
    if (!is_set && !links_.contains(spec.name)) continue;
    return Fail(Code::kInvalid,
                fmt::format("'{}' is to be a part of the set '{}', and is the name of a {}: unlink "
                            "that first, or name the part otherwise, as in NAME=s3://bucket/prefix",
                            spec.name, set, is_set ? "set" : "link"));
  }
  return {};
}

Status LinkRegistry::CheckAddSet(const std::vector<LinkSpec>& specs) const {
  const std::vector<Link> parts = PartsOf(specs.front().set);
  if (parts.empty()) return CheckNewSet(specs);
  const Result<std::vector<Added>> same = SameSet(parts, specs);
  if (!same) return Fail(same.error());
  return {};
}

Result<std::vector<LinkRegistry::Added>> LinkRegistry::AddSet(std::vector<LinkSpec> specs) {
  std::scoped_lock changing(change_mutex_);
  const std::vector<Link> parts = PartsOf(specs.front().set);
  if (!parts.empty()) return SameSet(parts, specs);
  const Status free = CheckNewSet(specs);
  if (!free) return Fail(free.error());
  std::vector<Added> added;
  std::vector<proto::TaskState> tasks;
  StateBatch batch;
  for (LinkSpec& spec : specs) {
    Link link;
    link.spec = std::move(spec);
    tasks.push_back(TaskBook::Begin("link", link.spec.name));
    link.task_id = tasks.back().id();
    batch.Put(LinkKey(link.spec.id), Encode(link));
    TaskBook::Put(batch, tasks.back());
    added.push_back({.link = std::move(link), .is_new = true});
  }
  const Status written = Persist(std::move(batch));
  if (!written) return Fail(written.error());
  for (const proto::TaskState& task : tasks) tasks_.Commit(task);
  std::scoped_lock lock(mutex_);
  ++version_;
  for (const Added& each : added) links_.insert_or_assign(each.link.spec.name, each.link);
  return added;
}

std::optional<Link> LinkRegistry::Locked(const Uuid& id) const {
  for (const auto& [name, link] : links_) {
    if (link.spec.id == id) return link;
  }
  return std::nullopt;
}

Status LinkRegistry::Store(const Link& link, const std::optional<proto::TaskState>& task,
                           StateBatch batch) {
  batch.Put(LinkKey(link.spec.id), Encode(link));
  if (task) {
    TaskBook::Put(batch, *task);
    tasks_.PutFailures(batch, task->id());
  }
  Status written = Persist(std::move(batch));
  if (!written) return written;
  if (task) tasks_.Commit(*task);
  std::scoped_lock lock(mutex_);
  ++version_;
  links_.insert_or_assign(link.spec.name, link);
  return {};
}

Result<LinkRegistry::Added> LinkRegistry::BeginRefresh(const Uuid& id, const std::string& path,
                                                       RefreshCause cause) {
  std::scoped_lock changing(change_mutex_);
  std::optional<Link> link = FindById(id);
  if (!link) return Fail(Code::kNotFound, "the link was removed");
  if (!link->task_id.empty()) return Added{.link = std::move(*link), .is_new = false};
  proto::TaskState task = TaskBook::Begin("refresh", TargetOf(*link, SplitPaths(path)));
  task.set_periodic(cause == RefreshCause::kPeriod);
  link->task_id = task.id();
  link->refresh_path = path;
  Status stored = Store(*link, task);
  if (!stored) return Fail(stored.error());
  return Added{.link = std::move(*link), .is_new = true};
}

Status LinkRegistry::Publish(const Uuid& id, const proto::GenerationInfo& generation,
                             const SnapshotDifference& difference) {
  std::scoped_lock changing(change_mutex_);
  std::optional<Link> link = FindById(id);
  if (!link) return Fail(Code::kNotFound, "the link was removed while it was listed");
  link->previous = std::exchange(link->generation, generation);
  if (link->previous) link->previous->clear_deltas();
  // Made anew because it was lost.
  if (link->spec.refresh == RefreshPolicy::kImmutable) link->previous.reset();
  // Pins follow by path: other blocks are pinned now.
  if (link->spec.pins_version != 0) link->spec.pins_version = version() + 1;
  link->next_generation = generation.generation() + 1;
  if (link->refresh_path.empty()) link->checked_unix_s = generation.listed_unix_s();
  link->refresh_error.clear();
  std::optional<proto::TaskState> task = tasks_.Find(std::exchange(link->task_id, ""));
  if (task) {
    task->set_total(generation.objects());
    if (link->refresh_path.empty()) TaskBook::CountListed(*task, generation);
    task->set_added(difference.added);
    task->set_removed(difference.removed);
    task->set_changed(difference.changed);
    *task = TaskBook::Ended(*task, "");
  }
  link->refresh_path.clear();
  return Store(*link, task);
}

Status LinkRegistry::Confirm(const Uuid& id, std::int64_t begun_unix_s) {
  std::scoped_lock changing(change_mutex_);
  std::optional<Link> link = FindById(id);
  if (!link) return Fail(Code::kNotFound, "the link was removed while it was listed");
  if (link->refresh_path.empty()) link->checked_unix_s = begun_unix_s;
  const bool found_again = IsListingLost(*link);  // nothing was listed
  link->refresh_path.clear();
  link->refresh_error.clear();
  std::optional<proto::TaskState> task = tasks_.Find(std::exchange(link->task_id, ""));
  if (task) {
    if (found_again) task->set_bytes(link->generation->bytes());
    task->set_total(found_again ? link->generation->objects() : task->done());
    *task = TaskBook::Ended(*task, "");
  }
  return Store(*link, task);
}

Status LinkRegistry::RemoveAll(const std::vector<Link>& links, const TaskEnd& end) {
  StateBatch batch;
  std::vector<proto::TaskState> ended;
  for (const Link& link : links) {
    batch.Delete(LinkKey(link.spec.id));
    const std::optional<proto::TaskState> task = tasks_.Find(link.task_id);
    if (!task) continue;
    ended.push_back(end(link, *task));
    TaskBook::Put(batch, ended.back());
  }
  const Status written = Persist(std::move(batch));
  if (!written) return written;
  for (const proto::TaskState& task : ended) tasks_.Commit(task);
  std::scoped_lock lock(mutex_);
  ++version_;
  for (const Link& link : links) links_.erase(link.spec.name);
  return {};
}

Result<std::vector<Link>> LinkRegistry::FailListing(const Uuid& id, const std::string& reason) {
  std::scoped_lock changing(change_mutex_);
  std::optional<Link> link = FindById(id);
  if (!link) return std::vector<Link>();
  if (link->generation || link->HasLostGeneration()) {
    std::optional<proto::TaskState> task = tasks_.Find(std::exchange(link->task_id, ""));
    if (task) *task = TaskBook::Ended(*task, reason);
    link->refresh_path.clear();
    link->refresh_error = reason;
    const Status stored = Store(*link, task);
    if (!stored) return Fail(stored.error());
    return std::vector<Link>();
  }
  std::vector<Link> gone = {*link};
  if (!link->spec.set.empty()) gone = PartsOf(link->spec.set);
  const Status removed = RemoveAll(gone, [&](const Link& each, const proto::TaskState& task) {
    if (each.spec.id == id) return TaskBook::Ended(task, reason);
    return TaskBook::Ended(task, fmt::format("the set is removed, for '{}' cannot be listed: {}",
                                             link->spec.name, reason));
  });
  if (!removed) return Fail(removed.error());
  return gone;
}

Status LinkRegistry::CancelRefresh(const Uuid& id, const std::string& reason) {
  std::scoped_lock changing(change_mutex_);
  std::optional<Link> link = FindById(id);
  if (!link) return {};
  std::optional<proto::TaskState> task = tasks_.Find(std::exchange(link->task_id, ""));
  if (task) *task = TaskBook::Cancelled(*task, reason);
  link->refresh_path.clear();
  return Store(*link, task);
}

Status LinkRegistry::Relist(const Uuid& id) {
  std::scoped_lock changing(change_mutex_);
  std::optional<Link> link = FindById(id);
  if (!link) return Fail(Code::kNotFound, "the link was removed");
  // What an immutable link shows is known by its digest, whoever has the file.
  if (link->spec.refresh != RefreshPolicy::kImmutable) link->generation.reset();
  link->previous.reset();
  link->refresh_path.clear();
  const std::optional<proto::TaskState> before = tasks_.Find(link->task_id);
  const proto::TaskState task = TaskBook::Begin("link", link->spec.name);
  link->task_id = task.id();
  if (!before) return Store(*link, task);
  // Whoever waits for it would wait for ever.
  const proto::TaskState ended = TaskBook::Cancelled(
      *before, fmt::format("the listing that it built on was lost: task {} lists all of '{}' again",
                           task.id(), link->spec.name));
  StateBatch also;
  TaskBook::Put(also, ended);
  const Status stored = Store(*link, task, std::move(also));
  if (stored) tasks_.Commit(ended);
  return stored;
}

Status LinkRegistry::Decide(const Uuid& id,
                            const std::function<void(LinkSpec&, std::uint64_t)>& change,
                            StateBatch also) {
  std::scoped_lock changing(change_mutex_);
  std::optional<Link> link = FindById(id);
  if (!link) return Fail(Code::kNotFound, "the link was removed");
  change(link->spec, version() + 1);
  also.Put(LinkKey(id), Encode(*link));
  Status written = Persist(std::move(also));
  if (!written) return written;
  std::scoped_lock lock(mutex_);
  ++version_;
  links_.insert_or_assign(link->spec.name, *link);
  return {};
}

Result<std::vector<Link>> LinkRegistry::Remove(std::string_view name) {
  std::scoped_lock changing(change_mutex_);
  std::vector<Link> gone = PartsOf(name);
  if (gone.empty()) {
    Result<Link> link = Find(name);
    if (!link) return Fail(link.error());
    if (!link->spec.set.empty()) {
      return Fail(Code::kInvalid,
                  fmt::format("'{}' is a part of the set '{}', which is removed as a whole: "
                              "`forebay unlink {}`; nothing was changed",
                              name, link->spec.set, link->spec.set));
    }
    gone.push_back(std::move(*link));
  }
  const Status removed = RemoveAll(gone, [](const Link&, const proto::TaskState& task) {
    return TaskBook::Cancelled(task, "the link was removed");
  });
  if (!removed) return Fail(removed.error());
  return gone;
}

std::vector<Link> LinkRegistry::PartsOf(std::string_view set) const {
  std::vector<Link> parts;
  if (set.empty()) return parts;
  std::scoped_lock lock(mutex_);
  for (const auto& [name, link] : links_) {
    if (link.spec.set == set) parts.push_back(link);
  }
  return parts;
}

std::vector<Link> LinkRegistry::All() const {
  std::scoped_lock lock(mutex_);
  std::vector<Link> all;
  all.reserve(links_.size());
  for (const auto& [name, link] : links_) all.push_back(link);
  return all;
}

std::vector<LinkSpec> LinkRegistry::Specs() const {
  std::scoped_lock lock(mutex_);
  std::vector<LinkSpec> specs;
  specs.reserve(links_.size());
  for (const auto& [name, link] : links_) specs.push_back(link.spec);
  return specs;
}

Result<Link> LinkRegistry::Find(std::string_view name) const {
  {
    std::scoped_lock lock(mutex_);
    const auto link = links_.find(name);
    if (link != links_.end()) return link->second;
  }
  return Fail(UnknownLink(name, Specs()));
}

std::optional<Link> LinkRegistry::FindById(const Uuid& id) const {
  std::scoped_lock lock(mutex_);
  return Locked(id);
}

std::uint64_t LinkRegistry::version() const {
  std::scoped_lock lock(mutex_);
  return version_;
}

}  // namespace forebay
