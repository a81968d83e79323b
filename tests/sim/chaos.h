#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "common/ring/ring.h"
#include "tests/sim/far_s3.h"
#include "tests/sim/network.h"
#include "tests/sim/programs.h"
#include "tests/sim/virtual_time.h"

namespace forebay::sim {

/// What happens to a cluster. One fault of a kind, with all else as it should be, has tighter
/// promises than all of them together.
enum class Story : std::uint8_t {
  kCalm = 0,     ///< Nothing.
  kKilled = 1,   ///< One node is killed and comes back.
  kStopped = 2,  ///< One node is stopped and goes on.
  kLost = 3,     ///< One machine is gone, and says nothing.
  kCutOff = 4,   ///< One node is cut off from all others, and comes back.
  kAlone = 5,    ///< There is no coordinator any more, and nodes restart.
  kHerd = 6,     ///< A thousand readers at the same moment want one block that nobody has yet.
  kChaos = 7,    ///< Everything, at random, and messages are lost, late, reset and damaged.
};
inline constexpr std::size_t kStories = 8;
std::string_view StoryName(Story story);

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
  Duration longest{};  ///< Read.
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
  const CoordinatorState& Of(std::size_t nodes) const { return states_[nodes - kFewest]; }

 private:
  std::vector<CoordinatorState> states_;
};

/// One cluster's life, from one seed: a coordinator, three to six nodes, two or three mounts, an
/// S3; faults for some seconds; then everything is well again, and it is judged.
class Chaos {
 public:
  Chaos(std::uint64_t seed, Story story, const Beginnings& beginnings, const Dataset& data,
        NodeShared& shared);
  ~Chaos();
  Outcome Run();

 private:
  struct Machine {
    std::string id;
    std::string address;
    NodeDisk disk;
    std::unique_ptr<SimNode> node;
    std::uint64_t capacity = 0;
  };

  void StartNode(Machine& machine, bool restarted);
  void Kill(Machine& machine, Duration until_restart, bool disk_too);
  void StopFor(Machine& machine, Duration how_long);
  void KillCoordinator(Duration until_restart);
  void DoFault();
  void DoNetworkFault(Machine& machine);
  void DoDecision(Machine& machine);
  void ScheduleFaults();
  void DoOne(Machine& machine);
  void BeginReading();
  void BeginHerd();
  void MakeWell();
  void ReadAll();
  void FinishReading(const char* when);
  void Judge();
  void JudgeGets();
  void JudgeHerd();
  void NoteGet(std::size_t object, const std::string& node);
  bool SomebodyReads() const;
  void Broken(std::string sentence);
  void Count(const char* fault);
  Machine& AnyNode();

  const std::uint64_t seed_;
  const Story story_;
  const Dataset& data_;
  NodeShared& shared_;
  World world_;
  Network network_;
  FarS3 s3_;
  CoordinatorState coordinator_disk_;
  const std::uint64_t first_epoch_;
  ReadTally tally_;
  Outcome outcome_;
  std::uint64_t next_incarnation_ = 1;
  bool judging_gets_ = false;
  bool well_ = false;
  Machine* victim_ = nullptr;
  std::unique_ptr<SimCoordinator> coordinator_;
  std::vector<std::unique_ptr<Machine>> machines_;
  std::vector<std::unique_ptr<SimMount>> mounts_;
};

}  // namespace forebay::sim
