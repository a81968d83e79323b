#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "common/base/executors.h"
#include "common/model/block_heat.h"
#include "common/model/fill_outcome.h"
#include "common/wire/client_pool.h"
#include "common/wire/server.h"
#include "coordinator/coordinator.h"
#include "proto/coordinator.pb.h"
#include "proto/node.pb.h"
#include "tests/fakes/memory_object_store.h"

namespace forebay {

/// A caller of one role, with connections of its own.
class Caller {
 public:
  /// Each of its frames says that it has the ring of `ring_epoch`.
  Caller(proto::Role role, std::string id, std::string secret, Uuid cluster = {},
         std::uint64_t ring_epoch = 0, std::string program = "test 0");
  ~Caller();

  Result<RpcReply> Call(const std::string& address, Method method,
                        const google::protobuf::MessageLite& request);

  /// Calls and parses; a failure is the test's.
  template <typename Reply>
  Result<Reply> Ask(const std::string& address, Method method,
                    const google::protobuf::MessageLite& request, std::string* payload = nullptr) {
    Result<RpcReply> reply = Call(address, method, request);
    if (!reply) return Fail(reply.error());
    Reply message;
    Status parsed = ParseMessage(reply->message, message);
    if (!parsed) return Fail(parsed.error());
    if (payload != nullptr) {
      const auto* bytes = reinterpret_cast<const char*>(reply->payload.bytes.data());
      payload->assign(bytes, reply->payload.bytes.size());
    }
    return message;
  }

 private:
  Task<Result<RpcReply>> Once(std::string address, Method method,
                              std::shared_ptr<const google::protobuf::MessageLite> request);
  IoPool io_;
  std::unique_ptr<ClientPool> pool_;
};

/// A cache node as the coordinator sees it: it registers, reports, and answers questions about
/// blocks from a set.
class FakeNode {
 public:
  FakeNode(std::string id, std::string secret);
  ~FakeNode();

  Result<proto::RegisterNodeReply> Register(const std::string& coordinator,
                                            std::string* table = nullptr);
  Result<proto::HeartbeatReply> Heartbeat(const std::string& coordinator);

  /// The process ends and another one begins: same id, same address, counters from zero.
  void Restart() {
    ++incarnation;
    counters.Clear();
  }

  const std::string& address() const { return address_; }

  /// The process dies: its port closes.
  void Kill();

  /// What it says to one block of kFillBlocks; runs on its own thread. Without one it keeps what it
  /// is asked for.
  using Fill = std::function<proto::FillResult(const proto::FillObject&, const BlockId&)>;
  void OnFill(Fill fill);
  /// What it says to one block of kDescribeBlocks; without one it knows what it keeps.
  using Memory = std::function<proto::BlockDescription(const BlockId&)>;
  void OnDescribe(Memory memory);
  /// Keeps the block; kKept when it did so before.
  proto::FillResult Keep(const BlockId& block);
  std::set<BlockId> kept() const;
  std::uint64_t fills() const { return fills_; }              ///< Blocks that it was asked for.
  std::uint64_t spare_fills() const { return spare_fills_; }  ///< Of those, for background fills.
  /// Of those, which may only come from other nodes.
  std::uint64_t peer_fills() const { return peer_fills_; }
  /// How hot a block is that it keeps; set before anybody asks.
  std::function<BlockHeat(const BlockId&)> heat;

  const std::string id;
  std::uint64_t incarnation = 1;
  std::string advertised;  ///< What it says its address is; "" = what it is.
  std::uint64_t capacity = 1 << 30;
  /// Of its two disks, of which each holds half of `capacity`, how many are in service; nothing =
  /// its heartbeats say nothing of disks.
  std::optional<int> disks = std::nullopt;
  std::uint64_t links_version = 0;
  proto::LinkCounters counters;
  google::protobuf::RepeatedPtrField<proto::ChangedObject> changed;
  bool holds_everything = false;
  std::uint64_t freed_bytes = 0;
  /// From now on it answers this to kEvictBlocks and kCheckBlocks.
  void Refuse(std::optional<Error> why);
  /// As whoever asked last said.
  Fence heard() const;

 private:
  Task<Result<RpcReply>> CheckBlocks(RpcCall call);
  Task<Result<RpcReply>> DescribeBlocks(RpcCall call);
  Task<Result<RpcReply>> EvictBlocks(RpcCall call);
  Task<Result<RpcReply>> FillBlocks(RpcCall call);
  Status Hear(const RpcCall& call);

  mutable std::mutex mutex_;
  Fence heard_;
  std::optional<Error> refusal_;
  Fill fill_;
  Memory memory_;
  std::set<BlockId> kept_;
  std::atomic<std::uint64_t> fills_{0};
  std::atomic<std::uint64_t> spare_fills_{0};
  std::atomic<std::uint64_t> peer_fills_{0};
  IoPool io_;
  std::unique_ptr<RpcServer> server_;
  std::string address_;
  Caller caller_;
};

/// A coordinator with a fake object store, over real connections on loopback.
class ClusterTest : public testing::Test {
 protected:
  ClusterTest();
  ~ClusterTest() override;

  void StartCoordinator();
  Result<std::unique_ptr<Coordinator>> TryToStart();
  void StopCoordinator();
  const std::string& address() const { return coordinator->address(); }

  proto::LinkRequest LinkRequestFor(const std::string& name, const std::string& prefix) const;
  /// Polls until the task ended; its last state.
  proto::TaskState WaitForTask(const std::string& id);
  /// Links and waits until it is mountable.
  void MakeLink(const std::string& name, const std::string& prefix);
  Result<proto::LinkState> GetLink(const std::string& name);
  /// The bytes of `forebay backup`.
  std::string Backup();
  /// As `forebay restore` of them.
  Result<proto::RestoreReply> Restore(const std::string& bytes);

  const std::string secret = std::string(32, 's');
  std::filesystem::path dir;
  MemoryObjectStore store{"bucket"};
  OwnRequests requests;
  // For the next StartCoordinator:
  MembershipTimes times;
  Duration preload_patience = std::chrono::seconds(20);
  S3Wait listing_wait;
  bool background_fill = true;
  std::string state_name = "state";
  std::optional<Leadership> leadership;
  std::atomic<int> begun_again{0};  // how often a coordinator asked for that
  std::unique_ptr<Coordinator> coordinator;
  Caller admin{proto::ROLE_ADMIN, "cli", secret};
  Caller client{proto::ROLE_CLIENT, "mount", secret};
};

}  // namespace forebay
