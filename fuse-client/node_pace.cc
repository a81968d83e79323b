#include "fuse-client/node_pace.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <utility>

namespace forebay {
namespace {

constexpr Duration kJudgeEvery = std::chrono::milliseconds(500);
constexpr int kSlowFactor = 5;
constexpr int kHedgeFactor = 3;
constexpr std::uint64_t kTrimmedOneIn = 100;
/// Nodes beyond these are not watched; a ring has at most so many (kMaxRingNodes).
constexpr std::size_t kMaxNodes = 4096;
constexpr std::size_t kBucketsPerOctave = 4;

/// Of sorted values without one that is `own`: their lower median.
Duration MedianOfOthers(const std::vector<Duration>& sorted, Duration own) {
  const auto place =
      static_cast<std::size_t>(std::ranges::lower_bound(sorted, own) - sorted.begin());
  const std::size_t middle = (sorted.size() - 2) / 2;
  return sorted[middle < place ? middle : middle + 1];
}

Duration TooLong(Duration others) {
  return std::max<Duration>(kSlowFactor * others, NodePace::kSlowAtLeast);
}

Duration HedgeAfterTail(Duration tail) {
  return std::max<Duration>(NodePace::kHedgeAtLeast, kHedgeFactor * tail);
}

}  // namespace

/// What is known of one node that answered often enough to be compared.
struct NodePace::Speed {
  Node* node;
  const std::string* id;
  Duration half;  // of its answers take at most this
  Duration mean;  // without the slowest
  Duration tail;  // 99 of 100 take at most this
};

std::size_t NodePace::BucketOf(Duration took) {
  const auto us = static_cast<std::uint64_t>(std::max<std::int64_t>(
      std::chrono::duration_cast<std::chrono::microseconds>(took).count(), 1));
  const auto octave = static_cast<std::size_t>(std::bit_width(us) - 1);
  const std::uint64_t quarter = octave < 2 ? 0 : (us >> (octave - 2)) & 3;
  return std::min(octave * kBucketsPerOctave + static_cast<std::size_t>(quarter), kBuckets - 1);
}

Duration NodePace::UpperBound(std::size_t bucket) {
  const std::size_t octave = bucket / kBucketsPerOctave;
  const std::size_t quarters = kBucketsPerOctave + bucket % kBucketsPerOctave + 1;
  return std::chrono::microseconds((std::int64_t{1} << octave) *
                                   static_cast<std::int64_t>(quarters) /
                                   std::int64_t{kBucketsPerOctave});
}

// The upper bound of the bucket that holds it.
Duration NodePace::Quantile(const Node& node, double q) {
  const auto wanted = static_cast<std::uint64_t>(
      std::ceil(q * static_cast<double>(node.now.all + node.before.all)));
  std::uint64_t seen = 0;
  std::size_t bucket = 0;
  for (; bucket < kBuckets - 1; ++bucket) {
    seen += node.now.counts[bucket] + node.before.counts[bucket];
    if (seen >= wanted) break;
  }
  return UpperBound(bucket);
}

// One answer at least is left out: a single bad one is no bad node.
Duration NodePace::TrimmedMean(const Node& node) {
  const std::uint64_t all = node.now.all + node.before.all;
  const std::uint64_t counted = all - std::max<std::uint64_t>(all / kTrimmedOneIn, 1);
  if (all < 2) return {};
  std::uint64_t left = counted;
  Duration sum{};
  for (std::size_t bucket = 0; bucket < kBuckets && left > 0; ++bucket) {
    const std::uint64_t here =
        std::min<std::uint64_t>(left, node.now.counts[bucket] + node.before.counts[bucket]);
    sum += UpperBound(bucket) * static_cast<std::int64_t>(here);
    left -= here;
  }
  return sum / static_cast<std::int64_t>(counted);
}

void NodePace::Turn(TimePoint now) {
  if (now - window_began_ < kWindow) return;
  const bool long_ago = now - window_began_ >= 2 * kWindow;
  window_began_ = now;
  for (auto& [id, node] : nodes_) {
    node.before = long_ago ? Window() : std::exchange(node.now, Window());
    if (long_ago) node.now = Window();
  }
}

void NodePace::Note(const std::string& node, Duration took, TimePoint now) {
  const std::scoped_lock lock(mutex_);
  Turn(now);
  auto known = nodes_.find(node);
  if (known == nodes_.end()) {
    if (nodes_.size() >= kMaxNodes) return;
    known = nodes_.emplace(node, Node()).first;
  }
  ++known->second.now.counts[BucketOf(took)];
  ++known->second.now.all;
  answers_for_hedges_ = std::min(answers_for_hedges_ + 1, kHedgesAtOnce * kAnswersPerHedge);
  if (now - judged_ >= kJudgeEvery) Judge(now);
}

/// `half` and `mean` are the others'.
void NodePace::JudgeOne(const Speed& speed, Duration half, Duration mean, TimePoint now) {
  Node& node = *speed.node;
  if (!node.slow && (speed.half >= TooLong(half) || speed.mean >= TooLong(mean))) {
    node.slow = true;
    node.slow_since = now;
  } else if (node.slow && speed.half < TooLong(half) / 2 && speed.mean < TooLong(mean) / 2 &&
             now - node.slow_since >= kSlowFor) {
    node.slow = false;
  }
}

void NodePace::Say(const Speed& speed, Duration others) {
  const auto ms = [](Duration d) { return std::chrono::duration<double, std::milli>(d).count(); };
  spdlog::warn(
      "cache node {} is {}: it answers from its cache in {:.1f} ms on average, the others in "
      "{:.1f} ms",
      *speed.id, speed.node->slow ? "slow; reads go to other owners first" : "slow no longer",
      ms(speed.mean), ms(others));
}

// A slow node is asked seldom: fewer answers judge it.
void NodePace::Judge(TimePoint now) {
  judged_ = now;
  std::vector<Speed> speeds;
  std::vector<Duration> halves;
  std::vector<Duration> means;
  std::vector<Duration> tails;
  for (auto& [id, node] : nodes_) {
    node.hedge_after.reset();
    const std::uint64_t answers = node.now.all + node.before.all;
    if (answers < (node.slow ? kTellingAnswers / 4 : kTellingAnswers)) continue;
    speeds.push_back(
        Speed{&node, &id, Quantile(node, 0.5), TrimmedMean(node), Quantile(node, 0.99)});
    halves.push_back(speeds.back().half);
    means.push_back(speeds.back().mean);
    tails.push_back(speeds.back().tail);
  }
  for (std::vector<Duration>* values : {&halves, &means, &tails}) std::ranges::sort(*values);
  hedge_unknown_after_.reset();
  if (!tails.empty()) hedge_unknown_after_ = HedgeAfterTail(tails[(tails.size() - 1) / 2]);
  if (speeds.size() < 2) return;
  for (const Speed& speed : speeds) {
    speed.node->hedge_after = HedgeAfterTail(MedianOfOthers(tails, speed.tail));
    const bool was_slow = speed.node->slow;
    const Duration mean = MedianOfOthers(means, speed.mean);
    JudgeOne(speed, MedianOfOthers(halves, speed.half), mean, now);
    if (speed.node->slow != was_slow) Say(speed, mean);
  }
  const auto slow = std::ranges::count_if(nodes_, [](const auto& row) { return row.second.slow; });
  slow_nodes_.store(static_cast<std::size_t>(slow), std::memory_order_release);
}

void NodePace::Returned(const std::string& node) {
  const std::scoped_lock lock(mutex_);
  const auto known = nodes_.find(node);
  if (known == nodes_.end()) return;
  known->second.now = Window();
  known->second.before = Window();
}

bool NodePace::IsSlow(const std::string& node) const {
  if (slow_nodes_.load(std::memory_order_acquire) == 0) return false;
  const std::scoped_lock lock(mutex_);
  const auto known = nodes_.find(node);
  return known != nodes_.end() && known->second.slow;
}

bool NodePace::TakeSample(const std::string& node, TimePoint now) {
  const std::scoped_lock lock(mutex_);
  const auto known = nodes_.find(node);
  if (known == nodes_.end() || now - known->second.sampled < kSampleEvery) return false;
  known->second.sampled = now;
  return true;
}

std::optional<Duration> NodePace::HedgeAfter(const std::string& node) const {
  const std::scoped_lock lock(mutex_);
  const auto known = nodes_.find(node);
  if (known == nodes_.end() || !known->second.hedge_after) return hedge_unknown_after_;
  return known->second.hedge_after;
}

bool NodePace::TakeHedge(const std::string& node) {
  const std::scoped_lock lock(mutex_);
  const auto known = nodes_.find(node);
  if (known != nodes_.end() && known->second.slow) return true;
  if (answers_for_hedges_ < kAnswersPerHedge) return false;
  answers_for_hedges_ -= kAnswersPerHedge;
  return true;
}

}  // namespace forebay
