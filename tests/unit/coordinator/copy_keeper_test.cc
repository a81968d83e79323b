#include "coordinator/copy_keeper.h"

#include <gtest/gtest.h>

#include <map>
#include <set>

#include "common/model/fill_outcome.h"
#include "common/snapshot/snapshot_builder.h"
#include "common/wire/messages.h"
#include "coordinator/listing_feed.h"
#include "coordinator/task_book.h"
#include "proto/node.pb.h"
#include "tests/unit/coordinator/testing.h"

namespace forebay {
namespace {

MembershipTimes Patient() {
  MembershipTimes times;
  times.suspect_after = std::chrono::hours(1);
  return times;
}

/// A keeper of a cluster whose nodes answer at once. Looks are due when the test says Tick: the ten
/// minutes between two of the same state never pass.
class CopyKeeperTest : public testing::Test {
 protected:
  static constexpr std::size_t kObjects = 40;

  CopyKeeperTest() {
    link_ = TestLink("data", "bucket", "p/");
    link_.replicas = 2;
    EXPECT_TRUE(members_.Load().has_value());
    for (const char* id : {"n1", "n2"}) Join(id);
  }

  void Join(const std::string& id) {
    NodeInfo info;
    info.id = id;
    info.address = id + ":1";
    info.capacity_bytes = 1ULL << 40;
    EXPECT_TRUE(RunTask(context_, members_.Register(info, 1)).has_value());
  }

  /// A generation of kObjects, and that many more blocks at their first owners.
  void Publish(std::uint64_t generation) {
    EXPECT_TRUE(index_.BeginBuild(link_.id).has_value());
    SnapshotOptions options;
    options.id = SnapshotId{.link = link_.id, .generation = generation};
    options.domain = link_.domain;
    options.endpoint = link_.origin.endpoint;
    options.bucket = link_.origin.bucket;
    options.prefix = link_.origin.prefix;
    options.block_bytes = link_.block_bytes;
    SnapshotBuilder builder(options, index_.PathOf(link_.id, generation));
    const std::string etag = "etag-" + std::to_string(generation);
    for (std::size_t i = 0; i < kObjects; ++i) {
      const std::string key = "p/" + std::to_string(1000 + i);
      EXPECT_TRUE(builder.Add(ListedKey{.key = key, .size = 1000, .etag = etag}).has_value());
      const BlockId block = BlockAt(VersionOf(link_, key, etag, 1000), 1000, link_.block_bytes, 0);
      const auto table = members_.Table();
      kept_[table->nodes()[table->OwnersOf(PartitionOf(block))[0]].id].insert(block);
    }
    Result<FinishedSnapshot> finished = builder.Finish();
    ASSERT_TRUE(finished.has_value()) << finished.error().message;
    const proto::GenerationInfo info = DescribeGeneration(generation, *finished, 1);
    EXPECT_TRUE(index_.Open(link_.id, info, true).has_value());
    index_.EndBuild(link_.id);
    EXPECT_TRUE(links_.Publish(link_.id, info, {}).has_value());
  }

  Task<Result<RpcReply>> Answer(std::string id, Method method,
                                std::shared_ptr<const google::protobuf::MessageLite> message) {
    if (method == Method::kCheckBlocks) {
      ++looks_[id];
      proto::CheckBlocksRequest request;
      EXPECT_TRUE(request.ParseFromString(message->SerializeAsString()));
      std::string present(static_cast<std::size_t>(request.blocks_size() + 7) / 8, '\0');
      for (int i = 0; i < request.blocks_size(); ++i) {
        if (kept_[id].contains(FromProto(request.blocks(i))))
          present[static_cast<std::size_t>(i) / 8] |= static_cast<char>(1 << (i % 8));
      }
      proto::CheckBlocksReply reply;
      reply.set_present(present);
      co_return ReplyWith(reply);
    }
    proto::FillBlocksRequest request;
    EXPECT_TRUE(request.ParseFromString(message->SerializeAsString()));
    proto::FillBlocksReply reply;
    for (const proto::FillBlock& wanted : request.blocks()) {
      if (has_room_) kept_[id].insert(FromProto(wanted.block()));
      reply.add_results()->set_outcome(
          static_cast<std::uint32_t>(has_room_ ? FillOutcome::kKept : FillOutcome::kNoRoom));
    }
    co_return ReplyWith(reply);
  }

  /// True: it looked.
  bool Tick() {
    const auto before = looks_;
    std::future<void> done = asio::co_spawn(context_, keeper_.Tick(), asio::use_future);
    context_.restart();
    context_.run();
    done.get();
    return looks_ != before;
  }
  std::size_t Kept() const {
    std::size_t sum = 0;
    for (const auto& [id, blocks] : kept_) sum += blocks.size();
    return sum;
  }

  TempDir dir_;
  asio::io_context context_;
  Offload offload_{1, 16};
  MemoryStateStore store_;
  const std::uint64_t fence_ = *store_.Claim();
  TaskBook tasks_;
  LinkRegistry links_{store_, fence_, tasks_};
  NamespaceIndex index_{dir_.Path("")};
  ClusterMembers members_{store_, fence_, offload_, Patient()};
  LinkSpec link_;
  std::map<std::string, std::set<BlockId>> kept_;
  std::map<std::string, int> looks_;  // questions, by node
  bool has_room_ = true;
  CopyKeeper keeper_{{.links = links_,
                      .index = index_,
                      .membership = members_,
                      .call = [this](const NodeInfo& node, Method method, const auto& request,
                                     Deadline) { return Answer(node.id, method, request); },
                      .offload = offload_}};
};

TEST_F(CopyKeeperTest, ItLooksAfterEachChangeAndNotInBetween) {
  ASSERT_TRUE(links_.Add(link_).has_value());
  EXPECT_FALSE(Tick()) << "nothing is listed yet";
  Publish(1);
  EXPECT_TRUE(Tick());
  EXPECT_EQ(Kept(), 2 * kObjects);
  EXPECT_EQ(keeper_.StateOf(link_.id)->missing, 0u);
  EXPECT_FALSE(Tick());
  Join("n3");
  EXPECT_TRUE(Tick()) << "the ring has changed";
  EXPECT_FALSE(Tick());
  Publish(2);
  EXPECT_TRUE(Tick()) << "the listing has changed";
  EXPECT_FALSE(Tick());
}

TEST_F(CopyKeeperTest, WithoutReplicasNobodyIsAsked) {
  link_.replicas = 1;
  ASSERT_TRUE(links_.Add(link_).has_value());
  Publish(1);
  EXPECT_FALSE(Tick());
  EXPECT_FALSE(keeper_.StateOf(link_.id).has_value());
  EXPECT_EQ(Kept(), kObjects);
}

TEST_F(CopyKeeperTest, WhatFindsNoRoomIsCountedAndLookedAtAgainWithTheNextChange) {
  ASSERT_TRUE(links_.Add(link_).has_value());
  Publish(1);
  has_room_ = false;
  EXPECT_TRUE(Tick());
  EXPECT_EQ(keeper_.StateOf(link_.id)->missing, kObjects);
  EXPECT_FALSE(Tick()) << "a full node is not asked again and again";
  has_room_ = true;
  Join("n3");
  EXPECT_TRUE(Tick());
  EXPECT_EQ(keeper_.StateOf(link_.id)->missing, 0u);
}

TEST_F(CopyKeeperTest, StoppedItLooksAtNothing) {
  ASSERT_TRUE(links_.Add(link_).has_value());
  Publish(1);
  keeper_.Stop();
  EXPECT_FALSE(Tick());
}

}  // namespace
}  // namespace forebay
