#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

#include "proto/coordinator.pb.h"

namespace forebay {

/// Where the reads of a job waited, as parts of the whole wait (0..1 each; all 0 before the first
/// read).
struct JobShares {
  double local = 0;
  double peers = 0;
  double s3 = 0;
  double stalls = 0;  ///< Nodes that did not answer, pauses, reads that failed.
};

/// One job over all links that it reads.
struct JobSummary {
  JobShares shares;
  std::chrono::microseconds waited{};
  double reads_in_flight = 0;  ///< On average, while at least one was under way.
};
JobSummary SummaryOf(const proto::DescribeJobReply& job);

enum class AdviceKind : std::uint8_t {
  kS3Away,
  kSlowNode,
  kMoreCache,
  kPreload,
  kMoreWorkers,
  kNothing
};
std::string_view AdviceName(AdviceKind kind);

/// The one thing that would help this job most, as a sentence.
struct Advice {
  AdviceKind kind = AdviceKind::kNothing;
  std::string text;
};

/// By rule, the first that applies:
/// - S3 leaves requests for a link of it without an answer: what waits for that counts when it
/// ends;
/// - a node whose mean answer takes three times the median of the others' or longer is slow;
/// - after the first epoch less than 0.9 hits, of a link larger than the cache: more cache;
/// - a fifth or more of the wait is for S3: preload;
/// - fewer than 1.5 reads under way on average: more loader workers.
/// `cluster` says how large links and caches are. Pure.
Advice AdviceFor(const proto::DescribeJobReply& job, const proto::StatsReply& cluster);

}  // namespace forebay
