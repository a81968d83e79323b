// How a listing reaches a mount: by what has changed, from nodes, or whole from the coordinator.
#include "fuse-client/snapshot_fetcher.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <limits>

#include "common/base/executors.h"
#include "common/base/files.h"
#include "common/model/system_link.h"
#include "common/wire/messages.h"
#include "fuse-client/namespace_snapshot.h"
#include "tests/component/fuse-client/client_fixture.h"
#include "tests/fakes/fake_coordinator.h"
#include "tests/fakes/sample_link.h"
#include "tests/fakes/temp_dir.h"

namespace forebay {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

/// Nodes that have every block of the newest snapshot.
class FakeNodes final : public BlockSource {
 public:
  Task<Result<Cells>> Read(BlockRequest request, Deadline) override {
    ++reads;
    last = request;
    ++running;
    most_running = std::max(most_running, running);
    const Deadline patience = Deadline::After(seconds(10));
    while (most_running < awaited && patience.Remaining() > Duration::zero())
      co_await SleepFor(milliseconds(1));
    --running;
    if (fails) co_return Fail(Code::kTimeout, "no node answers");
    Cells cells;
    auto buffer = std::make_shared<Buffer>(request.block.length);
    for (std::size_t i = 0; i < request.block.length; ++i)
      buffer->data()[i] = static_cast<std::byte>(file[request.block.offset + i]);
    if (lies) buffer->data()[100] ^= std::byte{1};
    cells.bytes = Slice::Of(std::move(buffer));
    co_return cells;
  }

