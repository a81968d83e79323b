#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/base/deadline.h"
#include "common/wire/rpc.h"
#include "proto/coordinator.pb.h"

namespace forebay {

/// The mounts that there are: each asks every two seconds which links there are, and says with that
/// what it is. Nothing is persisted: a coordinator that has just begun to lead knows all of them
/// when they have asked once. However many ask and whatever they say, what is kept is bounded.
/// Pure: time is given. Not thread-safe.
class MountBook {
 public:
  /// A mount asks for links. One that waits to be mounted is not there yet.
  void Note(const proto::GetLinksRequest& request, const PeerIdentity& peer, TimePoint now);

  /// A link whose mounts are wanted.
  struct Wanted {
    std::string link;
    std::string set = {};  ///< That it is a part of; "" = of none.
    /// False: it has been removed, or was never there. Only who has mounted it by its name shows
    /// it.
    bool exists = true;
  };
  /// A page: mounts that show one of `links` (nothing = all), those after `request.after`.
  void List(const std::optional<std::vector<Wanted>>& links, const std::string& after,
            TimePoint now, proto::ListMountsReply& reply) const;

  /// One that has not asked for so long is not shown any more: it asks every 2 s, and waits some
  /// seconds for an answer.
  static constexpr Duration kShownFor = std::chrono::seconds(60);
  /// As many as may be connected (kMostConnections), in some 8 MiB; where more come, those leave
  /// that have not asked for longest.
  static constexpr std::size_t kMaxMounts = 16384;
  /// Of a reply, which has room for 1 MiB.
  static constexpr int kMaxRows = 1000;
  static constexpr std::size_t kMaxPageBytes = std::size_t{512} << 10;

  std::size_t size() const { return mounts_.size(); }

 private:
  struct Mount {
    std::string host;
    std::string mountpoint;
    std::string source;  // "" = not known
    std::string client;
    std::string address;
    std::string version;
    std::optional<std::vector<std::string>> granted;  // as PeerTerms::links
    TimePoint heard;
  };
  /// Its incarnation, or 0 for one of a release that does not say it; and who it is, so that nobody
  /// speaks for another member.
  using Key = std::pair<std::uint64_t, std::string>;

  static bool Shows(const Mount& mount, const Wanted& link);
  void MakeRoom(TimePoint now);

  std::map<Key, Mount> mounts_;
  TimePoint tidied_;
};

}  // namespace forebay
