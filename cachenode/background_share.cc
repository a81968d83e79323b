#include "cachenode/background_share.h"

#include <algorithm>
#include <bit>

namespace forebay {
namespace {

using std::chrono::milliseconds;

/// The background never stands still: what nobody waits for now may be waited for later.
constexpr std::size_t kLeastFills = 4;
constexpr std::size_t kLeastPart = 60;
/// One step of growth where a larger share was too much before.
constexpr std::size_t kStepPart = 32;

/// Of a local S3's milliseconds a few are chance.
constexpr milliseconds kTooSlowBy{2};
constexpr milliseconds kHardlySlowBy{1};

/// The background has ended, or there are no readers, when none was under way for so long.
constexpr std::chrono::seconds kOver{1};
/// Between two pauses, however little is known.
constexpr std::chrono::seconds kBetweenPauses{5};
/// Fewer say nothing when a pause must end.
constexpr std::size_t kFewestAlone = 3;

/// Of links times sizes. A node has some hundred links at most.
constexpr std::size_t kMostKeys = 4096;

int SizeClass(std::uint32_t bytes) { return static_cast<int>(std::bit_width(bytes >> 16)); }

Duration Slowed(Duration alone, double factor, Duration by_at_least) {
  return std::max(std::chrono::duration_cast<Duration>(alone * factor), alone + by_at_least);
}

}  // namespace

BackgroundShare::BackgroundShare(std::size_t most)
    : most_(most),
      least_(std::min(most, std::max(kLeastFills, most / kLeastPart))),
      limit_(most),
      careful_from_(most) {}

/// Of `times`, which are done with.
Duration BackgroundShare::MedianOf(std::vector<Duration>& times) {
  const auto middle = times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2);
  std::ranges::nth_element(times, middle);
  const Duration median = *middle;
  times.clear();
  return median;
}

void BackgroundShare::See(std::size_t under_way, TimePoint now) {
  const bool quiet = under_way <= least_;
  if (quiet && !quiet_) quiet_since_ = now;
  quiet_ = quiet;
}

// What is under way goes on: the next look makes sense when that has ended.
void BackgroundShare::Halve(Duration median, TimePoint now) {
  if (now - changed_at_ < median) return;
  limit_ = std::max(least_, limit_ / 2);
  careful_from_ = limit_;
  changed_at_ = now;
}

void BackgroundShare::Raise(Duration median, TimePoint now) {
  if (now - changed_at_ < median) return;
  const std::size_t doubled = std::min(2 * limit_, careful_from_);
  const std::size_t stepped = limit_ + std::max<std::size_t>(1, most_ / kStepPart);
  limit_ = std::min(most_, std::max(doubled, stepped));
  changed_at_ = now;
}

void BackgroundShare::MayPause(const Key& key, const Delays& delays, TimePoint now) {
  const bool known = delays.typical_alone > Duration::zero();
  if (pausing_ || now - paused_at_ < (known ? Duration(kStale) : Duration(kBetweenPauses))) return;
  pausing_ = true;
  paused_for_ = key;
  paused_at_ = now;
}

void BackgroundShare::EndPause(TimePoint now) {
  pausing_ = false;
  paused_at_ = now;
  changed_at_ = now;  // what is seen next was under way in the pause
  Delays& delays = delays_[paused_for_];
  if (delays.alone.size() < kFewestAlone) return;
  delays.typical_alone = MedianOf(delays.alone);
  delays.learned_at = now;
}

void BackgroundShare::NoteAlone(const Key& key, Delays& delays, Duration took, TimePoint now) {
  delays.beside.clear();
  delays.alone.push_back(took);
  if (delays.alone.size() < kAloneWindow) return;
  const Duration median = MedianOf(delays.alone);
  delays.typical_alone = median;
  delays.learned_at = now;
  if (!pausing_) {
    Raise(median, now);
  } else if (paused_for_ == key) {
    EndPause(now);
  }
}

void BackgroundShare::NoteBeside(const Key& key, Delays& delays, Duration took, TimePoint now) {
  const Duration alone = delays.typical_alone;
  if (alone == Duration::zero() || now - delays.learned_at >= kStale) MayPause(key, delays, now);
  if (alone == Duration::zero() || pausing_) return;
  delays.beside.push_back(took);
  if (delays.beside.size() < kBesideWindow) return;
  const Duration median = MedianOf(delays.beside);
  if (median > Slowed(alone, kTooSlow, kTooSlowBy)) {
    Halve(median, now);
  } else if (median <= Slowed(alone, kHardlySlow, kHardlySlowBy)) {
    Raise(median, now);
  }
}

void BackgroundShare::NoteReader(const Uuid& link, std::uint32_t bytes, Duration took,
                                 std::size_t under_way, TimePoint now) {
  reader_at_ = now;
  See(under_way, now);
  if (delays_.size() >= kMostKeys) delays_.clear();
  const Key key(link, SizeClass(bytes));
  Delays& delays = delays_[key];
  const bool was_alone = quiet_ && now - took >= quiet_since_;
  if (was_alone) {
    NoteAlone(key, delays, took, now);
  } else {
    NoteBeside(key, delays, took, now);
  }
}

std::size_t BackgroundShare::Limit(std::size_t under_way, std::size_t readers, TimePoint now) {
  See(under_way, now);
  if (readers > 0) reader_at_ = now;
  const bool begins = under_way == 0 && now - working_at_ >= kOver;
  working_at_ = now;
  if (begins) {
    limit_ = now - reader_at_ < kOver ? least_ : most_;
    careful_from_ = most_;
    changed_at_ = now;
  }
  while (limit_ < most_ && now - std::max(changed_at_, reader_at_) >= kNoReader) {
    limit_ = std::min(most_, 2 * limit_);
    careful_from_ = most_;
    changed_at_ = std::max(changed_at_, reader_at_) + kNoReader;
  }
  if (pausing_ && now - paused_at_ >= kPauseAtMost) EndPause(now);
  return current();
}

}  // namespace forebay
