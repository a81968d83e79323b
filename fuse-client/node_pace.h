#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "common/base/deadline.h"

namespace forebay {

/// How fast each cache node answers what it holds, beside the others: who is an outlier, and how
/// long an answer is waited for before another owner is asked (DESIGN section 5). One per program,
/// shared by all its threads. Thread-safe; time is given.
///
/// A node is slow when half of its answers take five times as long as the others' do, the median
/// over the others, and at least kSlowAtLeast; or when their mean does, without the slowest of a
/// hundred: a node that stutters answers most questions quickly. It is so for kSlowFor at least,
/// and until both are less than half of that.
class NodePace {
 public:
  /// Shorter waits are not worth a second question (DESIGN section 5).
  static constexpr Duration kHedgeAtLeast = std::chrono::milliseconds(50);
  /// Of a node that takes less nobody need be told.
  static constexpr Duration kSlowAtLeast = std::chrono::milliseconds(5);
  static constexpr Duration kSlowFor = std::chrono::seconds(10);
  /// Answers of this and the window before it count.
  static constexpr Duration kWindow = std::chrono::seconds(5);
  /// A slow node is still asked first so often, or nobody would learn that it is well again.
  static constexpr Duration kSampleEvery = std::chrono::milliseconds(500);
  /// Fewer answers say nothing.
  static constexpr std::uint64_t kTellingAnswers = 16;
  /// A hedge against a node that is not slow has so many answers out of caches behind it: a wait
  /// may also be for S3, and then a second question is in vain.
  static constexpr std::uint64_t kAnswersPerHedge = 20;
  static constexpr std::uint64_t kHedgesAtOnce = 16;

  /// `node` answered out of its cache after `took`, or was given up after it.
  void Note(const std::string& node, Duration took, TimePoint now);

  /// It answers again after it was silent: what was measured meanwhile says nothing of it. A slow
  /// one stays slow until it has answered some questions.
  void Returned(const std::string& node);

  /// True: other owners come first.
  bool IsSlow(const std::string& node) const;
  /// True: this question goes to the slow node all the same.
  bool TakeSample(const std::string& node, TimePoint now);

  /// After so long without an answer another owner is to be asked: max(50 ms, three times what 99
  /// of 100 answers of the others take). Nothing while too little is known of the others.
  std::optional<Duration> HedgeAfter(const std::string& node) const;
  /// True: it may be asked now.
  bool TakeHedge(const std::string& node);

 private:
  /// Four to an octave of microseconds, up to a minute.
  static constexpr std::size_t kBuckets = 104;
  struct Window {
    std::array<std::uint32_t, kBuckets> counts{};
    std::uint64_t all = 0;
  };
  struct Node {
    Window now;
    Window before;
    bool slow = false;
    TimePoint slow_since;
    TimePoint sampled;
    std::optional<Duration> hedge_after;
  };
  struct Speed;

  static std::size_t BucketOf(Duration took);
  static Duration UpperBound(std::size_t bucket);
  static Duration Quantile(const Node& node, double q);
  static Duration TrimmedMean(const Node& node);
  void Turn(TimePoint now);
  void Judge(TimePoint now);
  static void Say(const Speed& speed, Duration others);
  static void JudgeOne(const Speed& speed, Duration half, Duration mean, TimePoint now);

  mutable std::mutex mutex_;
  std::unordered_map<std::string, Node> nodes_;
  std::atomic<std::size_t> slow_nodes_{0};
  TimePoint window_began_;
  TimePoint judged_;
  std::optional<Duration> hedge_unknown_after_;  // of nodes that have not answered often enough
  std::uint64_t answers_for_hedges_ = kHedgesAtOnce * kAnswersPerHedge;
};

}  // namespace forebay
