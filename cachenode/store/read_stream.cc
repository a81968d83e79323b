#include "cachenode/store/read_stream.h"

#include <algorithm>
#include <cmath>

namespace forebay {
namespace {

// The figures below were chosen with tests/bench/eviction_bench over all of its workloads.

/// A tick is at least so many reads.
constexpr std::uint64_t kMinTick = 16;
/// Older stamps lose their date, long before its number comes again.
constexpr std::uint32_t kOldTicks = 44;
/// A stamp is shown at the latest after `stamps` / kLooksPerRead reads. A tick of at least this
/// part of them leaves twice the time until the number of an old date comes again.
constexpr std::uint64_t kStampsPerTick = 56;
/// What was seen fades to 1/e in two epochs.
constexpr double kFade = 1 - 1.0 / 40;
/// How much the shape of a permutation weighs, in expected reads, against what was seen.
constexpr double kPriorReads = 8;
constexpr double kPriorPeriods = 0.3;
/// Reads again, by their gaps, that a stream must have seen before it learns, in epochs of all its
/// blocks: in a first epoch nothing is read again, which does not mean that nothing ever will be.
constexpr double kFirstEpoch = 0.1;
/// A read counts less the later it comes: 1/e after a tenth of an epoch. What will be read soon is
/// decided now; later there will be another choice.
constexpr double kHorizon = 0.1;
/// Of permuted epochs: the mean gap, weighted by its length, is 7/6 of the epoch.
constexpr double kGapBias = 7.0 / 6;
/// A block is dead when it is read with less than this chance within about half an epoch.
constexpr double kDeadHorizon = 0.5;
constexpr double kDead = 0.05;
/// The least worth of a block that is not, in reads per epoch.
constexpr double kFloor = 0.02;
/// A job has stopped when it would have read this part of an epoch meanwhile …
constexpr double kIdleAfter = 0.05;
/// … or has been away for so much longer than ever before.
constexpr double kPauseFactor = 1.5;
/// A tick is dry when the job comes back to what it has read less than this part as often as it
/// does on average …
constexpr double kDrought = 0.1;
/// … which must be this part of its reads, and so many reads of the drought.
constexpr double kLeastReturns = 0.1;
constexpr double kDroughtReads = 16;
/// A drought of this part of an epoch is a switch to other data, unless it had longer ones before.
constexpr double kSwitchAfter = 0.045;
/// How many times less than by the permutation's hazard what it read before is wanted then.
constexpr double kGone = 20;
/// What is shorter, in reads that the job would have made, is no pause: among its first blocks one
/// read is much of an epoch.
constexpr double kLeastPause = 64;
/// A longer pause was the end of a job, and another with its name came later.
constexpr double kLongestPause = 2;

/// Reads per epoch of a block of this age, in epochs, when each epoch is a new permutation: the gap
/// between two reads is the sum of two uniform times.
double PermutedHazard(double age) {
  if (age < 1) return age / (1 - age * age / 2);
  return age < 1.95 ? 2 / (2 - age) : 1;
}

/// The chance of a read within `reads` reads.
double Chance(double hazard, double reads) { return 1 - std::exp(-hazard * reads); }

template <typename T>
void Add(std::atomic<T>& counter, T more) {
  counter.fetch_add(more, std::memory_order_relaxed);
}

template <typename T>
T Get(const std::atomic<T>& counter) {
  return counter.load(std::memory_order_relaxed);
}

std::uint32_t RawDateOf(ReadStamp stamp) { return stamp & 63U; }
int ClassOf(ReadStamp stamp) { return stamp >> 6; }
ReadStamp StampOf(int of_class, std::uint32_t date) {
  return static_cast<ReadStamp>(static_cast<std::uint32_t>(of_class) << 6 | date);
}

}  // namespace

ReadStream::ReadStream() : next_tick_(kMinTick) {}

std::uint32_t ReadStream::TicksSince(std::uint32_t date) const {
  return (Get(tick_) % kTicks + kTicks - (date - 2)) % kTicks;
}

/// Read before the job went on to other data.
bool ReadStream::IsOfOtherLife(ReadStamp stamp) const {
  const std::uint32_t date = RawDateOf(stamp);
  return date >= 2 && TicksSince(date) > Get(tick_) - Get(born_);
}

std::uint32_t ReadStream::DateOf(ReadStamp stamp) const {
  return IsOfOtherLife(stamp) ? 1 : RawDateOf(stamp);
}

/// In reads, from the middle of the tick.
double ReadStream::AgeOf(std::uint32_t date) const {
  const std::uint64_t now = Get(clock_);
  const std::uint64_t begin = Get(began_.at(date - 2));
  const std::uint64_t end = TicksSince(date) == 0 ? now : Get(began_.at((date - 1) % kTicks));
  return static_cast<double>(now) - (static_cast<double>(begin) + static_cast<double>(end)) / 2;
}

bool ReadStream::Reads(ReadStamp stamp, std::uint64_t node_clock) const {
  return DateOf(stamp) >= 2 && !IsIdle(node_clock);
}

ReadStream::Place ReadStream::PlaceOf(const Known& block) const {
  const ReadStamp stamp = block.stamp;
  const std::uint32_t date = DateOf(stamp);
  if (date == 0) return {block.shared ? kShared : 0, kNever};
  if (IsOfOtherLife(stamp)) return {kOtherLife, kLongAgo};
  if (date == 1) return {ClassOf(stamp), kLongAgo};
  const double bucket = std::floor(AgeOf(date) / Get(period_) * kTicksPerEpoch);
  return {ClassOf(stamp), static_cast<int>(std::clamp<double>(bucket, 0, kLongAgo))};
}

bool ReadStream::IsSameRead(ReadStamp before) const {
  const std::uint32_t date = DateOf(before);
  if (date < 2) return false;
  const std::uint32_t ticks = TicksSince(date);
  return ticks == 0 || (ticks == 1 && Get(tick_) > 2);
}

/// By the gap that ends now. Where epochs are permuted it says where in the epoch the block was
/// read: after a long gap, late in the next.
int ReadStream::ClassAfter(std::uint32_t date, const Place& place) {
  if (place.bucket == kNever) return 1;
  if (place.bucket == kLongAgo) return 3;
  const double gap = AgeOf(date) / Get(period_);
  const auto units = static_cast<std::uint64_t>(gap * 64);
  Add(gaps_, units);
  Add(gap_squares_, units * units);
  if (gap < 0.6) return 0;
  if (gap < 1) return 1;
  return gap < 1.4 ? 2 : 3;
}

std::optional<ReadStamp> ReadStream::Note(const Known& before, bool known, std::uint64_t node_clock,
                                          std::uint64_t stamps) {
  if (IsSameRead(before.stamp)) return std::nullopt;
  const std::uint32_t date = DateOf(before.stamp);
  const Place place = PlaceOf(before);
  if (known) {
    Add(reads_.at(static_cast<std::size_t>(place.of_class))
            .at(static_cast<std::size_t>(place.bucket)),
        1U);
  }
  const int of_class = ClassAfter(date, place);
  if (date < 2) Add(blocks_, std::int64_t{1});
  if (date == 0) Add(firsts_, std::uint64_t{1});
  const std::uint32_t drought = Get(drought_);
  const bool is_return =
      date == 1 || (date > 1 && (drought == 0 || TicksSince(date) > Get(tick_) - drought));
  if (is_return) Add(returns_, std::uint64_t{1});
  Add(clock_, std::uint64_t{1});
  NoteReturn(node_clock);
  if (Get(clock_) >= Get(next_tick_)) Advance(node_clock, stamps);
  return StampOf(of_class, Get(tick_) % kTicks + 2);
}

void ReadStream::NoteReturn(std::uint64_t node_clock) {
  const double missed = Missed(node_clock);
  const bool is_pause = missed * Get(period_) >= kLeastPause;
  if (is_pause && missed > Get(longest_pause_) && missed < kLongestPause)
    longest_pause_.store(missed, std::memory_order_relaxed);
  last_read_.store(node_clock, std::memory_order_relaxed);
}

void ReadStream::Look(const Known& block) {
  const Place place = PlaceOf(block);
  Add(looks_.at(static_cast<std::size_t>(place.of_class))
          .at(static_cast<std::size_t>(place.bucket)),
      1U);
}

ReadStamp ReadStream::Aged(ReadStamp stamp) {
  if (IsOfOtherLife(stamp)) return StampOf(kOtherLife, 1);
  const std::uint32_t date = DateOf(stamp);
  if (date < 2 || TicksSince(date) <= kOldTicks) return stamp;
  blocks_.fetch_sub(1, std::memory_order_relaxed);
  return StampOf(ClassOf(stamp), 1);
}

void ReadStream::Forget(ReadStamp stamp) {
  if (DateOf(stamp) >= 2) blocks_.fetch_sub(1, std::memory_order_relaxed);
}

/// The part of the node's reads that are this job's, over the last two ticks or more.
double ReadStream::RateAt(std::uint64_t node_clock) const {
  const std::uint32_t tick = Get(tick_);
  const std::size_t since = tick < 2 ? 0 : (tick - 2) % kTicks;
  const double own = static_cast<double>(Get(clock_) - Get(began_.at(since)));
  const double all =
      static_cast<double>(node_clock - std::min(node_clock, Get(node_began_.at(since))));
  return own / std::max(all, 1.0);
}

double ReadStream::Missed(std::uint64_t node_clock) const {
  const std::uint64_t last = Get(last_read_);
  if (last == 0 || node_clock <= last) return 0;
  return static_cast<double>(node_clock - last) * RateAt(last) / Get(period_);
}

bool ReadStream::IsIdle(std::uint64_t node_clock) const {
  return Missed(node_clock) > std::max(kIdleAfter, kPauseFactor * Get(longest_pause_));
}

bool ReadStream::IsRecent(ReadStamp stamp) const {
  const std::uint32_t date = DateOf(stamp);
  return date >= 2 && TicksSince(date) <= kTicksPerEpoch / 5;
}

double ReadStream::Worth(const Known& block, std::uint64_t node_clock) const {
  if (Get(clock_) == 0 || IsIdle(node_clock)) return 0;
  const Place place = PlaceOf(block);
  const float value = Get(value_.at(static_cast<std::size_t>(place.of_class))
                              .at(static_cast<std::size_t>(place.bucket)));
  return RateAt(node_clock) * static_cast<double>(value);
}

double ReadStream::MeanWorth(std::uint64_t node_clock) const {
  if (Get(clock_) == 0 || IsIdle(node_clock)) return 0;
  return RateAt(node_clock) / Get(period_);
}

/// The next tick begins. One thread does this, and whoever comes meanwhile goes on.
void ReadStream::Advance(std::uint64_t node_clock, std::uint64_t stamps) {
  const std::unique_lock lock(learning_, std::try_to_lock);
  const std::uint64_t now = Get(clock_);
  if (!lock.owns_lock() || now < Get(next_tick_)) return;
  const std::uint32_t tick = Get(tick_) + 1;
  LookForSwitch(now - Get(began_.at(Get(tick_) % kTicks)));
  began_.at(tick % kTicks).store(now, std::memory_order_relaxed);
  node_began_.at(tick % kTicks).store(node_clock, std::memory_order_relaxed);
  tick_.store(tick, std::memory_order_relaxed);
  Learn(stamps);
  Value();
  const auto part = static_cast<std::uint64_t>(Get(period_) / kTicksPerEpoch);
  next_tick_.store(now + std::max({kMinTick, part, stamps / kStampsPerTick}),
                   std::memory_order_relaxed);
}

/// At the end of a tick of `reads` reads. A job that reads again what it knows, and then reads
/// nothing of it any more, has gone on to other data: what it read before is worth nothing.
void ReadStream::LookForSwitch(std::uint64_t reads) {
  const auto returns = static_cast<double>(returns_.exchange(0));
  const auto firsts = static_cast<double>(firsts_.exchange(0));
  const double all = static_cast<double>(std::max<std::uint64_t>(reads, 1));
  const double expected = return_share_ * all;
  const bool dry = learns_ && return_share_ >= kLeastReturns && returns <= kDrought * expected;
  const double period = Get(period_);
  if (!dry) {
    if (Get(drought_) != 0) {
      longest_drought_ = std::max(longest_drought_, drought_reads_ / return_share_ / period);
      drought_.store(0, std::memory_order_relaxed);
    }
    return_share_ += (returns / all - return_share_) * (1 - kFade);
    return;
  }
  if (Get(drought_) == 0) {
    drought_.store(Get(tick_), std::memory_order_relaxed);
    drought_reads_ = 0;
    drought_firsts_ = 0;
  }
  drought_reads_ += expected;
  drought_firsts_ += firsts;
  const double away = drought_reads_ / return_share_ / period;
  if (drought_reads_ >= kDroughtReads &&
      away >= std::max(kSwitchAfter, kPauseFactor * longest_drought_)) {
    BeginLife(Get(drought_));
  }
}

/// What was learned was of other data. Only that it is worth nothing now is known, and that goes
/// with the next reads of it.
void ReadStream::BeginLife(std::uint32_t tick) {
  born_.store(tick, std::memory_order_relaxed);
  drought_.store(0, std::memory_order_relaxed);
  blocks_.store(static_cast<std::int64_t>(drought_firsts_), std::memory_order_relaxed);
  gaps_.store(0);
  gap_squares_.store(0);
  gaps_seen_ = 0;
  gap_squares_seen_ = 0;
  return_share_ = 0;
  reads_seen_ = {};
  chances_ = {};
  chances_.at(kOtherLife).at(kLongAgo) = kGone * kPriorReads * Get(period_);
}

void ReadStream::Learn(std::uint64_t stamps) {
  const double unit = Get(period_) / 64;
  gaps_seen_ = gaps_seen_ * kFade + static_cast<double>(gaps_.exchange(0)) * unit;
  gap_squares_seen_ =
      gap_squares_seen_ * kFade + static_cast<double>(gap_squares_.exchange(0)) * unit * unit;
  const double blocks = std::max(1.0, static_cast<double>(Get(blocks_)));
  const double weight = kPriorPeriods * blocks * blocks;
  const double period = (gap_squares_seen_ / kGapBias + weight * blocks) / (gaps_seen_ + weight);
  period_.store(period, std::memory_order_relaxed);
  learns_ = gaps_seen_ > kFirstEpoch * blocks * period;
  // One look stands for so many blocks, and for one read.
  const double each = static_cast<double>(stamps) / kLooksPerRead;
  for (std::size_t c = 0; c < kClasses; ++c) {
    for (std::size_t b = 0; b < kBuckets; ++b) {
      double& seen = reads_seen_.at(c).at(b);
      double& chances = chances_.at(c).at(b);
      const double reads = reads_.at(c).at(b).exchange(0);
      const double looks = looks_.at(c).at(b).exchange(0);
      // Also in a first epoch it can be learned what is not of the job's data.
      const bool other_data = (b == kNever && c != kShared) || (b == kLongAgo && c == kOtherLife);
      const bool counts = learns_ || other_data;
      seen = counts ? seen * kFade + reads : 0;
      chances = counts ? chances * kFade + looks * each : 0;
      double prior = b == kNever ? 1 : 0.5;
      if (b < kAges) prior = PermutedHazard((static_cast<double>(b) + 0.5) / kTicksPerEpoch);
      hazard_.at(c).at(b) = (seen + prior * kPriorReads) / (chances + kPriorReads * period);
    }
  }
}

/// From the chance of a read at each age to what a block is worth now: the sum over all later ages,
/// each read discounted by how far it is.
void ReadStream::Value() {
  const double period = Get(period_);
  const double step = period / kTicksPerEpoch;
  const double discount = std::exp(-1 / (kTicksPerEpoch * kHorizon));
  const double dead_discount = std::exp(-1 / (kTicksPerEpoch * kDeadHorizon));
  for (std::size_t c = 0; c < kClasses; ++c) {
    const auto& hazard = hazard_.at(c);
    // Where the chance stays the same for ever.
    const auto constant = [&](std::size_t bucket, double by) {
      const double chance = Chance(hazard.at(bucket), step);
      return chance / (1 - by * (1 - chance));
    };
    const auto publish = [&](std::size_t bucket, double soon, double ever) {
      const double worth = std::max(soon * (1 - discount) / step, kFloor / period);
      value_.at(c).at(bucket).store(ever < kDead ? 0.0F : static_cast<float>(worth),
                                    std::memory_order_relaxed);
    };
    publish(kNever, constant(kNever, discount), constant(kNever, dead_discount));
    double soon = constant(kLongAgo, discount);
    double ever = constant(kLongAgo, dead_discount);
    publish(kLongAgo, soon, ever);
    for (std::size_t b = kAges; b-- > 0;) {
      const double chance = Chance(hazard.at(b), step);
      soon = chance + (1 - chance) * discount * soon;
      ever = chance + (1 - chance) * dead_discount * ever;
      publish(b, soon, ever);
    }
  }
}

}  // namespace forebay
