#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "common/base/executors.h"
#include "common/ring/ring.h"
#include "common/wire/server.h"

namespace forebay::fakes {

/// What stand-ins for daemons share: a server with one thread on a port of its own, and a ring.
class FakeServer {
 public:
  /// `methods` are answered on its thread; GetRing it answers itself. Throws what keeps it from
  /// starting.
  FakeServer(Credentials credentials, std::string listen, std::vector<MethodEntry> methods);
  ~FakeServer();
  FakeServer(const FakeServer&) = delete;
  FakeServer& operator=(const FakeServer&) = delete;

  /// Answers `table` to whoever has an older one, and says its epoch in every frame.
  void SetRing(RingTable table);
  /// That table as it travels.
  Slice Ring() const;
  /// How often it was asked for the ring.
  std::uint64_t ring_questions() const { return ring_questions_; }

  /// Where it listens, or did.
  const std::string& address() const { return address_; }
  void Post(std::function<void()> function);
  /// Closes its port and connections: whoever connects afterwards is refused, and not left waiting.
  void Stop();

 private:
  Task<Result<RpcReply>> AnswerRing(RpcCall call);

  mutable std::mutex mutex_;
  RingTable ring_;
  std::atomic<std::uint64_t> epoch_{0};
  std::atomic<std::uint64_t> ring_questions_{0};
  IoPool pool_{"fake-server", 1};
  std::unique_ptr<RpcServer> server_;
  std::string address_;
};

}  // namespace forebay::fakes
