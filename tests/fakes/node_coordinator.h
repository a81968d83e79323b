#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "common/model/link.h"
#include "common/ring/ring.h"
#include "common/wire/server.h"
#include "proto/coordinator.pb.h"
#include "tests/fakes/fake_server.h"

namespace forebay::fakes {

/// A coordinator as a cache node sees it: takes registrations and heartbeats, and keeps the last of
/// each. Real connections on a port of its own.
class NodeCoordinator {
 public:
  explicit NodeCoordinator(std::string secret, std::string listen = "127.0.0.1:0");

  void SetLinks(std::vector<LinkSpec> links);
  void SetRing(RingTable table) { server_->SetRing(std::move(table)); }
  /// Leases so many requests to S3 a second for the link; 0 = S3 does not throttle it.
  void SetLease(const Uuid& link, double requests_per_s);
  /// Says this fencing epoch from now on.
  void SetFence(std::uint64_t fence) { fence_ = fence; }
  /// Forgets who has registered, as after a restart with an empty state.
  void ForgetNodes();
  /// Registrations are answered `why`.
  void Refuse(std::optional<Error> why);
  void Stop() { server_->Stop(); }

  const std::string& address() const { return server_->address(); }
  Uuid cluster() const { return cluster_; }
  std::uint64_t registrations() const { return registrations_; }
  std::uint64_t heartbeats() const { return heartbeats_; }
  proto::RegisterNodeRequest last_registration() const;
  proto::HeartbeatRequest last_heartbeat() const;

 private:
  Task<Result<RpcReply>> AnswerLinks(RpcCall call);
  Task<Result<RpcReply>> AnswerRegister(RpcCall call);
  Task<Result<RpcReply>> AnswerHeartbeat(RpcCall call);

  const Uuid cluster_ = Uuid::Random();
  mutable std::mutex mutex_;
  std::vector<LinkSpec> links_;
  std::uint64_t links_version_ = 1;
  std::map<Uuid, double> leases_;
  std::optional<Error> refusal_;
  bool known_ = false;
  proto::RegisterNodeRequest last_registration_;
  proto::HeartbeatRequest last_heartbeat_;
  std::atomic<std::uint64_t> fence_{1};
  std::atomic<std::uint64_t> registrations_{0};
  std::atomic<std::uint64_t> heartbeats_{0};
  std::unique_ptr<FakeServer> server_;
};

}  // namespace forebay::fakes
