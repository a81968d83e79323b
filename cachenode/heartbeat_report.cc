// What a heartbeat says of the node.
#include <algorithm>
#include <chrono>
#include <cstddef>
#include <memory>
#include <unordered_map>
#include <utility>
#include <vector>

#include "cachenode/heartbeat.h"
#include "common/base/wall_clock.h"
#include "common/model/system_link.h"
#include "common/s3/list_parser.h"
#include "common/wire/messages.h"

namespace forebay {
namespace {

constexpr std::size_t kMostWaits = 16;
constexpr std::size_t kMostRefusals = 16;
/// What to do about it stands at its end.
constexpr std::size_t kMostOfAReason = 1024;

/// By place: what calls wait for now, and where others are asked instead, since when that is so.
std::vector<UnansweredPlace> AllWaits(const NodeFacts& facts) {
  std::vector<UnansweredPlace> waits;
  if (facts.s3 != nullptr) waits = facts.s3->Waits(kMostWaits);
  if (facts.unserved == nullptr) return waits;
  for (UnansweredPlace& lost : facts.unserved->Waits(Clock::now())) {
    const auto same = std::ranges::find_if(waits, [&](const UnansweredPlace& wait) {
      return wait.endpoint == lost.endpoint && wait.bucket == lost.bucket &&
             wait.prefix == lost.prefix;
    });
    if (same != waits.end()) {
      same->longest = std::max(same->longest, lost.longest);
    } else if (waits.size() < kMostWaits) {
      waits.push_back(std::move(lost));
    }
  }
  return waits;
}

void ComposeWaits(const NodeFacts& facts, proto::HeartbeatRequest& request) {
  for (UnansweredPlace& wait : AllWaits(facts)) {
    proto::S3Wait& message = *request.add_s3_waits();
    message.set_endpoint(std::move(wait.endpoint));
    message.set_bucket(std::move(wait.bucket));
    message.set_prefix(std::move(wait.prefix));
    message.set_longest_ms(static_cast<std::uint64_t>(
        std::chrono::duration_cast<std::chrono::milliseconds>(wait.longest).count()));
    message.set_calls(wait.calls);
    message.set_why(Printable(wait.why));
  }
}

}  // namespace

proto::HeartbeatRequest Heartbeat::Compose() const {
  proto::HeartbeatRequest request;
  request.set_node_id(self_.id);
  request.set_incarnation(incarnation_);
  request.set_links_version(cluster_.links_version());
  *request.mutable_fence() = ToProto(cluster_.fence());
  request.set_fill_limits_version(cluster_.fill_limits().version);
  ComposeLinks(request);
  // Before the figures that it goes with.
  request.set_room_version(store_->RoomVersion());
  for (const DiskUsage& disk : store_->Disks()) {
    proto::DiskReport& report = *request.add_disks();
    report.set_path(disk.path);
    report.set_state(static_cast<std::uint32_t>(disk.state));
    report.set_used_bytes(disk.used_bytes);
    report.set_capacity_bytes(disk.capacity_bytes);
    report.set_usable_bytes(disk.usable_bytes);
  }
  for (const S3Brakes::Use& use : brakes_->Uses()) {
    if (IsOfListings(use.link)) continue;
    proto::RequestUse& message = *request.add_request_use();
    message.set_link(BytesOf(use.link));
    message.set_requests(use.requests);
    message.set_throttled(use.throttled);
    message.set_waiting(use.waiting);
  }
  ComposeWaits(facts_, request);
  ComposeRefusals(request);
  for (const std::string& path : facts_.missing_dirs) {
    proto::DiskReport& report = *request.add_disks();
    report.set_path(path);
    report.set_state(static_cast<std::uint32_t>(DiskState::kMissing));
  }
  request.set_clock_unix_ms(UnixMilliseconds());
  request.set_blocks(store_->BlockCount());
  request.set_blocks_set_aside(store_->SetAsideCount());
  request.set_last_end(static_cast<std::uint32_t>(facts_.last_end));
  const auto running = std::chrono::duration_cast<std::chrono::seconds>(Clock::now() - started_);
  request.set_running_s(static_cast<std::uint64_t>(running.count()));
  request.set_checksum_failures(store_->counters().checksum_failures.load());
  counters_.ForgetIdleJobs(Clock::now());
  for (const JobCount& job : counters_.Jobs()) {
    proto::JobCounters& counters = *request.add_jobs();
    counters.set_job(job.job);
    counters.set_link(BytesOf(job.link));
    counters.set_reads(job.reads);
    counters.set_hits(job.hits);
  }
  return request;
}

bool Heartbeat::IsOfListings(const Uuid& link) const {
  const std::shared_ptr<const LinkSpec> known = cluster_.FindLink(link);
  return known && IsSystemLink(*known);
}

// Every link that was read, or has blocks here, or lost some.
void Heartbeat::ComposeLinks(proto::HeartbeatRequest& request) const {
  std::unordered_map<Uuid, proto::LinkCounters> links;
  for (const auto& [link, count] : counters_.Links()) {
    proto::LinkCounters& counters = links[link];
    counters.set_reads(count->reads.load());
    counters.set_read_bytes(count->read_bytes());
    counters.set_hits(count->hits.load());
    counters.set_hit_bytes(count->hit_bytes.load());
    counters.set_misses(count->misses.load());
    counters.set_peer_fills(count->peer_fills.load());
    counters.set_cross_zone_bytes(count->cross_zone_bytes.load());
    counters.set_s3_gets(count->s3_gets.load());
    counters.set_s3_bytes(count->s3_bytes.load());
    counters.set_s3_retries(count->s3_retries.load());
    counters.set_s3_errors(count->s3_errors.load());
  }
  for (const auto& [link, bytes] : store_->EvictedBytesByLink())
    links[link].set_evicted_bytes(bytes);
  for (const auto& [link, usage] : store_->UsageByLink()) {
    links[link].set_cached_blocks(usage.blocks);
    links[link].set_cached_bytes(usage.bytes);
    links[link].set_pinned_bytes(usage.pinned_bytes);
    links[link].set_in_use(usage.in_use);
  }
  for (const auto& [link, version] : store_->PinsVersions()) links[link].set_pins_version(version);
  for (auto& [link, counters] : links) {
    // Listings are nobody's data: what they take shows in the disks' use alone.
    if (IsOfListings(link)) continue;
    counters.set_link(BytesOf(link));
    *request.add_links() = std::move(counters);
  }
}

void Heartbeat::ComposeRefusals(proto::HeartbeatRequest& request) const {
  const TimePoint now = Clock::now();
  for (S3Refusals::Row& row : counters_.refusals().Often(now, kMostRefusals)) {
    const std::shared_ptr<const LinkSpec> link = cluster_.FindLink(row.link);
    if (!link) continue;
    proto::S3Refusal& message = *request.add_s3_refusals();
    message.set_link(link->name);
    message.set_why(Printable(row.why, kMostOfAReason));
    message.set_calls(row.calls);
    message.set_since_ms(static_cast<std::uint64_t>(
        std::chrono::duration_cast<std::chrono::milliseconds>(now - row.since).count()));
  }
}

}  // namespace forebay
