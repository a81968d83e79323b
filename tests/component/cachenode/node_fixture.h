#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <stop_token>
#include <string>

#include "cachenode/node.h"
#include "common/base/executors.h"
#include "common/base/metrics.h"
#include "common/model/link.h"
#include "common/wire/client_pool.h"
#include "proto/node.pb.h"
#include "tests/fakes/node_coordinator.h"
#include "tests/fakes/scripted_object_store.h"
#include "tests/fakes/temp_dir.h"

namespace forebay {

inline const std::string kTestSecret(32, 's');

/// True when `condition()` holds within 20 s.
bool Eventually(const std::function<bool()>& condition);

/// Calls a node as a program of `role` does.
class Caller {
 public:
  explicit Caller(proto::Role role, Fence fence = {});
  ~Caller();

  Result<RpcReply> Call(const std::string& address, Method method,
                        const google::protobuf::MessageLite& request);

 private:
  Task<Result<RpcReply>> Once(std::string address, Method method,
                              std::shared_ptr<const google::protobuf::MessageLite> request);

  IoPool io_{"caller", 1};
  std::unique_ptr<ClientPool> pool_;
};

/// A whole node with a real store and real connections, between a made-up S3 and a made-up
/// coordinator that has one link: s3://bucket/data/.
class NodeTest : public ::testing::Test {
 protected:
  static constexpr std::uint32_t kBlock = 256 * 1024;

  NodeTest();
  ~NodeTest() override;

  Result<std::unique_ptr<Node>> TryStart(std::stop_token stopping = {});
  void StartNode();
  void StopNode();

  /// All of the n-th block of `key`, an object of `size` bytes.
  proto::ReadBlockRequest RequestFor(const std::string& key, std::uint64_t size,
                                     std::uint64_t n = 0) const;
  /// Reads over TCP and looks at every byte; says where it came from.
  Result<Tier> Read(const proto::ReadBlockRequest& request);
  Result<RpcReply> Call(Caller& caller, Method method,
                        const google::protobuf::MessageLite& request);
  /// Whether the node says that it holds this block.
  bool IsCached(const proto::BlockKey& block);
  /// Waits until no fill is under way: a reader has its bytes before its fill has ended.
  bool FillsEnd();
  /// The link's counters in the last heartbeat.
  proto::LinkCounters Reported() const;

  fakes::TempDir dir_;
  LinkSpec link_;
  std::unique_ptr<fakes::NodeCoordinator> coordinator_;
  std::vector<std::string> coordinators_;
  fakes::ScriptedObjectStore s3_;
  Duration s3_timeout_ = std::chrono::seconds(20);  // of the nodes that are started from now on
  std::vector<std::string> caches_ = {"cache"};     // its directories, by their names
  std::uint64_t capacity_bytes_ = 256ULL << 20;     // of each
  std::vector<std::string> accept_new_disk_;
  DiskKeeperOptions disks_;
  PinReleaseRules pins_;
  std::atomic<std::uint32_t> hours_later_{0};  // by the clock of the store
  std::uint64_t verify_bytes_per_s_ = 0;
  std::uint64_t copy_bytes_per_s_ = 0;
  std::uint64_t max_bandwidth_ = 0;
  std::uint64_t memory_limit_ = 1ULL << 30;
  std::string node_id_;  // "" = the node makes one
  Metrics metrics_;
  std::unique_ptr<Node> node_;
  Caller client_{proto::ROLE_CLIENT};
  Caller admin_{proto::ROLE_ADMIN};
};

}  // namespace forebay
