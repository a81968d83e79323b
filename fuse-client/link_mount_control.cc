// What `.forebay` of a LinkMount shows.
#include <spdlog/fmt/fmt.h>

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>
#include <optional>
#include <utility>

#include "common/base/version.h"
#include "common/base/wall_clock.h"
#include "fuse-client/job_text.h"
#include "fuse-client/link_mount.h"

namespace forebay {

namespace {

boost::json::value ShardJson(const Shard& shard) {
  if (shard.is_all()) return nullptr;
  boost::json::object out;
  out["index"] = shard.index;
  out["count"] = shard.count;
  out["seed"] = shard.seed ? boost::json::value(*shard.seed) : boost::json::value();
  out["epoch"] = shard.epoch;
  return out;
}

}  // namespace

std::string LinkMount::RenderConfig() const {
  const MountedNamespace now = Now();
  const Snapshot& snapshot = *now.snapshot;
  const SnapshotDigest digest{now.link.generation().digest_high(),
                              now.link.generation().digest_low()};
  boost::json::object all;
  all["schema_version"] = 1;
  all["link"] = name_;
  const std::string& set = now.link.spec().set();
  all["set"] = set.empty() ? boost::json::value() : boost::json::value(set);
  all["source"] =
      "s3://" + std::string(snapshot.source().bucket) + "/" + std::string(snapshot.source().prefix);
  all["sub_path"] = place_.sub_path;
  all["shard"] = ShardJson(shares_.config.shard);
  all["cluster"] = now.cluster.ToString();
  all["generation"] = snapshot.id().generation;
  all["generation_age_seconds"] =
      UnixSeconds() - static_cast<std::int64_t>(snapshot.listed_unix_s());
  const std::string& listing = now.link.generation().listing_digest();
  all["digest"] = listing.empty() ? boost::json::value() : boost::json::value(listing);
  all["snapshot_digest"] = fmt::format("{:016x}{:016x}", digest.high, digest.low);
  all["objects"] = snapshot.totals().objects;
  all["bytes"] = snapshot.totals().bytes;
  all["hidden_keys"] = snapshot.totals().hidden_keys;
  all["block_bytes"] = snapshot.block_bytes();
  all["ring_epoch"] = shares_.ring.epoch();
  all["namespace_from_disk"] = now.from_disk;
  all["link_removed"] = presence() != LinkPresence::State::kThere;
  all["mode"] = large_ ? "large" : "small";
  all["direct_reads"] = session_ && session_->DirectReads();
  all["kernel_features"] = session_ ? session_->Features() : "";
  const unsigned read_ahead_kb = read_ahead_kb_;
  all["read_ahead_kb"] =
      read_ahead_kb == 0 ? boost::json::value() : boost::json::value(read_ahead_kb);
  all["local_copy"] = copies_ ? copies_->Config() : boost::json::value();
  all["threads"] = shares_.threads.size();
  const std::string& socket = shares_.local_socket.path();
  all["local_socket"] = socket.empty() ? boost::json::value() : boost::json::value(socket);
  all["version"] = Version();
  return boost::json::serialize(all) + "\n";
}

LinkMount::Texts LinkMount::MakeTexts() const {
  const std::shared_ptr<const Snapshot>& snapshot = namespace_.snapshot;
  const std::optional<SnapshotRow> root = snapshot->Resolve(place_.sub_path);
  const std::uint32_t directory = root ? root->directory : 0;
  const std::string folder = FolderOf(namespace_);
  return {.manifest = MakeManifest(snapshot, directory, folder),
          .attributes = MakeAttributes(snapshot, directory, folder)};
}

// The process may serve other links to these jobs and others.
std::string LinkMount::RenderStats() const {
  boost::json::array jobs;
  for (boost::json::value& job : JobsJson(shares_.jobs)) {
    if (job.at("link").as_string() == name_) jobs.push_back(std::move(job));
  }
  boost::json::array orders;
  for (const OrderBook::State& order : orders_.States()) {
    orders.push_back({{"job", order.job}, {"files", order.files}, {"position", order.position}});
  }
  return stats_.ToJson(std::move(jobs), std::move(orders),
                       {.limit = shares_.memory.limit(),
                        .in_use = shares_.memory.in_use(),
                        .kernel_inodes = kernel_inodes_->count(),
                        .kernel_inodes_of_all = kernel_inodes_->count_of_all()},
                       copies_ ? copies_->Stats() : boost::json::value());
}

Result<Slice> LinkMount::Render(std::shared_ptr<LargeText> Texts::* which) {
  std::shared_ptr<LargeText> large;
  {
    const std::scoped_lock lock(mutex_);
    large = texts_.*which;
  }
  Result<Slice> text = large->Text();
  if (!text) errors_->Add(".forebay", text.error());
  return text;
}

}  // namespace forebay
