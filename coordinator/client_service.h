#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

#include "common/base/asio.h"
#include "common/base/offload.h"
#include "common/model/fence.h"
#include "common/model/object_version.h"
#include "common/wire/reply_room.h"
#include "common/wire/server.h"
#include "coordinator/link_registry.h"
#include "coordinator/membership.h"
#include "coordinator/mount_book.h"
#include "coordinator/namespace_index.h"

namespace forebay {

/// What everybody may ask: the ring table; and what mounts need: links and their snapshots.
class ClientService {
 public:
  ClientService(Uuid cluster, Fence fence, ClusterMembers& membership, LinkRegistry& links,
                NamespaceIndex& index, MountBook& mounts, Offload& offload, ReplyRoom& replies)
      : cluster_(cluster),
        fence_(fence),
        membership_(membership),
        links_(links),
        index_(index),
        mounts_(mounts),
        offload_(offload),
        replies_(replies) {}

  std::vector<MethodEntry> Methods();

  /// Of listings, since this coordinator leads.
  struct Sent {
    std::atomic<std::uint64_t> whole_bytes{0};
    std::atomic<std::uint64_t> difference_bytes{0};
  };
  const Sent& sent() const { return sent_; }

 private:
  Task<Result<RpcReply>> GetRing(RpcCall call);
  Task<Result<RpcReply>> GetLinks(RpcCall call);
  Task<Result<RpcReply>> ReadSnapshot(RpcCall call);

  const Uuid cluster_;
  const Fence fence_;
  ClusterMembers& membership_;
  LinkRegistry& links_;
  NamespaceIndex& index_;
  MountBook& mounts_;
  Offload& offload_;
  ReplyRoom& replies_;
  Sent sent_;
};

}  // namespace forebay
