#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "common/ring/ring.h"
#include "common/wire/messages.h"
#include "tests/component/cachenode/node_fixture.h"
#include "tests/fakes/fake_node.h"

namespace forebay {

/// The node "self" beside two made-up ones, in one ring.
class PeersTest : public NodeTest {
 protected:
  static constexpr std::uint64_t kSize = 39'000;

  PeersTest() {
    node_id_ = "self";
    for (const char* id : {"n1", "n2"})
      nodes_[id] = std::make_unique<fakes::FakeNode>(id, kTestSecret);
    table_ = RingTable::Next(RingTable(), Members(), 1'700'000'000);
    coordinator_->SetRing(table_);
  }

  std::vector<NodeInfo> Members() const {
    NodeInfo self;
    self.id = "self";
    self.address = "127.0.0.1:1";
    self.capacity_bytes = 1ULL << 40;
    std::vector<NodeInfo> members = {self};
    for (const auto& [id, node] : nodes_) members.push_back(node->Info());
    return members;
  }

  /// A read of a small file whose block has these owners, in this order.
  proto::ReadBlockRequest OwnedBy(const std::vector<std::string>& order, int skip = 0) const {
    for (int i = 0;; ++i) {
      proto::ReadBlockRequest request = RequestFor("data/" + std::to_string(i), kSize);
      const auto owners = table_.OwnersOf(PartitionOf(FromProto(request.block())));
      bool same = owners.size() >= order.size();
      for (std::size_t at = 0; same && at < order.size(); ++at)
        same = table_.nodes()[owners[at]].id == order[at];
      if (same && skip-- == 0) return request;
    }
  }

  fakes::FakeNode& Peer(const std::string& id) { return *nodes_.at(id); }
  std::uint64_t PeerFills() {
    StopNode();
    return Reported().peer_fills();
  }

  std::map<std::string, std::unique_ptr<fakes::FakeNode>> nodes_;
  RingTable table_;
};

}  // namespace forebay
