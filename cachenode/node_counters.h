#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "cachenode/s3_refusals.h"
#include "common/base/deadline.h"
#include "common/base/published.h"
#include "common/model/limits.h"
#include "common/model/object_version.h"

namespace forebay {

/// What one link has cost and brought at this node since it started. Each event has one owner that
/// counts it: BlockReader reads, hits, misses and what leaves the zone; Filler what peers brought;
/// Origin everything of S3.
struct LinkCount {
  std::atomic<std::uint64_t> reads{0};       ///< Block lookups; reads == hits + misses.
  std::atomic<std::uint64_t> kept_bytes{0};  ///< Asked for and answered from what was there …
  std::atomic<std::uint64_t> fill_bytes{0};  ///< … and from a fill that S3 was asked for …
  std::atomic<std::uint64_t> peer_bytes{0};  ///< … and from one out of another node's cache.
  std::atomic<std::uint64_t> hits{
      0};  ///< Lookups that cost no GET: from the store, another node's, or by joining a fill.
  std::atomic<std::uint64_t> hit_bytes{0};
  std::atomic<std::uint64_t> misses{0};      ///< Lookups that began a fill which was no peer's.
  std::atomic<std::uint64_t> peer_fills{0};  ///< Blocks that came from another node.
  std::atomic<std::uint64_t> cross_zone_bytes{0};  ///< Sent to mounts and nodes of other zones.
  std::atomic<std::uint64_t> s3_gets{0};           ///< Successful ones.
  std::atomic<std::uint64_t> s3_bytes{0};
  std::atomic<std::uint64_t> s3_retries{0};
  std::atomic<std::uint64_t> s3_errors{0};

  std::uint64_t read_bytes() const {
    return kept_bytes.load() + fill_bytes.load() + peer_bytes.load();
  }
};

struct JobCount {
  std::string job;
  Uuid link;
  std::uint64_t reads = 0;
  std::uint64_t hits = 0;
};

/// All counters of a node's readers. Thread-safe: what is known of is counted without a lock.
class NodeCounters {
 public:
  /// Never null; the same for the same link.
  std::shared_ptr<LinkCount> OfLink(const Uuid& link);

  /// Counts a read of a job that is known. At most kMaxJobs jobs with ids of at most kMaxJobIdBytes
  /// are told apart, so that all of them fit into a heartbeat; others are not counted.
  void CountJob(const std::string& job, const Uuid& link, bool hit);

  /// Forgets jobs that have read nothing for kJobKept; while there are many, for kJobKeptFull.
  /// Called once a heartbeat, so that what is forgotten has long been reported. A job that reads
  /// again counts from zero.
  void ForgetIdleJobs(TimePoint now);
  static constexpr Duration kJobKept = std::chrono::minutes(10);
  static constexpr Duration kJobKeptFull = std::chrono::minutes(1);

  std::vector<std::pair<Uuid, std::shared_ptr<const LinkCount>>> Links() const;
  std::vector<JobCount> Jobs() const;

  /// Filler notes them.
  S3Refusals& refusals() { return refusals_; }

 private:
  static constexpr std::size_t kMaxJobs = 1024;
  struct ReadsAndHits {
    std::atomic<std::uint64_t> reads{0};
    std::atomic<std::uint64_t> hits{0};
    // Of ForgetIdleJobs: how many reads there were, and since when there are no more.
    std::uint64_t seen = 0;
    TimePoint seen_at;
  };

  using LinkCounts = std::unordered_map<Uuid, std::shared_ptr<LinkCount>>;
  using JobCounts = std::map<std::pair<std::string, Uuid>, std::shared_ptr<ReadsAndHits>>;

  std::mutex mutex_;  ///< Held by who replaces what follows.
  Published<LinkCounts> links_;
  Published<JobCounts> jobs_;
  S3Refusals refusals_;
};

}  // namespace forebay
