#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "common/base/offload.h"
#include "common/model/membership.h"
#include "common/wire/client_pool.h"
#include "common/wire/coordinators.h"
#include "common/wire/peer_health.h"
#include "fuse-client/block_client.h"
#include "fuse-client/namespace_snapshot.h"
#include "fuse-client/node_pace.h"
#include "fuse-client/ring_view.h"
#include "fuse-client/stats.h"
#include "tests/sim/programs.h"

namespace forebay::sim {

/// What all reads of a run have come to.
struct ReadTally {
  std::uint64_t reads = 0;
  std::uint64_t wrong = 0;
  std::uint64_t failed = 0;
  std::uint64_t given_up = 0;  ///< By readers without patience.
  std::uint64_t excused = 0;   ///< Failed, and nobody was there to answer.
  /// Answered from another zone, though an owner with a copy lies in the reader's.
  std::uint64_t far = 0;
  Duration longest{};
  std::string first_failure;
};

/// A mount's way to blocks: the real BlockClient with all that it goes by, and readers.
class SimMount : private Program {
 public:
  struct Options {
    std::string machine;
    std::string zone = {};
    Duration silence = kPeerPatience;
    /// What it keeps there it begins from: the ring, and the listing that its readers go by. "" =
    /// it keeps nothing, and its readers go by the dataset.
    std::string state_dir = {};
    /// Called when a read has failed: true, nobody could have answered it.
    std::function<bool(TimePoint began)> excuses = {};
    bool knows_zone = true;  ///< Not in a mutant.
  };
  SimMount(World& world, Network& network, const Dataset& data, Options options, ReadTally& tally);
  ~SimMount();
  using Program::process;

  /// Of block `number`; of all of it where the range is empty.
  struct Wanted {
    std::size_t number = 0;
    BlockRange range = {};
  };
  struct Reading {
    std::size_t count = 1;
    std::function<Wanted()> next;
    Duration pause{};  ///< At most so long before each read.
    /// Not zero: gives each read up after a part of it.
    Duration patience{};
  };
  /// A reader, which begins when the listing is there.
  void Read(Reading reading);
  std::size_t readers() const { return readers_; }
  std::uint64_t ring_epoch() const { return ring_.epoch(); }
  void Offer(const RingTable& table) { ring_.Offer(table); }
  /// From now on answers that come from another zone than that of an owner with a copy count as
  /// far.
  void JudgeZones() { judges_zones_ = true; }

  // Of a mount with a state directory.
  bool mounted() const { return !listed_.empty(); }
  bool from_disk() const { return from_disk_; }
  const std::string& mount_error() const { return mount_error_; }
  /// Asks for the link as it is now; true later: it is as shown, and nothing is to be fetched.
  void Look(bool* same);

 private:
  Task<void> Mount();
  Task<void> RunLook(bool* same);
  Task<void> RunReader(Reading reading);
  BlockRequest RequestFor(const Wanted& wanted) const;
  void Note(const BlockRequest& request, const Result<Cells>& cells, TimePoint began,
            bool impatient);
  bool IsFar(const BlockRequest& request, const std::string& node) const;

  const Options options_;
  const Dataset& data_;
  ReadTally& tally_;
  RingView ring_;
  PeerHealth health_;
  NodePace pace_;
  WorkerStats stats_;
  std::size_t readers_ = 0;
  bool judges_zones_ = false;
  bool from_disk_ = false;
  std::string mount_error_;
  std::vector<BlockRequest> listed_;  // as the listing says
  proto::LinkState shown_;
  std::unique_ptr<BlockClient> client_;
  std::unique_ptr<RingRefresher> refresher_;
  std::unique_ptr<ClientPool> pool_;
  SnapshotCounts snapshots_;
  std::unique_ptr<Offload> offload_;
  std::unique_ptr<NamespaceSource> source_;
  IoPool io_{"mount", 1};
};

/// Whoever tells the coordinator what to do about nodes: the way of the CLI to it.
class SimAdmin : private Program {
 public:
  SimAdmin(World& world, Network& network);
  ~SimAdmin();

  struct Verb {
    std::string node;
    NodeChange change;
  };
  /// Answered when `done`: how, and after how long.
  struct Answer {
    bool done = false;
    Status status;
    Duration took{};
  };
  void Ask(Verb verb, Answer* answer);

 private:
  Task<void> Run(Verb verb, Answer* answer);

  std::unique_ptr<ClientPool> pool_;
  std::unique_ptr<Coordinators> coordinators_;
  IoPool io_{"admin", 1};
};

}  // namespace forebay::sim
