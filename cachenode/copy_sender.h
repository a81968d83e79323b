#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "cachenode/cluster_view.h"
#include "cachenode/cold_block.h"
#include "common/base/asio.h"
#include "common/base/deadline.h"
#include "common/base/executors.h"
#include "common/wire/client_pool.h"
#include "common/wire/handshake.h"

namespace forebay {

struct CopySenderOptions {
  std::string self;         ///< This node's id.
  Credentials credentials;  ///< As a node.
  Duration silence = kSilence;
};

/// Tells the other owners of a block that are to keep a copy of it (LinkSpec::replicas) that this
/// node has it now. They fetch it from here, at the rate that each of them allows, and never from
/// S3. One request at a time to each node, in the background; bounded: what finds no place in the
/// queue, or a node that does not answer, is let go, and the coordinator's next look finds the copy
/// missing (docs/adr/0024). Has an event loop of its own; any thread may call.
class CopySender {
 public:
  CopySender(CopySenderOptions options, ClusterView& cluster);
  ~CopySender();  ///< Calls Stop().
  CopySender(const CopySender&) = delete;
  CopySender& operator=(const CopySender&) = delete;

  void Start();
  /// Requests under way end, and none begins. Idempotent, as is Stop, which also ends the loop.
  void Interrupt();
  void Stop();

  /// The store has taken `cold`; `from_peer`: another node had it. That one has told the others,
  /// unless this node is the first owner. Never waits.
  void Add(const ColdBlock& cold, bool from_peer);

  /// Copies that other nodes have not been told of yet.
  std::size_t waiting() const;
  /// Copies let go since the start.
  std::uint64_t dropped() const { return dropped_.load(std::memory_order_relaxed); }

 private:
  using Blocks = std::vector<ColdBlock>;
  struct Lane {
    std::deque<ColdBlock> queue;
    bool sends = false;
  };

  void Enqueue(const std::string& node, const ColdBlock& cold);
  Task<void> Send(std::string node);
  /// Of one link; empty: the lane ends.
  Blocks NextBatch(const std::string& node);
  Task<Status> Tell(std::string node, Blocks blocks);
  void LetGo(const std::string& node);

  const CopySenderOptions options_;
  ClusterView& cluster_;
  std::atomic<bool> stopped_{false};
  std::atomic<std::uint64_t> dropped_{0};
  mutable std::mutex mutex_;
  std::map<std::string, Lane> lanes_;  // guarded; by node id
  std::size_t waiting_ = 0;            // guarded
  IoPool io_{"copies", 1};
  std::unique_ptr<ClientPool> pool_;
};

}  // namespace forebay
