#include "coordinator/pin_keeper.h"

#include <gtest/gtest.h>

#include <chrono>

#include "common/wire/messages.h"
#include "coordinator/stats.h"
#include "coordinator/task_book.h"
#include "proto/node.pb.h"
#include "tests/unit/coordinator/testing.h"

namespace forebay {
namespace {

using std::chrono::minutes;
using std::chrono::seconds;

/// A keeper, its book, and nodes that take over what they are told; time is the test's.
class PinKeeperTest : public testing::Test {
 protected:
  PinKeeperTest() : fence_(*store_.Claim()) {
    link_ = TestLink("data", "bucket", "p/");
    Restart();
    EXPECT_TRUE(links_->Add(link_).has_value());
    proto::GenerationInfo generation;
    generation.set_generation(1);
    EXPECT_TRUE(links_->Publish(link_.id, generation, {}).has_value());
    NodeInfo node;
    node.id = "n1";
    nodes_.push_back(node);
  }

  /// The coordinator begins anew with what it stored.
  void Restart() {
    keeper_.reset();
    pins_.reset();
    links_.reset();
    tasks_ = std::make_unique<TaskBook>();
    links_ = std::make_unique<LinkRegistry>(store_, fence_, *tasks_);
    pins_ = std::make_unique<PinBook>(store_, *links_);
    EXPECT_TRUE(links_->Load().has_value());
    EXPECT_TRUE(pins_->Load().has_value());
    keeper_ = std::make_unique<PinKeeper>(
        PinKeeper::Parts{.call = [this](const NodeInfo& node, Method, const auto& request,
                                        Deadline) { return Answer(node.id, request); },
                         .pins = *pins_,
                         .links = *links_,
                         .index = index_,
                         .offload = offload_,
                         .up_nodes = [this] { return nodes_; },
                         .node_pins = [this](const std::string& node) { return shown_[node]; },
                         .job_idle = [this](const std::string&) { return job_idle_; },
                         .now = [this] { return now_; },
                         .unix_s = [this] { return unix_s_; }});
  }

  Task<Result<RpcReply>> Answer(std::string node,
                                std::shared_ptr<const google::protobuf::MessageLite> message) {
    proto::PinBlocksRequest request;
    request.ParseFromString(message->SerializeAsString());
    if (request.begin()) ++told_;
    if (request.end() && shows_) shown_[node][link_.id] = request.version();
    co_return ReplyWith(proto::PinBlocksReply());
  }

  void Pin(const std::string& path, std::int64_t until_unix_s, const std::string& job = "") {
    proto::PinRecord pin;
    pin.set_link(BytesOf(link_.id));
    pin.set_path(path);
    pin.set_folder(true);
    pin.set_until_unix_s(until_unix_s);
    pin.set_job(job);
    EXPECT_TRUE(pins_->Put(pin).value_or(false));
  }
  bool IsPinned(const std::string& path) { return pins_->Find(link_.id, path).has_value(); }
  void Pass(seconds time) {
    now_ += time;
    unix_s_ += time.count();
  }
  void Tick() {
    asio::io_context context;
    (void)RunTask(context, TickOnce());
  }
  Task<bool> TickOnce() {
    co_await keeper_->Tick();
    co_return true;
  }

