#pragma once

#include <boost/asio/cancellation_signal.hpp>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/base/alarm.h"
#include "common/base/result.h"
#include "common/wire/client_pool.h"
#include "common/wire/rpc.h"
#include "common/wire/server.h"
#include "tests/sim/virtual_time.h"

namespace forebay::sim {

/// How a message may fare, and what may be done to answers.
struct NetworkFaults {
  double late = 0;     ///< A packet is lost and sent again: up to a second more.
  double reset = 0;    ///< The connection ends under the call.
  double flipped = 0;  ///< A byte of a payload is another one.
};

/// What the machines of mounts are called, but for their numbers.
inline const std::string kMountMachines = "10.0.3.";

/// What programs answer, by their addresses, and what becomes of messages on their way. Machines
/// are the parts of addresses before the colon. A call is one message each way: what TCP does about
/// lost packets is time, what it cannot mend is silence or a reset. Both ends are programs that
/// trust each other; handshakes are not simulated.
class Network {
 public:
  explicit Network(World& world) : world_(world) {}

  struct Server {
    Process* process = nullptr;
    asio::any_io_executor executor;
    std::map<Method, RpcHandler> methods;
    std::function<std::uint64_t()> epoch;
    std::function<void(std::uint64_t)> on_newer_epoch;
  };
  void Listen(const std::string& address, Server server);
  /// The process is gone: who waits for it gets a reset, where its machine is there to send one.
  void Close(const std::string& address);

  /// What programs of the builder's machine send from now on comes from there.
  void SetMachine(const Process& process, std::string machine) {
    machines_[&process] = std::move(machine);
  }
  void Forget(const Process& process) { machines_.erase(&process); }

  void SetFaults(NetworkFaults faults) { faults_ = faults; }
  /// Nothing passes from one machine to the other.
  void Cut(const std::string& from, const std::string& to);
  /// Nothing passes from or to the machine, and it says nothing of itself.
  void Isolate(const std::string& machine);
  void HealAll();
  bool Passes(const std::string& from, const std::string& to) const;
  // For mutants.
  void HideEpochsFromMounts(bool hide) { hides_epochs_ = hide; }
  void OnGivenUp(std::function<void()> told) { given_up_ = std::move(told); }
  /// Messages of the machine, both ways, take so much longer.
  void Slow(const std::string& machine, Duration by) { slow_[machine] = by; }
  void NoLongerSlow(const std::string& machine) { slow_.erase(machine); }

  std::uint64_t calls() const { return calls_; }
  std::uint64_t late() const { return late_; }
  std::uint64_t resets() const { return resets_; }
  std::uint64_t flips() const { return flips_; }
  std::uint64_t lost() const { return lost_; }

  /// One call, held by both of its ends.
  struct Exchange {
    std::uint64_t number = 0;
    Process* client = nullptr;  ///< Null: it is gone.
    std::string from;           ///< Its machine.
    std::string to;             ///< The server's address …
    std::string machine;        ///< … and machine.
    Method method = Method::kNone;
    std::string message;
    std::uint64_t epoch = 0;
    Deadline deadline = Deadline::After({});
    std::optional<Result<RpcReply>> answer;
    Alarm* waiting = nullptr;   ///< The caller's, while it waits.
    Process* server = nullptr;  ///< That works on it.
    TimePoint silent_since;     ///< While nobody works on it.
    std::shared_ptr<asio::cancellation_signal> cancel;
  };
  std::shared_ptr<Exchange> Send(Process& client, std::string address, Method method,
                                 std::string message, std::uint64_t epoch, Deadline deadline);
  /// When the server's last sign of life about the call came.
  TimePoint HeardAt(const Exchange& exchange) const;
  /// The caller does not wait any more.
  void GiveUp(const std::shared_ptr<Exchange>& exchange);
  const std::string& MachineOf(const Process& process) const { return machines_.at(&process); }

 private:
  using Held = std::shared_ptr<Exchange>;
  Duration Latency(const std::string& from, const std::string& to);
  void Arrive(const Held& exchange);
  void Work(const Held& exchange);
  Task<void> Handle(Held exchange, const RpcHandler* handler, RpcCall call);
  void Answer(const Held& exchange, Result<RpcReply> reply);
  void Return(const Held& exchange, Result<RpcReply> reply);
  void Fail(const Held& exchange, std::string why);
  std::optional<TimePoint> CutSince(const std::string& from, const std::string& to) const;
  void Carry(RpcReply& reply);

  World& world_;
  NetworkFaults faults_;
  bool hides_epochs_ = false;
  std::function<void()> given_up_;
  std::map<std::string, Server> servers_;
  std::map<const Process*, std::string> machines_;
  std::map<std::pair<std::string, std::string>, TimePoint> cuts_;
  std::map<std::string, TimePoint> isolated_;
  std::map<std::string, Duration> slow_;
  std::map<std::uint64_t, Held> working_;  // by number
  std::uint64_t calls_ = 0;
  std::uint64_t late_ = 0;
  std::uint64_t resets_ = 0;
  std::uint64_t flips_ = 0;
  std::uint64_t lost_ = 0;
};

/// The network that ClientPools of this world call over. Set once for each world.
void SetNetwork(Network* network);

}  // namespace forebay::sim
