#include "coordinator/etcd_state_store.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <charconv>
#include <set>
#include <sstream>
#include <string_view>

namespace forebay {
namespace {

/// Values from here on are stored in pieces of this size: a transaction has 1 MiB.
constexpr std::size_t kPart = std::size_t{512} << 10;
constexpr char kInline = 'v';
constexpr char kInParts = 'p';
constexpr int kClaimTries = 8;

/// Of "EPOCH.WRITE"; 0 when there is none.
std::uint64_t EpochOf(std::string_view fence) {
  std::uint64_t epoch = 0;
  (void)std::from_chars(fence.data(), fence.data() + fence.size(), epoch);
  return epoch;
}

struct Reference {
  std::string id;
  std::size_t count = 0;
  std::size_t size = 0;
};

std::optional<Reference> ReferenceIn(const std::string& stored) {
  if (stored.empty() || stored.front() != kInParts) return std::nullopt;
  Reference reference;
  std::istringstream words(stored.substr(1));
  if (!(words >> reference.id >> reference.count >> reference.size)) return std::nullopt;
  return reference;
}

void AppendText(std::string& bytes, std::string_view text) {
  bytes += std::to_string(text.size()) + ":";
  bytes += text;
}

/// Takes what AppendText wrote from the beginning of `bytes`.
std::optional<std::string> TakeText(std::string_view& bytes) {
  std::size_t size = 0;
  const auto parsed = std::from_chars(bytes.data(), bytes.data() + bytes.size(), size);
  const auto digits = static_cast<std::size_t>(parsed.ptr - bytes.data());
  if (parsed.ec != std::errc() || digits >= bytes.size() || bytes[digits] != ':') {
    return std::nullopt;
  }
  bytes.remove_prefix(digits + 1);
  if (size > bytes.size()) return std::nullopt;
  std::string text(bytes.substr(0, size));
  bytes.remove_prefix(size);
  return text;
}

Error Damaged(const std::string& key) {
  return Error{Code::kCorrupt, fmt::format("the state in etcd is damaged ('{}' is not whole): "
                                           "restore a backup of it",
                                           key)};
}

}  // namespace

EtcdStateStore::EtcdStateStore(EtcdClient& client, std::optional<EtcdCondition> guard,
                               std::function<void()> in_doubt)
    : client_(client), guard_(std::move(guard)), tell_in_doubt_(std::move(in_doubt)) {}

Result<std::uint64_t> EtcdStateStore::ClaimAbove(std::uint64_t least) {
  const std::scoped_lock lock(write_mutex_);
  for (int tried = 0; tried < kClaimTries; ++tried) {
    Result<std::optional<EtcdPair>> stored = client_.Get(At("fence"));
    if (!stored) return Fail(stored.error());
    const std::uint64_t before = stored->has_value() ? EpochOf((*stored)->value) : 0;
    const std::uint64_t mine = std::max(before, least) + 1;
    EtcdCondition unchanged{.key = At("fence"), .value = std::nullopt};
    if (stored->has_value()) unchanged.value = (*stored)->value;
    EtcdTransaction claim;
    claim.conditions.push_back(std::move(unchanged));
    if (guard_) claim.conditions.push_back(*guard_);
    const std::string fence = std::to_string(mine) + ".0";
    claim.changes.push_back({.key = At("fence"), .value = fence});
    if (guard_) claim.read_otherwise = guard_->key;
    Result<EtcdClient::Outcome> outcome = client_.Commit(claim);
    if (!outcome) return Fail(outcome.error());
    if (outcome->done) {
      epoch_ = mine;
      writes_ = 0;
      expected_ = fence;
      in_doubt_ = false;  // what was not made by now cannot be any more
      Status recovered = Recover();
      if (!recovered) return Fail(recovered.error());
      return mine;
    }
    if (guard_ && (!outcome->found || outcome->found->create_revision != guard_->created)) break;
  }
  return Fail(Code::kDenied, "another coordinator leads: this one does not claim the state");
}

/// After a crash: a batch that was made is applied; pieces that no value names go.
Status EtcdStateStore::Recover() {
  redo_.reset();
  refs_.clear();
  Result<std::optional<EtcdPair>> redo = client_.Get(At("redo"));
  if (!redo) return Fail(redo.error());
  if (redo->has_value()) {
    Result<std::string> bytes = Decode(At("redo"), (*redo)->value);
    if (!bytes) return Fail(bytes.error());
    std::string_view rest = *bytes;
    Changes changes;
    while (!rest.empty()) {
      const bool is_put = rest.front() == 'P';
      rest.remove_prefix(1);
      std::optional<std::string> key = TakeText(rest);
      std::optional<std::string> value = is_put ? TakeText(rest) : std::nullopt;
      if (!key || (is_put && !value)) return Fail(Damaged(At("redo")));
      changes.insert_or_assign(std::move(*key), std::move(value));
    }
    spdlog::info("a batch of {} changes that was made is applied", changes.size());
    Status applied = FinishRedo(changes);
    if (!applied) return applied;
  }
  return DropOrphans();
}

Status EtcdStateStore::DropOrphans() {
  const std::string below = At("parts/");
  Result<std::vector<EtcdPair>> parts = client_.Scan(below, true);
  if (!parts) return Fail(parts.error());
  std::set<std::string> ids;
  for (const EtcdPair& part : *parts) {
    ids.insert(part.key.substr(below.size(), part.key.rfind('/') - below.size()));
  }
  if (ids.empty()) return {};
  Result<std::vector<EtcdPair>> rows = client_.Scan(At("state/"));
  if (!rows) return Fail(rows.error());
  for (const EtcdPair& row : *rows) {
    const std::optional<Reference> reference = ReferenceIn(row.value);
    if (!reference) continue;
    refs_[row.key] = reference->id;
    ids.erase(reference->id);
  }
  for (const std::string& id : ids) {
    Status dropped = client_.DeleteBelow(below + id + "/");
    if (!dropped) return dropped;
  }
  return {};
}

Error EtcdStateStore::Fenced(const std::optional<EtcdPair>& found) const {
  const std::uint64_t stored = found ? EpochOf(found->value) : 0;
  if (stored > epoch_) {
    return Error{Code::kDenied, fmt::format("a newer coordinator (fencing epoch {}) has replaced "
                                            "this one (epoch {}): stop it",
                                            stored, epoch_)};
  }
  return Error{Code::kDenied, fmt::format("the state in etcd is an older one (fencing epoch {}) "
                                          "than this coordinator's ({}): was etcd restored? Start "
                                          "the coordinators again",
                                          stored, epoch_)};
}

/// One transaction under the fence. The caller holds write_mutex_.
Status EtcdStateStore::Commit(const std::vector<EtcdChange>& changes) {
  if (in_doubt_) {
    return Fail(Code::kUnavailable,
                "etcd did not say whether the change before was made: the coordinator reads its "
                "state again first");
  }
  const std::string mine = fmt::format("{}.{}", epoch_, ++writes_);
  EtcdTransaction transaction;
  transaction.changes = changes;
  transaction.changes.push_back({.key = At("fence"), .value = mine});
  transaction.read_otherwise = At("fence");
  transaction.conditions = {EtcdCondition{.key = At("fence"), .value = expected_}};
  Result<EtcdClient::Outcome> outcome = client_.Commit(transaction);
  if (!outcome && outcome.error().code == Code::kUnavailable)
    return Fail(InDoubt(outcome.error().message));
  if (!outcome) return Fail(outcome.error());
  const bool repeated = outcome->found && outcome->found->value == mine;
  if (outcome->done || repeated) {
    expected_ = mine;
    return {};
  }
  // Nobody else writes under this epoch: one of ours was made that seemed to have failed.
  if (outcome->found && EpochOf(outcome->found->value) == epoch_)
    return Fail(InDoubt("etcd has made a change that it had refused"));
  return Fail(Fenced(outcome->found));
}

Error EtcdStateStore::InDoubt(const std::string& why) {
  in_doubt_ = true;
  tell_in_doubt_();
  return Error{Code::kUnavailable, why + "; whether the change was made is not known"};
}

Status EtcdStateStore::CommitSlices(const Changes& changes) {
  std::vector<EtcdChange> slice;
  std::size_t bytes = 0;
  for (const auto& [key, value] : changes) {
    const std::size_t size = key.size() + (value ? value->size() : 0);
    if (!slice.empty() &&
        (slice.size() + 1 >= EtcdClient::kMaxChanges || bytes + size > EtcdClient::kMaxBytes)) {
      Status made = Commit(slice);
      if (!made) return made;
      slice.clear();
      bytes = 0;
    }
    bytes += size;
    slice.push_back({.key = key, .value = value});
  }
  return slice.empty() ? Status() : Commit(slice);
}

/// Stores `bytes` in pieces that nothing names yet; answers what names them.
Result<std::string> EtcdStateStore::Stage(std::string_view bytes) {
  const std::string id = fmt::format("{:016x}-{:08x}", epoch_, ++staged_);
  std::size_t count = 0;
  for (std::size_t at = 0; at < bytes.size(); at += kPart, ++count) {
    std::string piece(bytes.substr(at, kPart));
    Status made =
        Commit({{.key = At(fmt::format("parts/{}/{:08}", id, count)), .value = std::move(piece)}});
    if (!made) return Fail(made.error());
  }
  return fmt::format("{}{} {} {}", kInParts, id, count, bytes.size());
}

Status EtcdStateStore::StageLarge(const StateBatch& batch, Changes& changes) {
  for (const StateBatch::Change& change : batch.changes()) {
    const std::string key = At("state/" + change.key);
    if (!change.value) {
      changes.insert_or_assign(key, std::nullopt);
    } else if (change.value->size() < kPart) {
      changes.insert_or_assign(key, kInline + *change.value);
    } else {
      Result<std::string> reference = Stage(*change.value);
      if (!reference) return Fail(reference.error());
      changes.insert_or_assign(key, std::move(*reference));
    }
  }
  return {};
}

Status EtcdStateStore::Write(const StateBatch& batch, std::uint64_t fence) {
  const std::scoped_lock lock(write_mutex_);
  if (fence < epoch_) {
    return Fail(Code::kDenied, fmt::format("a newer coordinator (fencing epoch {}) has replaced "
                                           "this one (epoch {}): stop it",
                                           epoch_, fence));
  }
  Status settled = Settle();
  if (!settled) return settled;
  Changes changes;
  Status staged = StageLarge(batch, changes);
  if (!staged) return staged;
  std::size_t bytes = 0;
  for (const auto& [key, value] : changes) bytes += key.size() + (value ? value->size() : 0);
  const bool fits = changes.size() < EtcdClient::kMaxChanges && bytes <= EtcdClient::kMaxBytes;
  Status made = fits ? CommitSlices(changes) : WriteLarge(changes);
  if (made && changes.empty()) made = Commit({});
  if (made) NoteRefs(changes);
  return made;
}

Status EtcdStateStore::WriteLarge(const Changes& changes) {
  std::string bytes;
  for (const auto& [key, value] : changes) {
    bytes += value ? 'P' : 'D';
    AppendText(bytes, key);
    if (value) AppendText(bytes, *value);
  }
  Result<std::string> reference = Stage(bytes);
  if (!reference) return Fail(reference.error());
  Status made = Commit({{.key = At("redo"), .value = *reference}});
  if (!made) return made;
  refs_[At("redo")] = ReferenceIn(*reference)->id;
  Status applied = FinishRedo(changes);
  if (applied || applied.error().code == Code::kDenied) return {};
  // It is made, whatever comes: the next call goes on, or the next coordinator.
  spdlog::warn("a batch of {} changes is applied later: {}", changes.size(),
               applied.error().message);
  redo_ = changes;
  return {};
}

Status EtcdStateStore::FinishRedo(const Changes& changes) {
  Status applied = CommitSlices(changes);
  if (applied) applied = Commit({{.key = At("redo"), .value = std::nullopt}});
  if (applied) NoteRefs(Changes{{At("redo"), std::nullopt}});
  return applied;
}

/// The caller holds write_mutex_.
Status EtcdStateStore::Settle() {
  if (!redo_) return {};
  Status applied = FinishRedo(*redo_);
  if (!applied) return applied;
  redo_.reset();
  return {};
}

/// The pieces of values that were replaced go. Those that stay for a failure, the next Claim drops.
void EtcdStateStore::NoteRefs(const Changes& changes) {
  for (const auto& [key, value] : changes) {
    const auto old = refs_.find(key);
    if (old != refs_.end()) {
      const Status ignored = client_.DeleteBelow(At("parts/" + old->second + "/"));
      (void)ignored;
      refs_.erase(old);
    }
    const std::optional<Reference> now = value ? ReferenceIn(*value) : std::nullopt;
    if (now) refs_[key] = now->id;
  }
}

Result<std::string> EtcdStateStore::Decode(const std::string& key, const std::string& stored) {
  if (!stored.empty() && stored.front() == kInline) return stored.substr(1);
  const std::optional<Reference> reference = ReferenceIn(stored);
  if (!reference) return Fail(Damaged(key));
  Result<std::vector<EtcdPair>> parts = client_.Scan(At("parts/" + reference->id + "/"));
  if (!parts) return Fail(parts.error());
  std::string bytes;
  for (const EtcdPair& part : *parts) bytes += part.value;
  const bool whole = parts->size() == reference->count && bytes.size() == reference->size;
  if (!whole) return Fail(Damaged(key));
  return bytes;
}

Result<std::optional<std::string>> EtcdStateStore::Get(const std::string& key) {
  // A value in pieces may be replaced while it is read, and a batch applied: then nobody writes.
  const std::scoped_lock lock(write_mutex_);
  Status settled = Settle();
  if (!settled) return Fail(settled.error());
  Result<std::optional<EtcdPair>> found = client_.Get(At("state/" + key));
  if (!found) return Fail(found.error());
  if (!found->has_value()) return std::nullopt;
  Result<std::string> value = Decode(key, (*found)->value);
  if (!value) return Fail(value.error());
  return std::move(*value);
}

Result<std::vector<std::pair<std::string, std::string>>> EtcdStateStore::Scan(
    const std::string& prefix) {
  const std::scoped_lock lock(write_mutex_);
  Status settled = Settle();
  if (!settled) return Fail(settled.error());
  const std::string below = At("state/");
  Result<std::vector<EtcdPair>> rows = client_.Scan(below + prefix);
  if (!rows) return Fail(rows.error());
  std::vector<std::pair<std::string, std::string>> found;
  found.reserve(rows->size());
  for (EtcdPair& row : *rows) {
    Result<std::string> value = Decode(row.key, row.value);
    if (!value) return Fail(value.error());
    found.emplace_back(row.key.substr(below.size()), std::move(*value));
  }
  return found;
}

}  // namespace forebay
