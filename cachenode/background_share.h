#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "common/base/deadline.h"
#include "common/model/object_version.h"

namespace forebay {

/// How many fills that nobody waits for may be under way to S3 at once: as many as do not make
/// those wait much longer that somebody waits for. What S3, the network and this machine carry is
/// not known, but that it is passed shows in the time that readers' GETs take, beside what they
/// take while hardly anything else is under way: the share grows while that is much the same, and
/// is halved where it is not, as in TCP Vegas (Brakmo and Peterson, 1995). What is under way at
/// that point fills the pipe, so that the whole loses nothing. What they take alone is measured
/// anew now and then, for which the background pauses, as in BBR (Cardwell et al., 2016). Without
/// readers the background has all of its share. Pure: time is given. Not thread-safe.
class BackgroundShare {
 public:
  static constexpr double kTooSlow = 2.5;  ///< Times what a GET takes alone: the share is halved.
  static constexpr double kHardlySlow = 1.75;  ///< Up to here it grows.
  /// Readers' GETs that are looked at together, of which the median counts: alone, and beside the
  /// background.
  static constexpr std::size_t kAloneWindow = 9;
  static constexpr std::size_t kBesideWindow = 7;
  /// Time without a reader in which the share doubles.
  static constexpr std::chrono::milliseconds kNoReader{250};
  /// So old may be what is known of a GET alone, and so long does a pause last at most.
  static constexpr std::chrono::seconds kStale{30};
  static constexpr std::chrono::seconds kPauseAtMost{1};

  /// Never more than `most` fills.
  explicit BackgroundShare(std::size_t most);

  /// A fill that had its slot as a reader's, of a block of `bytes`, took so long from there to its
  /// last byte. `under_way`: of the background.
  void NoteReader(const Uuid& link, std::uint32_t bytes, Duration took, std::size_t under_way,
                  TimePoint now);

  /// How many may be under way, of which `under_way` are. `readers`: so many fills with readers are
  /// under way, too.
  std::size_t Limit(std::size_t under_way, std::size_t readers, TimePoint now);

  /// The last limit, the smallest one, and all there is.
  std::size_t current() const { return pausing_ ? least_ : limit_; }
  std::size_t least() const { return least_; }
  std::size_t most() const { return most_; }

 private:
  /// Of one link, and of blocks of about one size: other links are elsewhere, and a large block
  /// takes its time on a slow line.
  struct Delays {
    std::vector<Duration> alone;   // up to kAloneWindow
    std::vector<Duration> beside;  // up to kBesideWindow
    Duration typical_alone{};      // 0 = not known
    TimePoint learned_at;
  };
  using Key = std::pair<Uuid, int>;

  static Duration MedianOf(std::vector<Duration>& times);
  void See(std::size_t under_way, TimePoint now);
  void NoteAlone(const Key& key, Delays& delays, Duration took, TimePoint now);
  void NoteBeside(const Key& key, Delays& delays, Duration took, TimePoint now);
  void MayPause(const Key& key, const Delays& delays, TimePoint now);
  void EndPause(TimePoint now);
  void Halve(Duration median, TimePoint now);
  void Raise(Duration median, TimePoint now);

  const std::size_t most_;
  const std::size_t least_;
  std::size_t limit_;
  std::size_t careful_from_;  // below it the share doubles, above it grows step by step
  TimePoint changed_at_;
  TimePoint reader_at_;   // the last time that one was under way
  TimePoint working_at_;  // the last time that the background was, or wanted to be
  bool quiet_ = true;     // no more than least_ are under way
  TimePoint quiet_since_;
  bool pausing_ = false;
  Key paused_for_;
  TimePoint paused_at_;  // the last time that it began, or ended
  std::map<Key, Delays> delays_;
};

}  // namespace forebay
