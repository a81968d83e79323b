#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "common/base/deadline.h"
#include "common/model/membership.h"
#include "proto/coordinator.pb.h"

namespace forebay {

/// Node ids that more than one live process goes by. One of them is the member; the others are
/// refused and ask again, those that hold a cache each second. Who has been refused for longer than
/// a restart or a move takes is a second node, until it has not asked for a while or becomes the
/// member. Pure: time is given. Not thread-safe.
class DoubledNodes {
 public:
  /// Both as in MembershipTimes.
  DoubledNodes(Duration believed_after, Duration held_for)
      : believed_after_(believed_after), held_for_(held_for) {}

  /// `node` was refused because a live process at `holder` goes by its id.
  void NoteRefused(const NodeInfo& node, std::uint64_t incarnation, const std::string& holder,
                   TimePoint now);
  /// `node` is the member now.
  void NoteTaken(const NodeInfo& node, std::uint64_t incarnation);

  /// One for each id.
  std::vector<proto::Alert> Alerts(TimePoint now, std::int64_t now_unix_s) const;

  /// Of all ids; where more are refused, those leave first that have not asked for longest.
  static constexpr std::size_t kMaxRefused = 1024;
  std::size_t refused() const { return refused_.size(); }

 private:
  struct Refused {
    std::uint64_t incarnation = 0;  // of its latest process
    std::string holder;
    TimePoint since;
    TimePoint last;
  };
  /// Id and address: one that is started again and again is one.
  using Key = std::pair<std::string, std::string>;

  bool IsSecond(const Refused& row, TimePoint now) const;

  const Duration believed_after_;
  const Duration held_for_;
  std::map<Key, Refused> refused_;
};

}  // namespace forebay
