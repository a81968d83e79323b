#pragma once

#include <sys/types.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "common/base/deadline.h"
#include "common/model/block_id.h"
#include "common/model/block_sample.h"
#include "common/model/block_source.h"
#include "common/model/object_version.h"
#include "fuse-client/block_spans.h"
#include "fuse-client/dense_reads.h"
#include "fuse-client/process_files.h"
#include "fuse-client/stats.h"

namespace forebay {

/// A link as this mount has it.
struct LinkFacts {
  std::string name;
  std::uint64_t generation = 0;
  std::uint64_t blocks = 0;         ///< 0 = not known.
  std::string listing_digest = {};  ///< Of the generation; "" = not known.
};

/// How one READ of the kernel went.
struct ReadOutcome {
  std::array<std::uint64_t, kTiers> bytes{};
  Tier slowest = Tier::kLocal;  ///< Of its blocks: what it waited for.
  Duration detour{};  ///< Owners that did not answer, and pauses, before the one that did.
  bool failed = false;
};

/// Sums over the READs of a job. Durations are summed over reads: two that wait at the same moment
/// count twice.
struct JobTotals {
  std::uint64_t reads = 0;
  std::uint64_t failed_reads = 0;
  std::array<std::uint64_t, kTiers> bytes{};
  std::array<Duration, kTiers> waited{};  ///< By what the read waited for.
  Duration detour{};        ///< Not in `waited`; and the whole time of reads that failed.
  Duration busy{};          ///< With at least one read under way.
  ReadBuckets durations{};  ///< Of reads by this process.

  Duration AllWaits() const;
  /// Waiting that no cache explains: for S3, for nodes that did not answer, in vain.
  Duration Stalled() const { return waited[static_cast<std::size_t>(Tier::kS3)] + detour; }
};

/// What one job has read over one link at this mount, since its first read or since it last ended.
/// Thread-safe; a read costs two short locks.
class JobReads {
 public:
  JobReads(std::string id, const Uuid& link, LinkFacts facts, std::uint64_t serial, TimePoint now);

  const std::string& id() const { return id_; }
  const Uuid& link() const { return link_; }
  const LinkFacts& facts() const { return facts_; }
  /// Unlike that of any other JobReads of this mount process.
  std::uint64_t serial() const { return serial_; }

  struct Touches {
    std::uint64_t from = 0;  ///< Number of the first one, counted since this object began.
    std::deque<std::uint32_t> places;
  };
  /// A READ begins; each True needs an End. False: the job has ended, open it anew.
  bool Begin(TimePoint now);
  /// Answers the part of the read's time that it stalled (JobTotals::Stalled).
  Duration End(TimePoint began, TimePoint now, const ReadOutcome& outcome);
  /// A READ wants bytes of this block. READs of one block that come close together, before another
  /// percent of the link has been touched, are one touch.
  void Touch(const BlockId& block);
  /// The same READ for DenseReads: what it wants of an object of so many bytes in such blocks.
  void NoteRead(const BlockSpan& span, std::uint64_t object_bytes, std::uint64_t block_bytes,
                TimePoint now);
  /// Known processes are not kept twice; at most kMaxProcesses are watched.
  void AddProcess(pid_t process, std::uint64_t start);
  static constexpr std::size_t kMaxProcesses = 4096;

  /// Before anything else: goes on where an earlier process was.
  void Resume(const JobTotals& totals, Touches touches, std::uint64_t epoch);

  /// Forgets processes that have gone and answers how many live.
  std::size_t CountProcesses(const ProcessFiles& files);
  /// Ends the job when no read is under way and either its processes, of which it has had some,
  /// have been gone for kGoneFor, or nothing was read for kIdleFor. True when it is ended.
  bool EndIfIdle(TimePoint now);
  /// Ends it now, unless a read is under way; true when it is ended.
  bool EndUnlessReading();
  static constexpr Duration kGoneFor = std::chrono::seconds(60);
  static constexpr Duration kIdleFor = std::chrono::minutes(10);

  /// All that a report says, at one moment.
  struct View {
    JobTotals totals;
    std::size_t processes = 0;
    bool ended = false;
    std::uint64_t changes = 0;  ///< Rises with everything that a report would say differently.
    TimePoint last_read;
    std::uint64_t epoch = 0;  ///< As Confirm had it; 0 = not known.
    double progress = 0;
  };
  View Look() const;

  /// The touches that nobody has confirmed, at most kMaxTouches; the oldest are lost first.
  Touches Unconfirmed() const;
  static constexpr std::size_t kMaxTouches = 4096;
  /// The coordinator has touches below `until`, and says how far the job is.
  void Confirm(std::uint64_t until, std::uint64_t epoch, double progress);

  /// Blocks that count towards a background fill and that nobody has confirmed, of the last minute.
  std::vector<std::uint64_t> DenseBlocks(TimePoint now);
  /// So many of them that the coordinator should hear of it soon.
  bool HasManyDenseBlocks() const;
  /// The coordinator has the first `count` of the last DenseBlocks(). `more`: it wants to hear of
  /// others; else nothing is counted until it does.
  void ConfirmDense(std::size_t count, bool more);

 private:
  /// Where a place was last touched; places share slots, and the later one stays.
  struct RecentTouch {
    std::uint32_t place = BlockSample::kPlaces;  // none
    std::uint64_t at = 0;                        // number of the touch
  };
  static constexpr std::size_t kRecentSlots = 1024;

  const std::string id_;
  const Uuid link_;
  const LinkFacts facts_;
  const std::uint64_t serial_;
  const BlockSample sample_;
  const std::uint64_t touch_window_;

  std::atomic<bool> counts_dense_{true};
  mutable std::mutex dense_mutex_;  // guards dense_; never held with mutex_
  DenseReads dense_;

  mutable std::mutex mutex_;  // guards what follows
  JobTotals totals_;
  std::size_t in_flight_ = 0;
  TimePoint busy_since_;
  TimePoint last_read_;
  bool ended_ = false;
  std::uint64_t changes_ = 1;
  std::map<pid_t, std::uint64_t> processes_;  // and when each began
  bool had_processes_ = false;
  TimePoint last_alive_;
  std::array<RecentTouch, kRecentSlots> recent_{};
  std::uint64_t touches_ = 0;  // ever
  std::deque<std::uint32_t> unconfirmed_;
  std::uint64_t epoch_ = 0;
  double progress_ = 0;
};

}  // namespace forebay
