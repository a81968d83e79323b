#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>

#include "common/model/block_loss.h"
#include "common/wire/messages.h"
#include "tests/component/coordinator/cluster_fixture.h"

namespace forebay {
namespace {

using ::testing::HasSubstr;

/// A link of blocks of 4 MiB with a file of two and a half.
class ExplainTest : public ClusterTest {
 protected:
  static constexpr std::uint64_t kSize = 10'000'000;

  ExplainTest() {
    store.Put("data/train/a", kSize, "etag-a");
    store.Put("data/train/empty", 0);
    StartCoordinator();
    MakeLink("data", "data/");
  }

  Result<proto::ExplainReply> TryExplain(const std::string& target) {
    proto::ExplainRequest request;
    request.mutable_target()->set_text(target);
    return admin.Ask<proto::ExplainReply>(address(), Method::kExplain, request);
  }
  proto::ExplainReply Explain(const std::string& target) {
    Result<proto::ExplainReply> reply = TryExplain(target);
    EXPECT_TRUE(reply.has_value()) << reply.error().message;
    return reply ? *reply : proto::ExplainReply();
  }
  static std::set<std::string> NodesOf(const proto::ExplainedBlock& block) {
    std::set<std::string> nodes;
    for (const proto::BlockAtNode& node : block.nodes()) nodes.insert(node.node_id());
    return nodes;
  }
};

TEST_F(ExplainTest, TellsWhoOwnsHoldsAndRemembersEachBlock) {
  FakeNode n1("n1", secret), n2("n2", secret), n3("n3", secret);
  for (FakeNode* node : {&n1, &n2, &n3}) ASSERT_TRUE(node->Register(address()).has_value());
  const proto::ExplainReply cold = Explain("data/train/a");
  EXPECT_EQ(cold.path(), "train/a");
  EXPECT_EQ(cold.key(), "data/train/a");
  EXPECT_EQ(cold.bucket(), "bucket");
  EXPECT_EQ(cold.size(), kSize);
  EXPECT_EQ(cold.etag(), "etag-a");
  EXPECT_EQ(cold.blocks(), 3u);
  ASSERT_EQ(cold.described_size(), 3);
  EXPECT_EQ(cold.described(2).offset(), 8u << 20);
  EXPECT_EQ(cold.described(2).length(), kSize - (8u << 20));
  EXPECT_EQ(cold.ring_epoch(), 3u);
  EXPECT_EQ(cold.now().state(), 0u);
  EXPECT_EQ(cold.pins_size(), 0);
  for (const proto::ExplainedBlock& block : cold.described()) {
    ASSERT_EQ(block.owners_size(), 3);
    EXPECT_EQ(NodesOf(block), std::set<std::string>{block.owners(0)}) << "others know nothing";
  }

  // The first block is lost at all of them; the second one is at the node that is asked last.
  const auto memory = [](const BlockId& block) {
    proto::BlockDescription known;
    known.set_since_unix_s(100);
    if (block.offset != 0) return known;
    known.set_read_unix_s(200);
    known.set_job("job-1");
    known.set_lost_unix_s(300);
    known.set_loss(static_cast<std::uint32_t>(BlockLoss::kReplaced));
    return known;
  };
  const std::string last_owner = cold.described(1).owners(2);
  for (FakeNode* node : {&n1, &n2, &n3}) {
    node->OnDescribe([memory, holds = node->id == last_owner](const BlockId& block) {
      proto::BlockDescription known = memory(block);
      known.set_cached(holds && block.offset == 4u << 20);
      return known;
    });
  }
  const proto::ExplainReply known = Explain("data/train/a");
  ASSERT_EQ(known.described_size(), 3);
  EXPECT_EQ(NodesOf(known.described(0)), (std::set<std::string>{"n1", "n2", "n3"}));
  const proto::BlockAtNode& lost = known.described(0).nodes(0);
  EXPECT_EQ(lost.since_unix_s(), 100);
  EXPECT_EQ(lost.read_unix_s(), 200);
  EXPECT_EQ(lost.job(), "job-1");
  EXPECT_EQ(lost.lost_unix_s(), 300);
  EXPECT_EQ(lost.loss(), static_cast<std::uint32_t>(BlockLoss::kReplaced));
  EXPECT_EQ(NodesOf(known.described(1)),
            (std::set<std::string>{known.described(1).owners(0), last_owner}));
  for (const proto::BlockAtNode& node : known.described(1).nodes())
    EXPECT_EQ(node.cached(), node.node_id() == last_owner);
}

TEST_F(ExplainTest, NamesTheEarlierOwnersOfWhatHasMoved) {
  FakeNode n1("n1", secret), n2("n2", secret);
  ASSERT_TRUE(n1.Register(address()).has_value());
  ASSERT_TRUE(n2.Register(address()).has_value());
  // Half of the partitions went from n1 to n2: of 40 blocks at least one did.
  store.Put("data/train/b", 40 * kDefaultBlockBytes);
  proto::RefreshRequest refresh;
  refresh.mutable_target()->set_text("data");
  const auto task = admin.Ask<proto::RefreshReply>(address(), Method::kRefresh, refresh);
  ASSERT_TRUE(task.has_value());
  ASSERT_EQ(WaitForTask(task->task_id()).state(), 1u);
  int moved = 0;
  for (const proto::ExplainedBlock& block : Explain("data/train/b").described()) {
    ASSERT_EQ(block.earlier_size(), block.owners(0) == "n2" ? 1 : 0);
    if (block.earlier_size() == 0) continue;
    EXPECT_EQ(block.earlier(0).node_id(), "n1");
    EXPECT_EQ(block.earlier(0).until_epoch(), 2u);
    EXPECT_GT(block.earlier(0).left_unix_s(), 0);
    ++moved;
  }
  EXPECT_GT(moved, 0);
}

TEST_F(ExplainTest, SaysWhatS3HasNow) {
  const auto now = [this] { return Explain("data/train/a").now(); };
  EXPECT_EQ(now().state(), 0u);
  store.Put("data/train/a", kSize, "etag-b");
  EXPECT_EQ(now().state(), 1u);
  EXPECT_EQ(now().etag(), "etag-b");
  store.Put("data/train/a", kSize + 1, "etag-a");
  EXPECT_EQ(now().state(), 1u) << "another size is another version";
  store.FailHeads(Error{Code::kUnavailable, "Connection refused"});
  EXPECT_EQ(now().state(), 3u);
  EXPECT_EQ(now().message(), "Connection refused");
  store.FailHeads(std::nullopt);
  store.Erase("data/train/a");
  EXPECT_EQ(now().state(), 2u);
  EXPECT_EQ(Explain("data/train/a").etag(), "etag-a") << "the listing stays what it was";
}

TEST_F(ExplainTest, ANodeThatDoesNotAnswerIsNamed) {
  FakeNode n1("n1", secret), n2("n2", secret);
  ASSERT_TRUE(n1.Register(address()).has_value());
  ASSERT_TRUE(n2.Register(address()).has_value());
  n2.Kill();
  const proto::ExplainReply reply = Explain("data/train/a");
  ASSERT_EQ(reply.silent_size(), 1);
  EXPECT_EQ(reply.silent(0).node_id(), "n2");
  EXPECT_NE(reply.silent(0).reason(), "");
  for (const proto::ExplainedBlock& block : reply.described()) {
    EXPECT_EQ(block.owners_size(), 2);
    for (const proto::BlockAtNode& node : block.nodes()) EXPECT_EQ(node.node_id(), "n1");
  }
}

TEST_F(ExplainTest, NamesThePinsThatCoverTheFileAlone) {
  FakeNode n1("n1", secret);
  ASSERT_TRUE(n1.Register(address()).has_value());
  for (const char* target : {"data/train", "data/train/a", "data/train/empty"}) {
    proto::PinRequest pin;
    pin.mutable_target()->set_text(target);
    pin.set_until_unix_s(4'000'000'000);
    ASSERT_TRUE(admin.Ask<proto::PinReply>(address(), Method::kPin, pin).has_value()) << target;
  }
  std::set<std::string> pins;
  for (const proto::ExplainedPin& pin : Explain("data/train/a").pins()) {
    EXPECT_EQ(pin.until_unix_s(), 4'000'000'000);
    pins.insert(pin.target());
  }
  EXPECT_EQ(pins, (std::set<std::string>{"data/train", "data/train/a"}));
}

TEST_F(ExplainTest, AFolderANameThatIsNotThereAndALinkThatIsNotThereAreOneSentence) {
  for (const char* folder : {"data", "data/train"}) {
    const Result<proto::ExplainReply> reply = TryExplain(folder);
    ASSERT_FALSE(reply.has_value());
    EXPECT_EQ(reply.error().code, Code::kInvalid);
    EXPECT_THAT(reply.error().message, HasSubstr("'" + std::string(folder) +
                                                 "' is a folder, and explain tells of one file"));
  }
  EXPECT_EQ(TryExplain("data/train/x").error().code, Code::kNotFound);
  EXPECT_EQ(TryExplain("dat/train/a").error().code, Code::kNotFound);
}

TEST_F(ExplainTest, AnEmptyFileAndAHugeOneAndAClusterWithoutNodesAreDescribed) {
  const proto::ExplainReply empty = Explain("data/train/empty");
  EXPECT_EQ(empty.blocks(), 0u);
  EXPECT_EQ(empty.described_size(), 0);
  const proto::ExplainReply alone = Explain("data/train/a");
  EXPECT_EQ(alone.described_size(), 3);
  EXPECT_EQ(alone.described(0).owners_size(), 0);

  FakeNode node(std::string(63, 'n'), secret);
  ASSERT_TRUE(node.Register(address()).has_value());
  node.OnDescribe([](const BlockId&) {
    proto::BlockDescription known;
    known.set_read_unix_s(1);
    known.set_job(std::string(1000, 'j'));
    return known;
  });
  store.Put("data/train/huge", kMaxObjectBytes);
  proto::RefreshRequest refresh;
  refresh.mutable_target()->set_text("data/train/huge");
  const auto task = admin.Ask<proto::RefreshReply>(address(), Method::kRefresh, refresh);
  ASSERT_TRUE(task.has_value());
  ASSERT_EQ(WaitForTask(task->task_id()).state(), 1u);
  const proto::ExplainReply huge = Explain("data/train/huge");
  EXPECT_EQ(huge.blocks(), kMaxObjectBytes / kDefaultBlockBytes + 1);
  EXPECT_GT(huge.described_size(), 500) << "as many as fit into the frame";
  EXPECT_LT(huge.described_size(), 1024);
}

}  // namespace
}  // namespace forebay
