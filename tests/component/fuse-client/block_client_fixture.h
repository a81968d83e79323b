#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "fuse-client/block_client.h"
#include "tests/component/fuse-client/client_fixture.h"
#include "tests/fakes/fake_node.h"
#include "tests/fakes/sample_link.h"

namespace forebay {

inline constexpr const char* kKey = "train/shard-0.tar";

/// A worker's client of three made-up nodes.
class BlockClientTest : public ClientFixture {
 protected:
  explicit BlockClientTest(Duration silence = std::chrono::milliseconds(300),
                           std::uint64_t max_bandwidth = 0, PassedSegments* segments = nullptr)
      : ClientFixture(silence), bandwidth_(max_bandwidth, "max_bandwidth of this mount") {
    for (const char* id : {"n1", "n2", "n3"}) {
      nodes_[id] = std::make_unique<fakes::FakeNode>(id, kTestSecret);
    }
    Publish(RingTable());
    MakeRefresher({});
    options_.host_id = "this-host";
    options_.zone = "here";
    options_.replicas = replicas_;
    options_.bandwidth = &bandwidth_;
    options_.pauses.first = std::chrono::milliseconds(5);
    options_.pauses.overloaded = std::chrono::milliseconds(2);
    options_.pauses.longest = std::chrono::milliseconds(20);
    options_.pauses.probe = {std::chrono::milliseconds(20), std::chrono::milliseconds(50)};
    client_ = NewClient(options_, segments);
  }

  ~BlockClientTest() override {
    OnThread([this] {
      client_->Stop();
      pool_->Close();
      return true;
    });
    EXPECT_TRUE(
        Eventually([this] { return OnThread([this] { return client_->in_flight(); }) == 0; }));
    StopThread();
  }

  std::unique_ptr<BlockClient> NewClient(BlockClientOptions options,
                                         PassedSegments* segments = nullptr) {
    const BlockClient::Parts parts{threads_.At(0), *pool_, ring_,  *refresher_,
                                   health_,        pace_,  stats_, segments};
    return std::make_unique<BlockClient>(parts, std::move(options));
  }

  void Publish(const RingTable& old) {
    std::vector<NodeInfo> members;
    members.reserve(nodes_.size());
    for (const auto& [id, node] : nodes_) members.push_back(node->Info());
    table_ = RingTable::Next(old, members, 1'700'000'000);
    ring_.Offer(table_);
  }

  static BlockRequest RequestFor(BlockRange range, std::uint32_t number = 0) {
    BlockRequest request;
    request.link = Uuid::Random();
    request.block = {{7, number}, 4ULL << 20, 4 << 20};
    request.range = range;
    request.object = {kKey, "etag", 9ULL << 20};
    request.job = "job";
    return request;
  }

  /// The nodes that own `request`'s block, in order.
  std::vector<fakes::FakeNode*> OwnersOf(const BlockRequest& request) {
    std::vector<fakes::FakeNode*> owners;
    for (const std::uint16_t index : table_.OwnersOf(PartitionOf(request.block))) {
      owners.push_back(nodes_.at(table_.nodes()[index].id).get());
    }
    return owners;
  }

  Result<Cells> Read(const BlockRequest& request, Duration patience = std::chrono::seconds(20)) {
    return Run(client_->Read(request, Deadline::After(patience)));
  }

  static void ExpectRight(const BlockRequest& request, const Result<Cells>& cells) {
    ASSERT_TRUE(cells) << cells.error().message;
    const auto expected = fakes::SampleLink::Bytes(kKey, request.block.offset + request.range.begin,
                                                   request.range.size());
    const ByteView part = cells->Part(request.range);
    ASSERT_EQ(part.size(), expected->size());
    EXPECT_EQ(std::memcmp(part.data(), expected->data(), part.size()), 0);
  }

  StatsSnapshot Stats() const {
    StatsSnapshot sum;
    stats_.AddTo(sum);
    return sum;
  }

  std::map<std::string, std::unique_ptr<fakes::FakeNode>> nodes_;
  RingTable table_;
  PeerHealth health_;
  NodePace pace_;
  NetworkPace bandwidth_;
  WorkerStats stats_;
  std::shared_ptr<std::atomic<std::uint32_t>> replicas_ =
      std::make_shared<std::atomic<std::uint32_t>>(1);
  BlockClientOptions options_;
  std::unique_ptr<BlockClient> client_;
};

inline fakes::FakeNode::Read Always(Code code) {
  return [code](proto::ReadBlockRequest) -> fakes::FakeNode::Answer {
    return {Fail(code, "says the script")};
  };
}

}  // namespace forebay
