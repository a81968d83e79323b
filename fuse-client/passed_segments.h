#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <mutex>
#include <unordered_map>
#include <unordered_set>

#include "common/base/deadline.h"
#include "common/wire/passed_file.h"
#include "fuse-client/known_places.h"

namespace forebay {

/// A segment of a node of this machine, as the node calls it while it runs.
struct SegmentName {
  std::uint64_t store = 0;  ///< Of one process of a node alone.
  std::uint64_t segment = 0;

  bool operator==(const SegmentName&) const = default;
};

/// The segments' files that the nodes of this machine have passed to this process, open for
/// reading: at most `limit`; those that nobody has used for the longest time are closed first.
/// Whoever reads from one keeps it open until then. And what is known of where blocks lie in them,
/// in at most `place_bytes`. Thread-safe.
class PassedSegments {
 public:
  /// `limit` is not 0.
  PassedSegments(std::size_t limit, std::uint64_t place_bytes)
      : places_(place_bytes), limit_(limit) {}
  /// A quarter of the descriptors that this process may have.
  static std::size_t UsualLimit();

  /// Null: it is not here.
  PassedFile Find(const SegmentName& name, TimePoint now);

  /// True: nobody asks for this one yet; the caller does, and says with EndOpen what came of it.
  bool BeginOpen(const SegmentName& name);
  /// Null: the node did not pass it. For a while then it is no use to ask for places.
  void EndOpen(const SegmentName& name, PassedFile file, TimePoint now);
  /// A node of this machine may be asked for places.
  bool Usable(TimePoint now) const;
  static constexpr Duration kPauseAfterFailure = std::chrono::seconds(5);

  /// It cannot be read any more: its node has removed it.
  void Drop(const SegmentName& name);
  /// Those that nobody has used since `before`: nothing of this process keeps a disk busy that
  /// nobody reads from.
  void CloseUnused(TimePoint before);

  std::size_t size() const;

  KnownPlaces& places() { return places_; }

 private:
  struct Hash {
    std::size_t operator()(const SegmentName& name) const {
      return std::hash<std::uint64_t>()(name.store * 0x9E3779B97F4A7C15ULL + name.segment);
    }
  };
  struct Open {
    SegmentName name;
    PassedFile file;
    TimePoint used;
  };

  KnownPlaces places_;
  const std::size_t limit_;
  mutable std::mutex mutex_;  // guards what follows
  std::list<Open> open_;      // the least recently used last
  std::unordered_map<SegmentName, std::list<Open>::iterator, Hash> by_name_;
  std::unordered_set<SegmentName, Hash> asked_for_;

  std::atomic<Duration> usable_from_{Duration::min()};  // by Clock
};

}  // namespace forebay