  const TempDir dir_;
  MemoryStateStore store_;
  const std::uint64_t fence_;
  NamespaceIndex index_{dir_.Path("snapshots")};
  Offload offload_{1, 64};
  LinkSpec link_;
  std::vector<NodeInfo> nodes_;
  std::map<std::string, std::map<Uuid, std::uint64_t>> shown_;  // by the nodes' heartbeats
  std::optional<Duration> job_idle_;
  TimePoint now_ = Clock::now();
  std::int64_t unix_s_ = 1'000'000;
  bool shows_ = true;
  int told_ = 0;
  std::unique_ptr<TaskBook> tasks_;
  std::unique_ptr<LinkRegistry> links_;
  std::unique_ptr<PinBook> pins_;
  std::unique_ptr<PinKeeper> keeper_;
};

TEST_F(PinKeeperTest, ALeaseEndsWhenItsTimeIsOverAndTheNodesHearOfIt) {
  Pin("train", unix_s_ + 60);
  Pin("val", 0);
  Pass(seconds(59));
  Tick();
  EXPECT_TRUE(IsPinned("train"));
  const std::uint64_t both = shown_["n1"][link_.id];
  EXPECT_EQ(both, links_->FindById(link_.id)->spec.pins_version);
  Pass(seconds(1));
  Tick();
  EXPECT_FALSE(IsPinned("train"));
  EXPECT_TRUE(IsPinned("val")) << "for ever";
  EXPECT_EQ(links_->FindById(link_.id)->spec.pins, std::vector<std::string>{"val/"});
  EXPECT_GT(shown_["n1"][link_.id], both);
  EXPECT_EQ(shown_["n1"][link_.id], links_->FindById(link_.id)->spec.pins_version);
}

TEST_F(PinKeeperTest, APinForAJobEndsWithTheJob) {
  Pass(minutes(30));
  Pin("train", 0, "job-17");
  job_idle_ = minutes(9);
  Tick();
  EXPECT_TRUE(IsPinned("train"));
  job_idle_ = seconds(1);  // it reads again
  Pass(minutes(60));
  Tick();
  EXPECT_TRUE(IsPinned("train"));
  job_idle_ = kJobEnds;
  Tick();
  EXPECT_FALSE(IsPinned("train"));
}

TEST_F(PinKeeperTest, AfterARestartAJobHasTenMinutesToShowThatItReads) {
  Pass(minutes(30));
  Pin("train", 0, "job-17");
  Pin("val", 0, "job-18");
  Restart();
  job_idle_.reset();  // nobody has heard of any job yet
  Tick();
  Pass(kJobEnds - seconds(1));
  Tick();
  EXPECT_TRUE(IsPinned("train"));
  EXPECT_TRUE(IsPinned("val"));
  ASSERT_TRUE(pins_->Remove(link_.id, "val").value_or(false));
  Pass(seconds(1));
  job_idle_ = seconds(5);
  Tick();
  EXPECT_TRUE(IsPinned("train")) << "it has shown that it reads";
  job_idle_.reset();
  Tick();
  EXPECT_FALSE(IsPinned("train"));
}

TEST_F(PinKeeperTest, LeasesGoOnOverARestartAndEndWhileNobodyRan) {
  Pin("train", unix_s_ + 60);
  Pin("val", unix_s_ + 600);
  Tick();
  Pass(seconds(120));
  Restart();
  EXPECT_TRUE(IsPinned("train")) << "it was stored";
  Tick();
  EXPECT_FALSE(IsPinned("train"));
  EXPECT_TRUE(IsPinned("val"));
  Restart();
  EXPECT_FALSE(IsPinned("train")) << "its end was stored, too";
  Pass(seconds(480));
  Tick();
  EXPECT_FALSE(IsPinned("val"));
}

TEST_F(PinKeeperTest, ANodeIsToldAgainUntilItsHeartbeatShowsIt) {
  Pin("train", 0);
  shows_ = false;
  Tick();
  EXPECT_EQ(told_, 1);
  Pass(seconds(3));
  Tick();
  EXPECT_EQ(told_, 1) << "its next heartbeat may be on its way";
  Pass(seconds(1));
  Tick();
  EXPECT_EQ(told_, 2);
  shows_ = true;
  Pass(seconds(4));
  Tick();
  EXPECT_EQ(told_, 3);
  Pass(minutes(1));
  Tick();
  EXPECT_EQ(told_, 3);
  shown_.clear();  // it lost its index
  Tick();
  EXPECT_EQ(told_, 4);
}

}  // namespace
}  // namespace forebay
