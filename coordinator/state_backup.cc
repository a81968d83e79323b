#include "coordinator/state_backup.h"

#include <fmt/format.h>
#include <xxhash.h>

#include <algorithm>
#include <charconv>
#include <utility>
#include <vector>

#include "common/ring/ring.h"
#include "coordinator/fence_claim.h"
#include "coordinator/state_format.h"
#include "proto/coordinator_state.pb.h"

namespace forebay {
namespace {

constexpr std::string_view kMagic = "FBBACKUP";
constexpr std::size_t kHeaderBytes = 16;
constexpr std::uint32_t kFormat = 1;
constexpr const char* kFenceKey = "fence";
constexpr const char* kTableKey = "ring/table";
constexpr const char* kTokenPrefix = "token/";
constexpr const char* kLinksVersionKey = "links/version";

constexpr const char* kClusterKey = "cluster/uuid";
constexpr const char* kLinkPrefix = "link/";

std::string HashOf(std::string_view bytes) {
  std::uint64_t hash = XXH3_64bits(bytes.data(), bytes.size());
  std::string text;
  for (int i = 0; i < 8; ++i, hash >>= 8) text.push_back(static_cast<char>(hash & 0xFF));
  return text;
}

Result<proto::StateBackup> Parse(std::string_view bytes) {
  const bool framed = bytes.size() >= kHeaderBytes && bytes.starts_with(kMagic);
  if (!framed) return Fail(Code::kInvalid, "it is no backup of a coordinator");
  const std::string_view body = bytes.substr(kHeaderBytes);
  if (bytes.substr(kMagic.size(), kHeaderBytes - kMagic.size()) != HashOf(body)) {
    return Fail(Code::kInvalid, "the backup is damaged: take another one");
  }
  proto::StateBackup backup;
  const bool parsed = backup.ParseFromArray(body.data(), static_cast<int>(body.size()));
  if (!parsed) return Fail(Code::kInvalid, "the backup is damaged: take another one");
  if (backup.format() == kFormat) return backup;
  return Fail(Code::kInvalid,
              fmt::format("the backup has format {}, and this version reads {}: restore it with "
                          "the version that made it",
                          backup.format(), kFormat));
}

/// A state that this version reads, of the right cluster.
Status CheckState(const proto::StateBackup& backup, const Uuid& cluster, Uuid& found) {
  for (const proto::StateBackup::Row& row : backup.rows()) {
    if (row.key() == kClusterKey) found = Uuid::Parse(row.value());
    if (row.key() != kStateFormatKey) continue;
    Status readable = CheckStateFormat(row.value(), "the state in the backup");
    if (!readable) return readable;
  }
  if (found.IsZero()) return Fail(Code::kInvalid, "the backup names no cluster: take another one");
  if (cluster.IsZero() || cluster == found) return {};
  return Fail(Code::kInvalid,
              fmt::format("the backup is of cluster {}, and this coordinator's certificates are of "
                          "cluster {}: give it the trust folder of the backup's cluster, or make "
                          "certificates with 'forebay init --cluster {}'",
                          found.ToString(), cluster.ToString(), found.ToString()));
}

/// Nodes that have come by are no hindrance: they come again.
Status CheckEmpty(const std::vector<std::pair<std::string, std::string>>& rows) {
  const auto count = [&rows](std::string_view prefix) {
    return std::ranges::count_if(rows,
                                 [&](const auto& row) { return row.first.starts_with(prefix); });
  };
  const auto links = count(kLinkPrefix);
  const auto pins = count("pin/");
  const auto tasks = count("task/");
  if (links + pins + tasks == 0) return {};
  return Fail(Code::kInvalid,
              fmt::format("this cluster has a state of its own (links: {}, pins: {}, tasks: {}), "
                          "and a backup is restored into a new one alone: start the coordinator "
                          "with an empty --state-dir (with --etcd: an empty --etcd-prefix) first",
                          links, pins, tasks));
}

/// What is counted up is set to these, or more.
struct Least {
  std::uint64_t seconds = 0;  ///< The fence and listings, of which there is one a second at most.
  /// The links' version and the ring's epoch: a thousand links that are refreshed each second count
  /// faster than that, and nodes believe nobody who began with less than they know.
  std::uint64_t milliseconds = 0;
};

/// The row's value, with what is counted up set to `least` or more; and a token with no use left,
/// for nobody knows who has joined with it since.
Result<std::string> Raised(const proto::StateBackup::Row& row, const Least& least) {
  if (row.key() == kTableKey) {
    Result<RingTable> table = RingTable::Parse(row.value());
    if (!table) return Fail(table.error().Within("the backup's ring table"));
    return table->AtEpoch(std::max(table->epoch() + 1, least.milliseconds)).Serialize();
  }
  if (row.key() == kLinksVersionKey) {
    std::uint64_t version = 0;
    std::from_chars(row.value().data(), row.value().data() + row.value().size(), version);
    return std::to_string(std::max(version + 1, least.milliseconds));
  }
  if (row.key().starts_with(kTokenPrefix)) {
    proto::TokenRecord token;
    if (!token.ParseFromString(row.value()))
      return Fail(Code::kInvalid, "the backup's record '" + row.key() + "' is damaged");
    token.mutable_token()->set_revoked(true);
    return token.SerializeAsString();
  }
  if (!row.key().starts_with(kLinkPrefix)) return row.value();
  proto::LinkRecord link;
  if (!link.ParseFromString(row.value())) {
    return Fail(Code::kInvalid, "the backup's record '" + row.key() + "' is damaged");
  }
  // Also of one without a generation: it may have been listed and mounted since the backup, so that
  // it counts as lost, and stays where S3 refuses it.
  link.set_next_generation(std::max(link.next_generation() + 1, least.seconds));
  return link.SerializeAsString();
}

}  // namespace

Result<std::string> MakeBackup(StateStore& store, std::uint64_t fence, std::int64_t now_unix_s) {
  auto rows = store.Scan("");
  if (!rows) return Fail(rows.error());
  proto::StateBackup backup;
  backup.set_format(kFormat);
  backup.set_fence(fence);
  backup.set_taken_unix_s(now_unix_s);
  for (auto& [key, value] : *rows) {
    if (key == kFenceKey || key == kOutdatedKey) continue;
    proto::StateBackup::Row& row = *backup.add_rows();
    row.set_key(std::move(key));
    row.set_value(std::move(value));
  }
  const std::string body = backup.SerializeAsString();
  std::string bytes(kMagic);
  bytes += HashOf(body);
  bytes += body;
  return bytes;
}

Result<RestoredBackup> RestoreBackup(StateStore& store, std::string_view bytes, const Uuid& cluster,
                                     std::int64_t now_unix_s) {
  Result<proto::StateBackup> backup = Parse(bytes);
  if (!backup) return Fail(backup.error());
  RestoredBackup restored;
  restored.taken_unix_s = backup->taken_unix_s();
  Status fits = CheckState(*backup, cluster, restored.cluster);
  if (!fits) return Fail(fits.error());
  auto present = store.Scan("");
  if (!present) return Fail(present.error());
  Status empty = CheckEmpty(*present);
  if (!empty) return Fail(empty.error());

  const auto seconds = static_cast<std::uint64_t>(std::max<std::int64_t>(0, now_unix_s));
  const Least least{.seconds = seconds, .milliseconds = seconds * 1000};
  StateBatch batch;
  for (const auto& [key, value] : *present) {
    if (key != kFenceKey) batch.Delete(key);
  }
  // Also where the backup has no links and no nodes: then it says that there are none. Members of
  // before know of higher numbers than those that a new cluster begins with.
  batch.Put(kLinksVersionKey, std::to_string(least.milliseconds));
  batch.Put(kTableKey, RingTable().AtEpoch(least.milliseconds).Serialize());
  for (const proto::StateBackup::Row& row : backup->rows()) {
    if (row.key() == kOutdatedKey) continue;
    Result<std::string> value = Raised(row, least);
    if (!value) return Fail(value.error());
    batch.Put(row.key(), std::move(*value));
    if (row.key().starts_with(kLinkPrefix)) ++restored.links;
  }
  Result<std::uint64_t> fence = store.ClaimAbove(std::max(backup->fence(), least.seconds));
  if (!fence) return Fail(fence.error());
  restored.fence = *fence;
  Status written = store.Write(batch, *fence);
  if (!written) return Fail(written.error());
  return restored;
}

}  // namespace forebay
