#pragma once

#include <gtest/gtest.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/use_future.hpp>
#include <cstring>
#include <filesystem>
#include <functional>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <type_traits>
#include <vector>

#include "common/wire/block_messages.h"
#include "common/wire/messages.h"
#include "fuse-client/block_client.h"
#include "fuse-client/local_reads.h"
#include "tests/component/cachenode/node_fixture.h"
#include "tests/fakes/file_system.h"
#include "tests/fakes/sample_link.h"

namespace forebay {

inline constexpr std::uint64_t kSize = 150'000;  // three cells, the last one short
inline constexpr std::chrono::seconds kPatience{20};
inline constexpr int kAttempts = 300;  // a kernel may take pages away at any moment

/// A node of this machine, and a mount's client.
class LocalReadsTest : public NodeTest {
 protected:
  LocalReadsTest() {
    ClientPoolOptions options;
    options.credentials.role = proto::ROLE_CLIENT;
    options.credentials.id = "mount";
    options.credentials.program = "test 0";
    options.credentials.secret = Secret(kTestSecret);
    pool_ = std::make_unique<ClientPool>(
        threads_.At(0), options, [this] { return ring_.epoch(); }, [](std::uint64_t) {});
    refresher_ =
        std::make_unique<RingRefresher>(threads_.At(0), *pool_, ring_, std::vector<std::string>());
    BlockClientOptions client;
    client.host_id = "this-host";
    client.pauses.first = std::chrono::milliseconds(5);
    client.pauses.longest = std::chrono::milliseconds(20);
    client.pauses.probe = {std::chrono::milliseconds(20), std::chrono::milliseconds(50)};
    mount_ =
        std::make_unique<BlockClient>(BlockClient::Parts{threads_.At(0), *pool_, ring_, *refresher_,
                                                         health_, pace_, stats_, &segments_},
                                      client);
    local_ = std::make_unique<LocalReads>(
        LocalReads::Parts{threads_.At(0), *pool_, &segments_, stats_, in_flight_});
    threads_.Start();
  }

  ~LocalReadsTest() override {
    OnThread([this] {
      mount_->Stop();
      pool_->Close();
      return true;
    });
    EXPECT_TRUE(Eventually(
        [this] { return OnThread([this] { return mount_->in_flight() + *in_flight_; }) == 0; }));
    threads_.Stop();
  }

  template <typename Call>
  auto OnThread(Call call) -> std::invoke_result_t<Call> {
    std::promise<decltype(call())> done;
    asio::post(threads_.At(0), [&] { done.set_value(call()); });
    return done.get_future().get();
  }

  /// Starts the node and tells the mount where it is.
  void SetUp() override {
    if (!fakes::KnowsNoWait(dir_.path())) GTEST_SKIP() << "this file system has no RWF_NOWAIT";
  }

  void Begin() {
    StartNode();
    NodeInfo node;
    node.id = node_->id();
    node.address = node_->address();
    node.local_socket = dir_ / "node.sock";
    node.host_id = "this-host";
    node.capacity_bytes = 1 << 30;
    table_ = RingTable::Next(table_, {node}, 1'700'000'000);
    ring_.Offer(table_);
  }

  BlockRequest BlockOf(const std::string& key) const { return FromProto(RequestFor(key, kSize)); }

  /// One read of the mount's; every byte is looked at.
  Status ReadOnce(const BlockRequest& request) {
    ++asked_;
    const Deadline deadline = Deadline::After(std::chrono::seconds(30));
    const Result<Cells> cells =
        asio::co_spawn(threads_.At(0), mount_->Read(request, deadline), asio::use_future).get();
    if (!cells) return Fail(cells.error());
    const auto truth = fakes::SampleLink::Bytes(
        request.object.key, request.block.offset + request.range.begin, request.range.size());
    const ByteView part = cells->Part(request.range);
    if (std::memcmp(truth->data(), part.data(), part.size()) != 0)
      return Fail(Code::kCorrupt, "wrong bytes of " + request.object.key);
    return {};
  }

  std::uint64_t Placed(PlacedRead outcome) const {
    StatsSnapshot sum;
    stats_.AddTo(sum);
    return sum.placed_reads[static_cast<std::size_t>(outcome)];
  }

  std::uint64_t OutOfFiles() const {
    return Placed(PlacedRead::kRead) + Placed(PlacedRead::kRemembered);
  }

  /// That a read has waited for, as far as places are concerned.
  std::uint64_t AnswersOfTheNode() const {
    return Placed(PlacedRead::kRead) + Placed(PlacedRead::kNoFile) +
           Placed(PlacedRead::kNotInMemory) + Placed(PlacedRead::kGone);
  }

  /// Reads until `count` has grown: a kernel may take pages away at any moment.
  bool ReadsUntilMore(const BlockRequest& request, const std::function<std::uint64_t()>& count) {
    const TimePoint end = Clock::now() + kPatience;
    while (Clock::now() < end) {
      const std::uint64_t before = count();
      const Status read = ReadOnce(request);
      EXPECT_TRUE(read.has_value()) << read.error().message;
      if (count() > before) return true;
      std::this_thread::yield();
    }
    return false;
  }
  bool ReadsOutOfTheFile(const BlockRequest& request) {
    return ReadsUntilMore(request, [this] { return OutOfFiles(); });
  }
  bool ReadsAtAKnownPlace(const BlockRequest& request) {
    return ReadsUntilMore(request, [this] { return Placed(PlacedRead::kRemembered); });
  }

  Status Evict(const std::vector<BlockRequest>& blocks) {
    proto::EvictBlocksRequest request;
    for (const BlockRequest& block : blocks) *request.add_blocks() = ToProto(block.block);
    const Result<RpcReply> reply = Call(admin_, Method::kEvictBlocks, request);
    if (!reply) return Fail(reply.error());
    return {};
  }

  /// Where a node says that the block lies.
  Result<proto::ReadBlockReply> PlaceOf(const BlockRequest& request) {
    proto::ReadBlockRequest question = ToProto(request);
    question.set_by_place(true);
    const Result<RpcReply> reply = client_.Call(Socket(), Method::kReadBlock, question);
    if (!reply) return Fail(reply.error());
    proto::ReadBlockReply answer;
    if (!answer.ParseFromString(reply->message)) return Fail(Code::kCorrupt, "no answer");
    return answer;
  }
  std::string Socket() const { return "unix:" + (dir_ / "node.sock"); }

  std::vector<std::filesystem::path> SegmentFiles() const {
    std::vector<std::filesystem::path> files;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(dir_ / "cache")) {
      if (entry.path().extension() == ".seg") files.push_back(entry.path());
    }
    return files;
  }

  std::uint64_t asked_ = 0;  ///< Reads that the node has to count.
  RingView ring_;
  RingTable table_;
  PeerHealth health_;
  NodePace pace_;
  WorkerStats stats_;
  PassedSegments segments_{8, 1 << 20};
  std::shared_ptr<std::size_t> in_flight_ = std::make_shared<std::size_t>(0);
  IoPool threads_{"mount", 1};
  std::unique_ptr<ClientPool> pool_;
  std::unique_ptr<RingRefresher> refresher_;
  std::unique_ptr<BlockClient> mount_;
  std::unique_ptr<LocalReads> local_;
};

}  // namespace forebay
