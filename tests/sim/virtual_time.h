#pragma once

#include <cstdint>
#include <functional>
#include <queue>
#include <string>
#include <unordered_map>
#include <vector>

#include "common/base/asio.h"
#include "common/base/deadline.h"

namespace forebay::sim {

class World;

/// One program of the simulated cluster: what runs on its event loops, and waits. To destroy it is
/// kill -9: nothing of it runs any more. Its IoPools are made while it is the world's builder and
/// end before it; whatever they refer to ends after Kill.
class Process {
 public:
  Process(World& world, std::string name);
  ~Process();
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  const std::string& name() const { return name_; }
  /// Another one for each process of a world; its address may be that of one that is gone.
  std::uint64_t number() const { return number_; }
  World& world() { return world_; }

  /// Runs what is ready on its loops, until nothing is. Does nothing while it is stopped.
  void RunReady();
  /// SIGSTOP and SIGCONT. What comes meanwhile comes afterwards.
  void Stop();
  void Continue();
  bool stopped() const { return stopped_; }
  TimePoint stopped_since() const { return stopped_since_; }
  /// Calls `event` now, or when the process goes on.
  void Deliver(std::move_only_function<void()> event);
  /// Forgets all that it waits for: its coroutines end without running.
  void Kill();

 private:
  friend class World;
  World& world_;
  const std::string name_;
  const std::uint64_t number_;
  std::vector<asio::io_context*> loops_;
  std::vector<std::move_only_function<void()>> backlog_;
  bool stopped_ = false;
  TimePoint stopped_since_;
};

/// The clock and all that is going to happen. There is one at a time; while it exists,
/// std::chrono's clocks are its own (the linker wraps their now()), and waits cost no time. One
/// thread.
class World {
 public:
  explicit World(std::uint64_t seed);
  ~World();
  World(const World&) = delete;
  World& operator=(const World&) = delete;

  static World* Current();
  std::uint64_t NextProcess() { return ++processes_; }

  TimePoint now() const { return now_; }
  /// Of [0, below).
  std::uint64_t Random(std::uint64_t below);
  bool Chance(double probability);
  /// Of [least, most].
  Duration Between(Duration least, Duration most);

  /// Calls `event` at `at`, or now when that has passed.
  void At(TimePoint at, std::move_only_function<void()> event);
  void After(Duration wait, std::move_only_function<void()> event) {
    At(now_ + wait, std::move(event));
  }

  /// Lets everything happen that happens until `end`.
  void RunUntil(TimePoint end);
  std::uint64_t events() const { return events_; }

  /// The process whose IoPools are made from now on; null = none.
  void SetBuilder(Process* builder) { builder_ = builder; }
  void AddLoop(asio::io_context& loop);
  void RemoveLoop(asio::io_context& loop);
  static asio::io_context& LoopOf(const asio::any_io_executor& executor);
  Process& OwnerOf(asio::io_context& loop) { return *owners_.at(&loop); }

  /// An alarm's wait. `ended(came)` is called on its own loop, once, unless its process is killed.
  struct Key {
    std::uint32_t slot = 0;
    std::uint64_t number = 0;
  };
  using Ended = std::move_only_function<void(bool came)>;
  Key AddWait(TimePoint at, asio::io_context& loop, Ended ended);
  void EndWait(const Key& key);
  void DropWaitsOf(const Process& process);

 private:
  struct Event {
    std::uint64_t number = 0;    // 0: there is none in this slot
    Process* process = nullptr;  // of a wait
    asio::io_context* loop = nullptr;
    Ended ended;
    std::move_only_function<void()> happens;  // of anything else
  };
  // What has been ended meanwhile stays here until its time, and is nothing then.
  struct Due {
    TimePoint at;
    std::uint64_t number;
    std::uint32_t slot;

    bool operator>(const Due& other) const {
      return at != other.at ? at > other.at : number > other.number;
    }
  };
  Key Add(TimePoint at, Event event);
  Event Take(const Key& key);
  void Fire(Event event, bool came);

  TimePoint now_;
  std::uint64_t random_;
  std::uint64_t next_ = 1;
  std::uint64_t events_ = 0;
  std::uint64_t processes_ = 0;
  std::vector<Event> slots_;
  std::vector<std::uint32_t> free_slots_;
  std::priority_queue<Due, std::vector<Due>, std::greater<>> queue_;
  std::unordered_map<const asio::io_context*, Process*> owners_;
  Process* builder_ = nullptr;
};

}  // namespace forebay::sim
