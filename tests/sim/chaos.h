#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "common/ring/ring.h"
#include "tests/fakes/temp_dir.h"
#include "tests/sim/far_s3.h"
#include "tests/sim/mutants.h"
#include "tests/sim/network.h"
#include "tests/sim/programs.h"
#include "tests/sim/sim_mount.h"
#include "tests/sim/virtual_time.h"

namespace forebay::sim {

/// What happens to a cluster. One fault of a kind, with all else as it should be, has tighter
/// promises than all of them together.
enum class Story : std::uint8_t {
  kCalm,       ///< Nothing.
  kKilled,     ///< One node is killed and comes back.
  kStopped,    ///< One node is stopped and goes on.
  kLost,       ///< One machine is gone, and says nothing.
  kCutOff,     ///< One node is cut off from all others, and comes back.
  kAlone,      ///< There is no coordinator any more, and nodes restart.
  kHerd,       ///< A thousand readers at the same moment want one block that nobody has yet.
  kPending,    ///< S3 answers nobody for a while.
  kImpatient,  ///< Readers give up before they have an answer.
  kFar,        ///< Readers begin far behind the fronts of large blocks.
  kLeaving,    ///< A node is drained, and another is lost meanwhile.
  kUnserved,   ///< S3 answers one node no more.
  kZones,      ///< Nodes and mounts lie in two zones, and blocks have copies.
  kChaos,      ///< Everything, at random, and messages are lost, late, reset and damaged.
  kWeek,       ///< A week without any coordinator, with faults; then it comes back.
};
inline constexpr std::size_t kStories = 15;
std::string_view StoryName(Story story);
/// kStories: there is none of this name.
Story StoryNamed(std::string_view name);
/// What is read in a story; `replicas` where it says nothing of its own.
Dataset::Shape ShapeFor(Story story, std::uint32_t replicas);

/// What one run, or many, came to.
struct Outcome {
  std::uint64_t seeds = 0;
  std::uint64_t reads = 0;
  std::uint64_t faults = 0;  ///< That were done to programs, machines and messages.
  std::uint64_t events = 0;
  std::uint64_t calls = 0;
  std::uint64_t gets = 0;
  std::uint64_t tables = 0;  ///< New ring tables.
  /// GETs of blocks that the asker's owners behind it had: it had not noticed that it was away.
  std::uint64_t gets_behind = 0;
  std::uint64_t given_up = 0;  ///< Reads, by their readers.
  std::uint64_t excused = 0;   ///< Reads that failed while nobody was there to answer.
  std::uint64_t second_gets = 0;
  std::uint64_t stand_in_fills = 0;
  std::uint64_t released = 0;  ///< Pinned copies that were given up.
  Duration longest{};          ///< Read.
  Duration simulated{};
  std::map<std::string, std::uint64_t> by_fault;
  std::vector<std::string> broken;  ///< Promises, as sentences.

  void Add(const Outcome& other);
};

/// The same in all runs, because it takes long to make: tables of clusters of each size.
class Beginnings {
 public:
  static constexpr std::size_t kFewest = 3;
  static constexpr std::size_t kMost = 6;
  Beginnings();
  /// `zoned`: the nodes lie in two zones, in turns.
  const CoordinatorState& Of(std::size_t nodes, bool zoned) const {
    return (zoned ? zoned_ : states_)[nodes - kFewest];
  }

 private:
  std::vector<CoordinatorState> states_;
  std::vector<CoordinatorState> zoned_;
};

/// Which life.
struct Fate {
  std::uint64_t seed = 1;
  Story story = Story::kChaos;
  Mutant mutant = Mutant::kNone;
  std::uint32_t days = 7;  ///< Of a week.
};

/// One cluster's life, from one seed: a coordinator, three to six nodes, two or three mounts, an
/// S3; faults for some seconds; then everything is well again, and it is judged.
class Chaos {
 public:
  Chaos(Fate fate, const Beginnings& beginnings, const Dataset& data, NodeShared& shared);
  ~Chaos();
  Outcome Run();

 private:
  struct Machine {
    std::string id;
    std::string address;
    std::string zone;
    NodeDisk disk;
    std::unique_ptr<SimNode> node;
    std::uint64_t capacity = 0;
  };
  using Recent = std::vector<std::string>;  // node ids, newest first

  bool Is(Mutant mutant) const { return fate_.mutant == mutant; }
  bool Is(Story story) const { return fate_.story == story; }
  void StartCoordinator();
  void StartMount(std::size_t which);
  std::string StateDirOf(std::size_t mount) const;
  void StartNode(Machine& machine, bool restarted);
  void Kill(Machine& machine, Duration until_restart, bool disk_too);
  void StopFor(Machine& machine, Duration how_long);
  Duration Lasting();
  void KillCoordinator(Duration until_restart);
  void DoFault();
  void DoNetworkFault(Machine& machine);
  void DoDecision(Machine& machine);
  void ScheduleFaults();
  void DoOne(Machine& machine);
  void DoLeaving(Machine& machine);
  void WatchTables();
  void Heal();
  void BeginReading();
  void BeginHerd();
  void BeginImpatience();
  void BeginFar();
  void Live();
  void MakeWell();
  void ReadAll();
  void FinishReading(const char* when);
  void Judge();
  void JudgeGets();
  void JudgeAgain();
  void JudgeHerd();
  void JudgeKept();
  void Sum();
  bool Has(const std::string& id, const BlockId& block) const;

  // A week without a coordinator (week.cc).
  void LiveForAWeek();
  void ScheduleWeek(TimePoint end);
  Duration DoInWeek();
  void Remount(std::size_t which);
  void LoseAllNodes();
  void AskInVain();
  void ReturnOldCopy(CoordinatorState copy);
  void ReturnCoordinator();
  void NoteGet(std::size_t object, const std::string& node);
  void NoteRelease(const Machine& from, const BlockId& block);
  void JudgeReleased();
  bool SomebodyReads() const;
  void Broken(std::string sentence);
  void Count(const char* fault);
  Machine& AnyNode();
  std::size_t ColdBlocksOf(const Machine& machine) const;

  const Fate fate_;
  const Dataset& data_;
  NodeShared& shared_;
  World world_;
  Network network_;
  FarS3 s3_;
  CoordinatorState coordinator_disk_;
  const std::uint64_t first_epoch_;
  const bool pinned_;  // all that is cached; no disk is lost then, so that a copy is not, either
  ReadTally tally_;
  Outcome outcome_;
  std::uint64_t next_incarnation_ = 1;
  bool judging_gets_ = false;
  bool well_ = false;
  Machine* victim_ = nullptr;
  Machine* unserved_ = nullptr;  // by S3
  std::size_t unserved_blocks_ = 0;
  std::vector<Recent> former_;  // by block: its first owners of before, as the tables were seen
  std::shared_ptr<const RingTable> seen_;
  bool offers_link_ = false;  // to mounts, which have it from their disks until then
  proto::LinkState link_;     // of a week
  TimePoint outage_begin_;    // when there was no node at all
  TimePoint outage_end_;
  std::vector<std::unique_ptr<SimAdmin::Answer>> answers_;
  std::unique_ptr<fakes::TempDir> disk_;  // of a week
  std::unique_ptr<SimCoordinator> coordinator_;
  std::vector<std::unique_ptr<Machine>> machines_;
  std::vector<std::unique_ptr<SimMount>> mounts_;
  std::unique_ptr<SimAdmin> admin_;
};

}  // namespace forebay::sim
