#include "coordinator/copy_run.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "common/base/executors.h"
#include "common/base/token_bucket.h"
#include "common/model/fill_outcome.h"
#include "common/wire/messages.h"
#include "coordinator/preload_plan.h"
#include "proto/node.pb.h"
#include "tests/unit/coordinator/testing.h"

namespace forebay {
namespace {

using std::chrono::milliseconds;

constexpr std::uint64_t kBytes = 1'000'000;  // of each object, which is one block

/// A node that keeps blocks, at a rate by a clock of its own: no test waits.
struct PlayedNode {
  NodeInfo info;
  bool up = true;
  bool answers = true;
  bool has_room = true;
  std::set<BlockId> kept;
  // Of kCopyBlocks.
  int asked = 0;
  int in_flight = 0;
  int most_in_flight = 0;
  std::size_t most_blocks = 0;
  std::uint64_t most_bytes = 0;
  TokenBucket copy_limit;
  TimePoint now = TimePoint() + std::chrono::hours(1);
};

/// One look at the copies of a link of `kObjects` blocks, over played nodes.
class CopyRunTest : public testing::Test {
 protected:
  static constexpr std::size_t kObjects = 300;

  CopyRunTest() {
    link_ = TestLink("data", "bucket", "p/");
    link_.replicas = 2;
    std::vector<std::pair<std::string, std::uint64_t>> objects;
    for (std::size_t i = 0; i < kObjects; ++i)
      objects.emplace_back("p/" + std::to_string(1000 + i), kBytes);
    objects.emplace_back("p/empty", 0);
    snapshot_ = TestSnapshot(dir_, link_, objects);
    auto plan = MakePreloadPlan(snapshot_, *snapshot_->Resolve(""), NameFiles());
    EXPECT_TRUE(plan.has_value());
    plan_ = std::make_shared<const PreloadPlan>(std::move(*plan));
    PreloadWalk walk(plan_);
    for (const PreloadPiece& piece : *walk.Next(10'000))
      if (piece.block.length > 0) blocks_.push_back(piece.block);
    SetMembers({"n1", "n2", "n3"});
  }

  void SetMembers(const std::vector<std::string>& ids) {
    std::vector<NodeInfo> members;
    for (const std::string& id : ids) {
      PlayedNode& node = nodes_[id];
      node.info.id = id;
      node.info.address = id + ":1";
      node.info.capacity_bytes = 1ULL << 40;
      members.push_back(node.info);
    }
    ring_ = std::make_shared<const RingTable>(
        RingTable::Next(*ring_, std::move(members), 1'700'000'000));
  }

  std::string Owner(const BlockId& block, std::size_t rank) const {
    return ring_->nodes()[ring_->OwnersOf(PartitionOf(block))[rank]].id;
  }
  /// As after a first epoch: the first owner of each block has it.
  void FillFirstOwners(std::size_t count = kObjects) {
    for (std::size_t i = 0; i < count; ++i) nodes_[Owner(blocks_[i], 0)].kept.insert(blocks_[i]);
  }

  Result<CopyCounts> Look() {
    CopyRun::Parts parts{.call = [this](const NodeInfo& node, Method method, const auto& request,
                                        Deadline) { return Answer(node.id, method, request); },
                         .offload = offload_,
                         .roster =
                             [this] {
                               Roster roster;
                               for (const auto& [id, node] : nodes_)
                                 (node.up ? roster.up : roster.absent).push_back(node.info);
                               roster.ring = ring_;
                               return roster;
                             },
                         .stopped = [this] { return stopped_; }};
    return RunTask(context_, std::make_shared<CopyRun>(std::move(parts), link_, plan_)->Run());
  }

  Task<Result<RpcReply>> Answer(std::string id, Method method,
                                std::shared_ptr<const google::protobuf::MessageLite> message) {
    PlayedNode& node = nodes_.at(id);
    EXPECT_TRUE(node.up) << "nobody asks whom the coordinator suspects";
    if (!node.answers) co_return Fail(Code::kTimeout, "no answer");
    if (method == Method::kCheckBlocks) {
      proto::CheckBlocksRequest request;
      EXPECT_TRUE(request.ParseFromString(message->SerializeAsString()));
      std::string present(static_cast<std::size_t>(request.blocks_size() + 7) / 8, '\0');
      for (int i = 0; i < request.blocks_size(); ++i) {
        if (node.kept.contains(FromProto(request.blocks(i))))
          present[static_cast<std::size_t>(i) / 8] |= static_cast<char>(1 << (i % 8));
      }
      proto::CheckBlocksReply reply;
      reply.set_present(present);
      co_return ReplyWith(reply);
    }
    EXPECT_EQ(method, Method::kCopyBlocks) << "S3 is never asked";
    proto::FillBlocksRequest request;
    EXPECT_TRUE(request.ParseFromString(message->SerializeAsString()));
    ++node.asked;
    node.most_in_flight = std::max(node.most_in_flight, ++node.in_flight);
    (void)co_await SleepFor(milliseconds(1));  // others may come meanwhile
    const proto::FillBlocksReply reply = Copy(node, request);
    --node.in_flight;
    co_return ReplyWith(reply);
  }

  proto::FillBlocksReply Copy(PlayedNode& node, const proto::FillBlocksRequest& request) {
    proto::FillBlocksReply reply;
    std::uint64_t bytes = 0;
    for (const proto::FillBlock& wanted : request.blocks()) {
      const BlockId block = FromProto(wanted.block());
      EXPECT_FALSE(node.kept.contains(block)) << "only what it lacks";
      EXPECT_TRUE(std::ranges::any_of(nodes_, [&](const auto& other) {
        return other.second.kept.contains(block);
      })) << "only what somebody has";
      // As BatchFiller does it: each block waits for its turn.
      const Duration wait = node.copy_limit.Wait(node.now);
      if (wait > Duration::zero()) node.now += wait;
      node.copy_limit.Take(block.length, node.now);
      bytes += block.length;
      if (node.has_room) node.kept.insert(block);
      reply.add_results()->set_outcome(
          static_cast<std::uint32_t>(node.has_room ? FillOutcome::kKept : FillOutcome::kNoRoom));
    }
    node.most_blocks = std::max(node.most_blocks, static_cast<std::size_t>(request.blocks_size()));
    node.most_bytes = std::max(node.most_bytes, bytes);
    return reply;
  }

  std::size_t Kept() const {
    std::size_t sum = 0;
    for (const auto& [id, node] : nodes_) sum += node.kept.size();
    return sum;
  }
  std::size_t SecondsOf(const std::string& id) const {
    return static_cast<std::size_t>(std::ranges::count_if(
        blocks_, [&](const BlockId& block) { return Owner(block, 1) == id; }));
  }

  TempDir dir_;
  asio::io_context context_;
  Offload offload_{1, 16};
  LinkSpec link_;
  std::shared_ptr<const Snapshot> snapshot_;
  std::shared_ptr<const PreloadPlan> plan_;
  std::vector<BlockId> blocks_;
  std::map<std::string, PlayedNode> nodes_;
  std::shared_ptr<const RingTable> ring_ = std::make_shared<const RingTable>();
  bool stopped_ = false;
};

TEST_F(CopyRunTest, WhatIsMissingIsCopiedToWhoIsToKeepItAndThenNothingIs) {
  FillFirstOwners();
  const Result<CopyCounts> counts = Look();
  ASSERT_TRUE(counts.has_value()) << counts.error().message;
  EXPECT_EQ(counts->blocks, kObjects);
  EXPECT_EQ(counts->missing, kObjects);
  EXPECT_EQ(counts->copied, kObjects);
  EXPECT_EQ(counts->left(), 0u);
  for (const BlockId& block : blocks_)
    EXPECT_TRUE(nodes_[Owner(block, 1)].kept.contains(block)) << block.ToString();
  EXPECT_EQ(Kept(), 2 * kObjects) << "the third owner keeps none";
  const int asked = nodes_["n1"].asked;
  const Result<CopyCounts> again = Look();
  ASSERT_TRUE(again.has_value());
  EXPECT_EQ(again->missing, 0u);
  EXPECT_EQ(nodes_["n1"].asked, asked);
}

TEST_F(CopyRunTest, WhatNobodyHasIsPassedOver) {
  FillFirstOwners(100);
  const Result<CopyCounts> counts = Look();
  ASSERT_TRUE(counts.has_value());
  EXPECT_EQ(counts->blocks, 100u);
  EXPECT_EQ(counts->copied, 100u);
  EXPECT_EQ(Kept(), 200u);
}

TEST_F(CopyRunTest, TheFirstOwnerGetsBackWhatTheSecondOrAFormerOwnerHas) {
  for (const BlockId& block : blocks_) nodes_[Owner(block, 1)].kept.insert(block);
  ASSERT_EQ(Look()->copied, kObjects);
  for (const BlockId& block : blocks_) EXPECT_TRUE(nodes_[Owner(block, 0)].kept.contains(block));
  // A fourth node: what moved to it is with those that had it before.
  SetMembers({"n1", "n2", "n3", "n4"});
  ASSERT_TRUE(Look().has_value());
  for (const BlockId& block : blocks_) {
    for (const std::size_t rank : {0U, 1U})
      EXPECT_TRUE(nodes_[Owner(block, rank)].kept.contains(block)) << rank;
  }
  EXPECT_GT(nodes_["n4"].kept.size(), kObjects / 4);
}

TEST_F(CopyRunTest, ANodeIsAskedForOneBatchAtATimeAndABatchIsBounded) {
  FillFirstOwners();
  ASSERT_TRUE(Look().has_value());
  for (const auto& [id, node] : nodes_) {
    EXPECT_EQ(node.most_in_flight, 1) << id;
    EXPECT_LE(node.most_blocks, 64u) << id;
    EXPECT_LE(node.most_bytes, 32ULL << 20) << id;
    const auto least = (SecondsOf(id) * kBytes + (32ULL << 20) - 1) / (32ULL << 20);
    EXPECT_GE(node.asked, static_cast<int>(least)) << id;
  }
}

// The rate is the nodes' own (copy_limit): the coordinator asks for the next batch when the last
// one is answered, so a repair takes as long as its bytes take, however much is missing.
TEST_F(CopyRunTest, ARepairTakesAsLongAsTheNodesCopyLimitSays) {
  constexpr double kRate = 10e6;
  std::map<std::string, TimePoint> began;
  for (auto& [id, node] : nodes_) {
    node.copy_limit.SetRate(kRate, node.now);
    began[id] = node.now;
  }
  FillFirstOwners();
  ASSERT_EQ(Look()->copied, kObjects);
  for (const auto& [id, node] : nodes_) {
    const double seconds = std::chrono::duration<double>(node.now - began[id]).count();
    const double bytes = static_cast<double>(SecondsOf(id) * kBytes);
    const double burst = std::chrono::duration<double>(TokenBucket::kBurst).count();
    // The last block passes when those before it are paid for.
    EXPECT_GE(seconds + burst, (bytes - kBytes) / kRate - 1e-6) << id;
    EXPECT_LE(seconds, bytes / kRate) << id;
  }
}

TEST_F(CopyRunTest, ANodeWithoutRoomIsCountedAndNoFailure) {
  FillFirstOwners();
  nodes_["n2"].has_room = false;
  const Result<CopyCounts> counts = Look();
  ASSERT_TRUE(counts.has_value());
  EXPECT_EQ(counts->no_room, SecondsOf("n2"));
  EXPECT_EQ(counts->copied, kObjects - SecondsOf("n2"));
  EXPECT_EQ(counts->failed, 0u);
  EXPECT_EQ(counts->left(), SecondsOf("n2"));
}

TEST_F(CopyRunTest, ANodeThatDoesNotAnswerIsAskedForNoCopyAndSaysWhy) {
  FillFirstOwners();
  nodes_["n3"].answers = false;
  const Result<CopyCounts> counts = Look();
  ASSERT_TRUE(counts.has_value());
  EXPECT_EQ(nodes_["n3"].asked, 0);
  EXPECT_GE(counts->failed, SecondsOf("n3"));
  EXPECT_NE(counts->why.find("n3"), std::string::npos);
  std::size_t known = 0;  // blocks that somebody says he has
  for (const BlockId& block : blocks_)
    if (Owner(block, 0) != "n3") ++known;
  EXPECT_EQ(counts->blocks, known);
}

TEST_F(CopyRunTest, CopiesOfNodesThatAreNotUpAreAbsent) {
  FillFirstOwners();
  nodes_["n2"].up = false;
  const Result<CopyCounts> counts = Look();
  ASSERT_TRUE(counts.has_value());
  std::size_t firsts = 0;
  for (const BlockId& block : blocks_)
    if (Owner(block, 0) == "n2") ++firsts;
  EXPECT_EQ(counts->blocks, kObjects - firsts);
  EXPECT_EQ(counts->absent, SecondsOf("n2"));
  EXPECT_EQ(counts->failed, 0u);
}

TEST_F(CopyRunTest, ItEndsWhenItIsStopped) {
  FillFirstOwners();
  stopped_ = true;
  const Result<CopyCounts> counts = Look();
  ASSERT_FALSE(counts.has_value());
  EXPECT_EQ(counts.error().code, Code::kUnavailable);
  EXPECT_EQ(Kept(), kObjects);
}

}  // namespace
}  // namespace forebay
