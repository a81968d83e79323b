#pragma once

#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "common/base/asio.h"
#include "common/base/executors.h"
#include "common/base/notifier.h"
#include "common/base/offload.h"
#include "common/base/result.h"
#include "common/wire/client_pool.h"
#include "common/wire/reply_room.h"
#include "common/wire/server.h"
#include "coordinator/generation_copier.h"
#include "coordinator/namespace_index.h"
#include "proto/coordinator.pb.h"

namespace forebay {

struct StandbyOptions {
  std::string listen;
  Reach reach = Reach::kThisMachine;
  Credentials credentials;
  std::string state_dir;
  std::uint64_t reply_bytes = 1ULL << 30;  ///< Of listings on their way to others.
  /// The address of the coordinator that leads; "" = it is not known.
  std::function<std::string()> leader;
  /// Why it is not known.
  std::function<std::string()> trouble;
  /// What the one that leads is told of this one's certificates, where there are any; null =
  /// nothing.
  std::function<proto::RenewRequest()> report;
};

/// What a coordinator is while another one leads: it refuses whatever it is asked and says who
/// leads, and copies every generation that the leader publishes, so that it needs to list nothing
/// when its time comes. Other coordinators may read what it has copied.
class Standby {
 public:
  /// Blocks. Errors as RpcServer::Start.
  static Result<std::unique_ptr<Standby>> Start(StandbyOptions options);
  ~Standby();  ///< Calls Stop().
  Standby(const Standby&) = delete;
  Standby& operator=(const Standby&) = delete;

  /// At once: when it returns nobody listens, and what was being copied is gone.
  void Stop();
  const std::string& address() const { return server_->addresses().front(); }
  std::vector<IoPool*> Loops() { return {&io_}; }

 private:
  explicit Standby(StandbyOptions options);
  std::vector<MethodEntry> Methods();
  Task<Result<RpcReply>> Refuse(RpcCall call);
  Task<Result<RpcReply>> GetLeader(RpcCall call);
  Task<Result<RpcReply>> ReadSnapshot(RpcCall call);
  Task<void> Follow();
  Task<Status> FollowOnce(std::string leader);
  Task<void> Report();
  Task<Status> Prune();
  std::string WhoLeads() const;

  const StandbyOptions options_;
  Offload offload_;
  ReplyRoom replies_;
  IoPool io_;
  NamespaceIndex index_;
  std::unique_ptr<ClientPool> pool_;
  std::unique_ptr<GenerationCopier> copier_;
  std::unique_ptr<RpcServer> server_;
  // On the event loop: the newest generations of each link that are here, newest last.
  std::map<Uuid, std::vector<std::uint64_t>> kept_;
  std::string said_;  // the trouble that was logged last
  bool following_ = false;
  bool reporting_ = false;
  bool stop_following_ = false;
  bool stopped_ = false;
  Notifier wake_;
};

}  // namespace forebay
