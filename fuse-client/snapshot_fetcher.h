#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>

#include "common/base/asio.h"
#include "common/base/deadline.h"
#include "common/base/network_pace.h"
#include "common/base/offload.h"
#include "common/base/result.h"
#include "common/model/block_source.h"
#include "common/model/link.h"
#include "common/snapshot/delta.h"
#include "common/snapshot/snapshot.h"
#include "proto/coordinator.pb.h"

namespace forebay {

class ClientPool;

/// Of a generation's listing, in the link's folder.
std::string SnapshotName(std::uint64_t generation);

/// The snapshot in `file` when it is exactly what `link` announces; reads all of it. kNotFound;
/// kCorrupt.
Result<std::shared_ptr<const Snapshot>> OpenVerified(const std::string& file,
                                                     const proto::LinkState& link);

/// How a listing was obtained; the label of forebay_snapshot_fetches_total. But for the first, why
/// all of it was fetched.
enum class SnapshotWay : std::uint8_t {
  kDifference,  ///< From the one that was here.
  kFirst,       ///< None was here.
  kNotOffered,  ///< No difference leads from that one to this.
  kNotServed,   ///< The difference did not come.
  kWrong,       ///< It did not lead to what was announced.
  kTooLarge,    ///< To follow it would take more memory than there may be.
};
inline constexpr std::size_t kSnapshotWays = 6;
std::string_view SnapshotWayName(SnapshotWay way);

struct SnapshotCounts {
  std::array<std::atomic<std::uint64_t>, kSnapshotWays> fetches{};
  std::atomic<std::uint64_t> coordinator_bytes{0};
  std::atomic<std::uint64_t> node_bytes{0};
};

/// Brings the snapshot of a generation to this machine: made from the one that is here by what has
/// changed, or whole; from the cache nodes, which fetch it once for all mounts, or from the
/// coordinator where no node can give it. Runs on the context of `pool`; what blocks for long is
/// done by `offload`.
class SnapshotFetcher {
 public:
  struct Parts {
    ClientPool& pool;
    Offload& offload;
    SnapshotCounts& counts;
    BlockSource* nodes = nullptr;                ///< Null: everything comes from the coordinator.
    std::function<Task<bool>()> has_nodes = {};  ///< Whether any is known, perhaps after a look.
    /// The most memory for following differences, of all links together; larger listings are
    /// fetched whole.
    std::uint64_t merge_bytes = std::numeric_limits<std::uint64_t>::max();
    /// Bounds what is fetched, and is charged with what a coordinator sends; null: no bound.
    NetworkPace* bandwidth = nullptr;
  };
  struct Options {
    Duration call_timeout{};  ///< For one answer of the coordinator.
    Duration retry_pause{};   ///< Before a whole file is fetched again.
  };
  SnapshotFetcher(Parts parts, Options options) : parts_(std::move(parts)), options_(options) {}

  /// The snapshot that `link` announces, in `folder` under its name. kNotFound: `coordinator` has
  /// another generation by now; kUnavailable, kTimeout, kOverloaded: it does not answer; kCorrupt:
  /// it sends something else; kInternal: the disk.
  Task<Result<std::shared_ptr<const Snapshot>>> Obtain(proto::LinkState link,
                                                       std::string coordinator, std::string folder);

 private:
  /// A file that the coordinator has.
  struct Wanted {
    LinkSpec link;  ///< Its id, name and set.
    std::string coordinator;
    std::uint64_t generation = 0;
    std::uint64_t before = 0;  ///< Of a difference; 0 = the snapshot.
    std::uint64_t bytes = 0;
    SnapshotDigest digest;
    bool ask_nodes = true;
  };
  /// Of one file, while it comes.
  struct Transfer {
    Wanted wanted;
    int fd = -1;
    bool from_nodes = false;
    std::uint64_t next = 0;  ///< Where the piece begins that nobody has taken yet.
    Status status;           ///< The first failure.
  };
  /// What one difference leads from and to.
  struct Step {
    Wanted delta;
    DeltaEnds ends;
  };

  Task<Result<std::shared_ptr<const Snapshot>>> Follow(proto::LinkState link,
                                                       std::string coordinator, std::string folder,
                                                       SnapshotWay* way);
  Task<Result<std::string>> MakeNext(std::shared_ptr<const Snapshot> before, Step step,
                                     std::string file);
  Task<Status> FetchWhole(Wanted wanted, proto::LinkState link, std::string file, bool is_first);
  Task<Status> Fetch(Wanted wanted, int fd);
  Task<bool> FetchPieces(Transfer& transfer);
  Task<Result<Slice>> Piece(Transfer& transfer, std::uint64_t offset, std::uint32_t length);
  Task<Result<Slice>> PieceOfNodes(Wanted wanted, std::uint64_t offset, std::uint32_t length);
  Task<Result<Slice>> PieceOfCoordinator(Wanted wanted, std::uint64_t offset, std::uint32_t length);

  const Parts parts_;
  const Options options_;
  const std::shared_ptr<std::mutex> merging_ = std::make_shared<std::mutex>();
};

}  // namespace forebay