  std::string file;
  bool fails = false;
  bool lies = false;
  int reads = 0;
  int running = 0;
  int most_running = 0;
  int awaited = 0;  ///< No read ends before so many have run at the same time.
  BlockRequest last;
};

class SnapshotFetcherTest : public ClientFixture {
 protected:
  /// Nobody is silent here, and a large listing takes its time on a busy machine.
  SnapshotFetcherTest() : ClientFixture(seconds(10)) {
    coordinator_ = std::make_unique<fakes::FakeCoordinator>(kTestSecret);
    Link(20'000);
  }

  void Link(int count) {
    std::map<std::string, std::uint64_t> keys;
    for (int i = 0; i < count; ++i) keys["d" + std::to_string(i % 7) + "/" + std::to_string(i)] = 1;
    link_ = std::make_unique<fakes::SampleLink>("imagenet", std::move(keys));
    Publish(1);
  }

  /// Builds a generation behind the one before and announces it with all differences so far.
  void Publish(std::uint64_t generation) {
    const std::string path = dir_ / (std::to_string(generation) + ".built");
    std::shared_ptr<const Snapshot> previous;
    if (generation > 1)
      previous = link_->OpenSnapshot(dir_ / (std::to_string(generation - 1) + ".built"));
    const proto::GenerationInfo before = state_.generation();
    link_->BuildSnapshot(path, generation, previous);
    state_ = link_->State();
    if (previous) AddDelta(before, *previous, *link_->OpenSnapshot(path));
    file_ = ReadWholeFile(path).value();
    nodes_.file = file_;
    coordinator_->SetLink(state_, file_);
  }

  void AddDelta(const proto::GenerationInfo& before, const Snapshot& then, const Snapshot& now) {
    proto::GenerationInfo& after = *state_.mutable_generation();
    const DeltaEnds ends{.link = then.id().link,
                         .before = before.generation(),
                         .after = after.generation(),
                         .before_digest = {before.digest_high(), before.digest_low()},
                         .after_digest = {after.digest_high(), after.digest_low()}};
    const auto written = WriteDelta(then, now, ends, 1 << 30, dir_ / "delta");
    ASSERT_TRUE(written && written->bytes > 0);
    proto::GenerationDelta delta;
    delta.set_before(ends.before);
    delta.set_after(ends.after);
    delta.set_bytes(written->bytes);
    delta.set_after_digest_high(ends.after_digest.high);
    delta.set_after_digest_low(ends.after_digest.low);
    *after.mutable_deltas() = before.deltas();
    *after.add_deltas() = delta;
    coordinator_->SetDelta(ends.before, ends.after, ReadWholeFile(dir_ / "delta").value());
  }

  Result<MountedNamespace> Obtain() {
    NamespaceOptions options;
    options.state_dir = dir_ / "state";
    options.coordinators = {coordinator_->address()};
    options.call_timeout = seconds(2);
    options.retry_pause = milliseconds(10);
    SnapshotFetcher::Parts parts{.pool = *pool_, .offload = offload_, .counts = counts_};
    parts.merge_bytes = merge_bytes_;
    parts.bandwidth = bandwidth_.get();
    if (with_nodes_) {
      parts.nodes = &nodes_;
      parts.has_nodes = []() -> Task<bool> { co_return true; };
    }
    NamespaceSource source(std::move(parts), options);
    return Run(source.Obtain("imagenet", Deadline::After(seconds(20))));
  }

  /// Obtains the newest, whose bytes must be the coordinator's.
  void ExpectTheNewest() {
    const auto found = Obtain();
    ASSERT_TRUE(found) << found.error().message;
    EXPECT_EQ(found->snapshot->id().generation, state_.generation().generation());
    const std::string name = SnapshotName(state_.generation().generation());
    const std::string folder = found->cluster_dir + "/" + link_->id().ToString();
    EXPECT_EQ(ReadWholeFile(folder + "/" + name).value(), file_);
    for (const auto& entry : std::filesystem::directory_iterator(folder))
      EXPECT_TRUE(entry.path().filename() == name || entry.path().filename() == "link.pb")
          << entry.path();
  }

  std::uint64_t Count(SnapshotWay way) const {
    return counts_.fetches[static_cast<std::size_t>(way)];
  }

  fakes::TempDir dir_;
  std::unique_ptr<fakes::SampleLink> link_;
  std::unique_ptr<fakes::FakeCoordinator> coordinator_;
  proto::LinkState state_;
  std::string file_;
  FakeNodes nodes_;
  bool with_nodes_ = false;
  std::uint64_t merge_bytes_ = std::numeric_limits<std::uint64_t>::max();
  Offload offload_{1, 16};
  SnapshotCounts counts_;
  std::unique_ptr<NetworkPace> bandwidth_;  // none: no bound
};

TEST_F(SnapshotFetcherTest, ANewGenerationComesByWhatHasChanged) {
  ExpectTheNewest();
  EXPECT_EQ(Count(SnapshotWay::kFirst), 1u);
  const std::uint64_t whole = coordinator_->snapshot_bytes();
  EXPECT_EQ(whole, file_.size());
  link_->Put("d3/new", 5);
  link_->Erase("d4/4");
  Publish(2);
  ExpectTheNewest();
  EXPECT_EQ(Count(SnapshotWay::kDifference), 1u);
  EXPECT_LT(coordinator_->snapshot_bytes() - whole, 400u);
}

// Readers would wait for it, and for what they owe already, until they gave up.
TEST_F(SnapshotFetcherTest, AListingWaitsWhereMoreThanSomeSecondsAreOwed) {
  constexpr std::uint64_t kBytesPerSecond = 100 << 20;
  bandwidth_ = std::make_unique<NetworkPace>(kBytesPerSecond, "the bound");
  const TimePoint begin = Clock::now();
  bandwidth_->Charge(7 * kBytesPerSecond);
  ExpectTheNewest();
  EXPECT_GE(Clock::now() - begin, seconds(1)) << "five of the seven seconds may be owed";
}

TEST_F(SnapshotFetcherTest, WhatTheCoordinatorSendsIsPaidFor) {
  bandwidth_ = std::make_unique<NetworkPace>(1, "the bound");
  ExpectTheNewest();
  bandwidth_->GiveBack(file_.size() - 1000);
  const Status late = Run(bandwidth_->Pass(1, Deadline::After(seconds(1))));
  ASSERT_FALSE(late) << "the listing's last bytes are still owed";
  EXPECT_EQ(late.error().code, Code::kOverloaded);
}

TEST_F(SnapshotFetcherTest, SeveralGenerationsAreFollowedInARow) {
  ExpectTheNewest();
  const std::uint64_t whole = coordinator_->snapshot_bytes();
  for (std::uint64_t generation = 2; generation <= 5; ++generation) {
    link_->Put("d3/new" + std::to_string(generation), generation);
    Publish(generation);
  }
  ExpectTheNewest();
  EXPECT_EQ(Count(SnapshotWay::kDifference), 1u);
  EXPECT_LT(coordinator_->snapshot_bytes() - whole, 1'600u);
}

TEST_F(SnapshotFetcherTest, WithoutADifferenceTheWholeListingIsFetched) {
  ExpectTheNewest();
  link_->Put("d3/new", 5);
  Publish(2);
  state_.mutable_generation()->clear_deltas();
  coordinator_->SetLink(state_, file_);
  ExpectTheNewest();
  EXPECT_EQ(Count(SnapshotWay::kNotOffered), 1u);
}

TEST_F(SnapshotFetcherTest, AListingThatWouldTakeTooMuchMemoryToFollowIsFetchedWhole) {
  ExpectTheNewest();
  link_->Put("d3/new", 5);
  Publish(2);
  const auto needed_for_the_last = [this] {
    const proto::GenerationInfo& now = state_.generation();
    return MemoryToMerge({.objects = now.objects(),
                          .hidden_keys = now.hidden_keys(),
                          .file_bytes = now.snapshot_bytes()},
                         now.deltas(now.deltas_size() - 1).bytes());
  };
  const std::uint64_t needed = needed_for_the_last();
  merge_bytes_ = needed - 1;
  ExpectTheNewest();
  EXPECT_EQ(Count(SnapshotWay::kTooLarge), 1u);
  link_->Put("d3/new", 6);
  Publish(3);
  merge_bytes_ = needed_for_the_last();
  ExpectTheNewest();
  EXPECT_EQ(Count(SnapshotWay::kDifference), 1u);
  EXPECT_GT(MemoryToMerge({.objects = std::numeric_limits<std::uint64_t>::max()}, 0), 1ULL << 45);
  EXPECT_GT(MemoryToMerge({.hidden_keys = 1'000'000, .file_bytes = 1 << 29}, 0), 500'000'000U)
      << "a listing that nothing is shown of";
  const ListingSize lined{.objects = 660'000, .file_bytes = 310 << 20, .line_bytes = 270 << 20};
  EXPECT_GT(MemoryToMerge(lined, 0), 200'000'000U) << "lines that are as short as they can be";
  EXPECT_LT(MemoryToMerge(lined, 1'000), 512U << 20) << "the largest manifest, by default";
}

TEST_F(SnapshotFetcherTest, ADifferenceThatIsGoneOrWrongIsReplacedByTheWholeListing) {
  ExpectTheNewest();
  link_->Put("d3/new", 5);
  Publish(2);
  proto::GenerationDelta& delta = *state_.mutable_generation()->mutable_deltas(0);
  coordinator_->SetDelta(1, 2, std::string(delta.bytes(), 'x'));
  ExpectTheNewest();
  EXPECT_EQ(Count(SnapshotWay::kWrong), 1u);
  link_->Put("d3/new", 6);
  Publish(3);
  state_.mutable_generation()->mutable_deltas(1)->set_after(99);
  state_.mutable_generation()->mutable_deltas(1)->set_before(98);
  proto::GenerationDelta& other = *state_.mutable_generation()->add_deltas();
  other.set_before(2);
  other.set_after(3);
  other.set_bytes(100);
  coordinator_->SetLink(state_, file_);
  coordinator_->SetDelta(2, 3, "");
  ExpectTheNewest();
  EXPECT_EQ(Count(SnapshotWay::kDifference), 0u);
  EXPECT_EQ(Count(SnapshotWay::kWrong), 2u);
}

TEST_F(SnapshotFetcherTest, ADamagedCopyIsNoGroundForADifference) {
  ExpectTheNewest();
  const std::string folder =
      (dir_ / "state/") + coordinator_->cluster().ToString() + "/" + link_->id().ToString();
  std::string bytes = ReadWholeFile(folder + "/1.fbs").value();
  bytes[bytes.size() / 2] ^= 1;
  ASSERT_TRUE(WriteFileAtomically(folder + "/1.fbs", bytes));
  link_->Put("d3/new", 5);
  Publish(2);
  ExpectTheNewest();
  EXPECT_EQ(Count(SnapshotWay::kDifference), 0u);
}

TEST_F(SnapshotFetcherTest, ACopyThatIsCutShortIsNoneEither) {
  ExpectTheNewest();
  const std::string file = (dir_ / "state/") + coordinator_->cluster().ToString() + "/" +
                           link_->id().ToString() + "/1.fbs";
  ASSERT_TRUE(WriteFileAtomically(file, ReadWholeFile(file).value().substr(0, 100)));
  link_->Put("d3/new", 5);
  Publish(2);
  ExpectTheNewest();
  EXPECT_EQ(Count(SnapshotWay::kWrong), 1u);
}

TEST_F(SnapshotFetcherTest, ALargeListingComesFromTheNodes) {
  with_nodes_ = true;
  ExpectTheNewest();
  EXPECT_EQ(coordinator_->snapshot_bytes(), 0u);
  EXPECT_EQ(counts_.node_bytes, file_.size());
  // Under the link's system link, and as the version that a node finds it to be.
  LinkSpec spec;
  spec.id = link_->id();
  const LinkSpec system = SystemLinkOf(spec);
  EXPECT_EQ(nodes_.last.link, system.id);
  EXPECT_EQ(nodes_.last.object.key, "1.fbs");
  EXPECT_EQ(VersionOf(system, nodes_.last.object.key, nodes_.last.object.etag, file_.size()),
            nodes_.last.block.version);
}

TEST_F(SnapshotFetcherTest, FourPiecesOfALargeListingAreOnTheirWayAtATime) {
  Link(450'000);
  ASSERT_GT(file_.size(), 4 * SystemLinkOf(LinkSpec{}).block_bytes);
  with_nodes_ = true;
  nodes_.awaited = 4;
  ExpectTheNewest();
  EXPECT_EQ(nodes_.most_running, 4);
  EXPECT_EQ(counts_.node_bytes, file_.size());
}

TEST_F(SnapshotFetcherTest, ALargeListingComesWholeFromACoordinatorAndOfNodesThatGiveItUp) {
  Link(450'000);
  ExpectTheNewest();
  EXPECT_EQ(counts_.coordinator_bytes, file_.size());
  std::filesystem::remove_all(dir_ / "state");
  with_nodes_ = true;
  nodes_.fails = true;
  ExpectTheNewest();
  EXPECT_LE(nodes_.reads, 4);
  EXPECT_EQ(counts_.coordinator_bytes, 2 * file_.size());
}

TEST_F(SnapshotFetcherTest, AFirstListingThatAPowerCutHasTakenIsFetchedAgain) {
  ExpectTheNewest();
  const std::string folder =
      (dir_ / "state/") + coordinator_->cluster().ToString() + "/" + link_->id().ToString();
  for (const std::uint64_t left : {file_.size() / 2, std::size_t{0}}) {
    std::filesystem::resize_file(folder + "/1.fbs", left);
    ExpectTheNewest();
  }
  EXPECT_EQ(Count(SnapshotWay::kFirst) + Count(SnapshotWay::kNotOffered), 3u);
}

TEST_F(SnapshotFetcherTest, ASmallDifferenceComesFromTheCoordinator) {
  with_nodes_ = true;
  ExpectTheNewest();
  const int reads = nodes_.reads;
  link_->Put("d3/new", 5);
  Publish(2);
  ExpectTheNewest();
  EXPECT_EQ(nodes_.reads, reads);
  EXPECT_GT(coordinator_->snapshot_bytes(), 0u);
}

TEST_F(SnapshotFetcherTest, WhatNoNodeGivesComesFromTheCoordinator) {
  with_nodes_ = true;
  nodes_.fails = true;
  ExpectTheNewest();
  EXPECT_EQ(nodes_.reads, 1);
  EXPECT_EQ(counts_.coordinator_bytes, file_.size());
}

TEST_F(SnapshotFetcherTest, WrongBytesOfNodesAreFetchedFromTheCoordinator) {
  with_nodes_ = true;
  nodes_.lies = true;
  ExpectTheNewest();
  EXPECT_EQ(counts_.coordinator_bytes, file_.size());
}

}  // namespace
}  // namespace forebay
