// A coordinator, three nodes and several mounts: what the coordinator sends does not grow with the
// number of mounts.
#include <gtest/gtest.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/use_future.hpp>
#include <future>
#include <thread>

#include "cachenode/node.h"
#include "common/base/files.h"
#include "common/base/metrics.h"
#include "common/wire/messages.h"
#include "fuse-client/block_client.h"
#include "fuse-client/namespace_snapshot.h"
#include "tests/component/coordinator/cluster_fixture.h"

namespace forebay {
namespace {

using std::chrono::seconds;

bool Eventually(const std::function<bool()>& condition) {
  const Deadline deadline = Deadline::After(seconds(20));
  while (!condition()) {
    if (deadline.Expired()) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return true;
}

/// As much of a mount as obtains listings, with a state directory of its own.
class Mount {
 public:
  Mount(const std::string& secret, std::string coordinator, std::string dir) : io_("mount", 1) {
    ClientPoolOptions pool;
    pool.credentials.role = proto::ROLE_CLIENT;
    pool.credentials.id = "mount";
    pool.credentials.program = "test 0";
    pool.credentials.secret = Secret(secret);
    pool_ = std::make_unique<ClientPool>(
        io_.At(0), pool, [this] { return ring_.epoch(); }, [](std::uint64_t) {});
    refresher_ = std::make_unique<RingRefresher>(io_.At(0), *pool_, ring_,
                                                 std::vector<std::string>{coordinator});
    blocks_ = std::make_unique<BlockClient>(
        BlockClient::Parts{io_.At(0), *pool_, ring_, *refresher_, health_, pace_, stats_},
        BlockClientOptions());
    NamespaceOptions options;
    options.state_dir = std::move(dir);
    options.coordinators = {std::move(coordinator)};
    options.call_timeout = seconds(5);
    SnapshotFetcher::Parts parts{.pool = *pool_,
                                 .offload = offload_,
                                 .counts = counts,
                                 .nodes = blocks_.get(),
                                 .has_nodes = [this] { return HasNodes(); }};
    source_ = std::make_unique<NamespaceSource>(std::move(parts), std::move(options));
    io_.Start();
  }

  ~Mount() {
    std::promise<void> closed;
    asio::post(io_.At(0), [&] {
      blocks_->Stop();
      pool_->Close();
      closed.set_value();
    });
    closed.get_future().wait();
    offload_.Stop();
    io_.Stop();
  }

  Result<MountedNamespace> Obtain(const std::string& link) {
    return asio::co_spawn(io_.At(0), source_->Obtain(link, Deadline::After(seconds(60))),
                          asio::use_future)
        .get();
  }

  SnapshotCounts counts;

 private:
  Task<bool> HasNodes() {
    if (ring_.table()->nodes().empty()) co_await refresher_->Refresh(Deadline::After(seconds(5)));
    co_return !ring_.table()->nodes().empty();
  }

  IoPool io_;
  Offload offload_{1, 16};
  RingView ring_;
  PeerHealth health_;
  NodePace pace_;
  WorkerStats stats_;
  std::unique_ptr<ClientPool> pool_;
  std::unique_ptr<RingRefresher> refresher_;
  std::unique_ptr<BlockClient> blocks_;
  std::unique_ptr<NamespaceSource> source_;
};

class ListingTravelTest : public ClusterTest {
 protected:
  static constexpr int kMounts = 6;

  ListingTravelTest() {
    for (int i = 0; i < 120'000; ++i) store.Put("data/" + KeyOf(i), 10);
    StartCoordinator();
    observed_ = coordinator->Observe(metrics_);
  }
  ~ListingTravelTest() override {
    mounts_.clear();
    for (const auto& node : nodes_) node->Stop(Deadline::After(seconds(5)));
    observed_ = {};
  }

  static std::string KeyOf(int i) { return std::to_string(i % 50) + "/" + std::to_string(i); }

  void StartNodes(int count) {
    for (int i = 0; i < count; ++i) {
      NodeOptions options;
      const std::string name = "n" + std::to_string(i);
      options.store.dirs.push_back(CacheDirOptions{(dir / name).string(), 256ULL << 20});
      options.store.segment_bytes = 16ULL << 20;
      options.state_dir = (dir / (name + "-state")).string();
      options.coordinators = {address()};
      options.listen = "127.0.0.1:0";
      options.node_id = name;
      options.local_socket = (dir / (name + ".sock")).string();
      options.program = "forebay-node test";
      options.secret = Secret(secret);
      options.threads = 1;
      node_metrics_.push_back(std::make_unique<Metrics>());
      auto node = Node::Start(std::move(options), NodeOrigin{.store = store, .interrupt = [] {}},
                              *node_metrics_.back(), {});
      ASSERT_TRUE(node) << node.error().message;
      nodes_.push_back(std::move(*node));
    }
  }

  void StartMounts() {
    for (int i = 0; i < kMounts; ++i) {
      mounts_.push_back(std::make_unique<Mount>(secret, address(),
                                                (dir / ("mount" + std::to_string(i))).string()));
    }
  }

  /// All mounts at once obtain the link as it is.
  void ObtainAll(std::uint64_t generation) {
    std::vector<std::jthread> threads;
    threads.reserve(mounts_.size());
    for (const auto& mount : mounts_) {
      threads.emplace_back([&mount, generation] {
        const auto found = mount->Obtain("data");
        EXPECT_TRUE(found) << found.error().message;
        if (found) EXPECT_EQ(found->snapshot->id().generation, generation);
      });
    }
  }

  void Refresh() {
    proto::RefreshRequest request;
    request.mutable_target()->set_text("data");
    const auto reply = admin.Ask<proto::RefreshReply>(address(), Method::kRefresh, request);
    ASSERT_TRUE(reply) << reply.error().message;
    ASSERT_EQ(WaitForTask(reply->task_id()).state(), 1u);
  }

  static std::uint64_t Value(const Metrics& metrics, const std::string& series) {
    // Behind a newline: the lines that describe it begin with a hash.
    const std::string text = const_cast<Metrics&>(metrics).Render();
    const std::size_t at = text.find("\n" + series + " ");
    return at == std::string::npos
               ? 0
               : static_cast<std::uint64_t>(std::stod(text.substr(at + series.size() + 2)));
  }
  std::uint64_t Sent(const std::string& what) const {
    return Value(metrics_, "forebay_snapshot_sent_bytes_total{what=\"" + what + "\"}");
  }
  std::uint64_t FileBytes() { return GetLink("data")->generation().snapshot_bytes(); }
  std::uint64_t Count(SnapshotWay way) const {
    std::uint64_t sum = 0;
    for (const auto& mount : mounts_) sum += mount->counts.fetches[static_cast<std::size_t>(way)];
    return sum;
  }
  std::uint64_t Blocks() const {
    std::uint64_t sum = 0;
    for (const auto& metrics : node_metrics_) sum += Value(*metrics, "forebay_index_entries");
    return sum;
  }

  /// As the nodes reported last: all that they count of links, and their blocks.
  std::pair<std::uint64_t, std::uint64_t> Stats() {
    const auto stats =
        admin.Ask<proto::StatsReply>(address(), Method::kStats, proto::StatsRequest());
    if (!stats) return {};
    std::uint64_t counted = 0;
    std::uint64_t blocks = 0;
    for (const proto::NodeStats& node : stats->nodes()) {
      const proto::LinkCounters& total = node.total();
      counted += total.reads() + total.s3_gets() + total.s3_bytes() + total.cached_bytes();
      blocks += node.blocks();
    }
    for (const proto::LinkStats& link : stats->links())
      counted += link.total().reads() + link.total().cached_bytes();
    return {counted, blocks};
  }

  Metrics metrics_;
  Metrics::Registration observed_;
  std::vector<std::unique_ptr<Metrics>> node_metrics_;
  std::vector<std::unique_ptr<Node>> nodes_;
  std::vector<std::unique_ptr<Mount>> mounts_;
};

TEST_F(ListingTravelTest, TheCoordinatorSendsAListingOnceHoweverManyMountsThereAre) {
  MakeLink("data", "data/");
  ASSERT_NO_FATAL_FAILURE(StartNodes(3));
  StartMounts();
  ObtainAll(1);
  const std::uint64_t file = FileBytes();
  ASSERT_GT(file, 4u << 20);  // more than one block
  EXPECT_EQ(Sent("whole"), file);
  for (const auto& mount : mounts_) EXPECT_EQ(mount->counts.node_bytes, file);
  const std::uint64_t blocks = (file + (4 << 20) - 1) / (4 << 20);
  EXPECT_TRUE(Eventually([&] { return Blocks() == blocks; })) << Blocks();
  // Listings are nobody's data: no link's and no node's counters have them.
  EXPECT_TRUE(Eventually([&] { return Stats().second == blocks; }));
  EXPECT_EQ(Stats().first, 0u);
}

TEST_F(ListingTravelTest, AfterARefreshMountsFetchWhatHasChanged) {
  MakeLink("data", "data/");
  ASSERT_NO_FATAL_FAILURE(StartNodes(2));
  StartMounts();
  ObtainAll(1);
  const std::uint64_t whole = Sent("whole");
  for (int i = 0; i < 100; ++i) store.Put("data/" + KeyOf(i), 11);
  ASSERT_NO_FATAL_FAILURE(Refresh());
  ObtainAll(2);
  EXPECT_EQ(Sent("whole"), whole);
  EXPECT_EQ(Count(SnapshotWay::kDifference), static_cast<std::uint64_t>(kMounts));
  // 100 rows of 53 bytes each have changed.
  EXPECT_GT(Sent("difference"), 0u);
  EXPECT_LE(Sent("difference"), kMounts * (136 + 2 * 100 * 53));
}

TEST_F(ListingTravelTest, OfAnAugmentedManifestMountsFetchTheLinesOfWhatHasChanged) {
  constexpr int kLines = 20'000;
  std::string text;
  for (int i = 0; i < kLines; ++i) {
    text += R"({"source-ref":"s3://bucket/data/)" + KeyOf(i * 7'919 % kLines) + R"(","class":")" +
            std::string(300, 'x') + "\"}\n";
  }
  store.PutText("lists/m", text);
  proto::LinkRequest request = LinkRequestFor("data", "");
  request.clear_bucket();
  request.set_manifest("s3://bucket/lists/m");
  const auto linked = admin.Ask<proto::LinkReply>(address(), Method::kLink, request);
  ASSERT_TRUE(linked.has_value()) << linked.error().message;
  ASSERT_EQ(WaitForTask(linked->task_id()).state(), 1u);
  StartMounts();
  ObtainAll(1);
  const std::uint64_t whole = Sent("whole");
  EXPECT_GT(FileBytes(), kLines * 350U);
  for (const int changed : {0, 7, 19'999}) store.Put("data/" + KeyOf(changed), 11);
  ASSERT_NO_FATAL_FAILURE(Refresh());
  ObtainAll(2);
  EXPECT_EQ(Sent("whole"), whole);
  EXPECT_EQ(Count(SnapshotWay::kDifference), static_cast<std::uint64_t>(kMounts));
  EXPECT_GT(Sent("difference"), 0u);
  EXPECT_LE(Sent("difference"), kMounts * (136 + 2 * 3 * 400));
}

TEST_F(ListingTravelTest, ALargeDifferenceTravelsThroughTheNodesToo) {
  MakeLink("data", "data/");
  ASSERT_NO_FATAL_FAILURE(StartNodes(2));
  StartMounts();
  ObtainAll(1);
  const std::uint64_t whole = Sent("whole");
  for (int i = 0; i < 30'000; ++i) store.Put("data/" + KeyOf(i), 11);
  ASSERT_NO_FATAL_FAILURE(Refresh());
  ObtainAll(2);
  EXPECT_EQ(Sent("whole"), whole);
  EXPECT_EQ(Count(SnapshotWay::kDifference), static_cast<std::uint64_t>(kMounts));
  ASSERT_EQ(GetLink("data")->generation().deltas_size(), 1);
  EXPECT_EQ(Sent("difference"), GetLink("data")->generation().deltas(0).bytes());
}

TEST_F(ListingTravelTest, BlocksOfOldListingsGo) {
  MakeLink("data", "data/");
  ASSERT_NO_FATAL_FAILURE(StartNodes(1));
  const std::uint64_t blocks = (FileBytes() + (4 << 20) - 1) / (4 << 20);
  for (std::uint64_t generation = 1; generation <= 4; ++generation) {
    // A mount of its own each time, which has nothing to follow from.
    Mount mount(secret, address(), (dir / ("own" + std::to_string(generation))).string());
    ASSERT_TRUE(mount.Obtain("data"));
    EXPECT_TRUE(Eventually([&] {
      return Blocks() == std::min<std::uint64_t>(generation, 2) * blocks;
    })) << Blocks();
    store.Put("data/" + KeyOf(1), 20 + generation);
    ASSERT_NO_FATAL_FAILURE(Refresh());
  }
}

TEST_F(ListingTravelTest, WithoutNodesTheCoordinatorGivesTheListing) {
  MakeLink("data", "data/");
  StartMounts();
  mounts_.resize(2);
  ObtainAll(1);
  EXPECT_EQ(Sent("whole"), 2 * FileBytes());
}

}  // namespace
}  // namespace forebay
