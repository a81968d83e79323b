#include "cachenode/cluster_view.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/base/files.h"
#include "common/model/system_link.h"
#include "tests/fakes/temp_dir.h"
#include "tests/unit/cachenode/reader_rig.h"

namespace forebay {
namespace {

RingTable TableOf(std::uint64_t epoch, const std::string& address = "127.0.0.1:1") {
  NodeInfo node;
  node.id = "n1";
  node.address = address;
  node.capacity_bytes = 1 << 30;
  RingTable table;
  while (table.epoch() < epoch) table = RingTable::Next(table, {node}, 0);
  return table;
}

class ClusterViewTest : public ::testing::Test {
 protected:
  fakes::TempDir dir_;
  const std::string file_ = dir_ / "cluster_state";
};

TEST_F(ClusterViewTest, ARestartKnowsWhatWasKnown) {
  const Uuid cluster = Uuid::Random();
  LinkSpec link = TestLink();
  link.origin.prefix = "data/\xFF/";
  const Fence newest{.epoch = 7, .claim = Uuid::Random()};
  {
    ClusterView view;
    ASSERT_TRUE(view.KeepIn({file_}).has_value()) << "no file yet is no error";
    EXPECT_TRUE(view.cluster().IsZero());
    view.SetCluster(cluster);
    view.SetLinks({link}, 5);
    view.OfferRing(TableOf(3));
    ASSERT_TRUE(view.Believe(newest));
    view.SetLeases({{link.id, 12.5}});
    ASSERT_TRUE(view.Keep().has_value());
  }
  ClusterView view;
  ASSERT_TRUE(view.KeepIn({file_}).has_value());
  EXPECT_EQ(view.cluster(), cluster);
  ASSERT_NE(view.FindLink(link.id), nullptr);
  EXPECT_EQ(*view.FindLink(link.id), link);
  EXPECT_EQ(view.links_version(), 5u);
  EXPECT_EQ(view.ring_epoch(), 3u);
  EXPECT_EQ(view.ring()->nodes().size(), 1u);
  const Fence heard{
      .epoch = newest.epoch, .claim = newest.claim, .state = StateVersion{.links = 5, .ring = 3}};
  EXPECT_EQ(view.fence(), heard);
  EXPECT_EQ(view.leases(), (std::vector<RequestLease>{{link.id, 12.5}}));
}

TEST_F(ClusterViewTest, TheNewestCoordinatorAloneIsBelieved) {
  ClusterView view;
  const Fence first{.epoch = 5, .claim = Uuid::Random()};
  const Fence twin{.epoch = 5, .claim = Uuid::Random()};
  const Fence next{.epoch = 6, .claim = Uuid::Random()};
  EXPECT_TRUE(view.Believe(first));
  EXPECT_TRUE(view.Believe(first));
  EXPECT_FALSE(view.Believe(twin)) << "from a copy of the same state";
  EXPECT_FALSE(view.Believe({.epoch = 4, .claim = first.claim}));
  EXPECT_TRUE(view.Believe(next));
  EXPECT_FALSE(view.Believe(first));
  EXPECT_EQ(view.fence().epoch, next.epoch);
  EXPECT_EQ(view.fence().claim, next.claim);
}

TEST_F(ClusterViewTest, ALaterCoordinatorIsBelievedIfItBeganWithWhatIsKnown) {
  ClusterView view;
  ASSERT_TRUE(view.Believe({.epoch = 5, .claim = Uuid::Random(), .state = StateVersion{1, 2}}));
  view.SetLinks({TestLink()}, 4);
  view.OfferRing(TableOf(3));
  EXPECT_FALSE(view.Believe({.epoch = 6, .claim = Uuid::Random(), .state = StateVersion{3, 3}}));
  EXPECT_FALSE(view.Believe({.epoch = 6, .claim = Uuid::Random(), .state = StateVersion{4, 2}}));
  EXPECT_TRUE(view.Believe({.epoch = 6, .claim = Uuid::Random(), .state = StateVersion{4, 3}}));
}

TEST_F(ClusterViewTest, WhicheverDiskIsLostTheOthersKnow) {
  const std::vector<std::string> files{dir_ / "a", dir_ / "b", dir_ / "c"};
  const Uuid cluster = Uuid::Random();
  {
    ClusterView view;
    ASSERT_TRUE(view.KeepIn(files).has_value());
    view.SetCluster(cluster);
    view.SetLinks({TestLink()}, 1);
    ASSERT_TRUE(view.Keep().has_value());
    // One is away when the next change comes, and nothing can be written there.
    std::filesystem::remove(files[0]);
    std::filesystem::create_directories(std::filesystem::path(files[0]) / "in the way");
    view.SetLinks({TestLink()}, 2);
    ASSERT_TRUE(view.Keep().has_value());
  }
  std::filesystem::remove_all(files[0]);
  ASSERT_TRUE(WriteFileAtomically(files[1], "what is this").has_value());
  ClusterView view;
  ASSERT_TRUE(view.KeepIn(files).has_value());
  EXPECT_EQ(view.cluster(), cluster);
  EXPECT_EQ(view.links_version(), 2u);
  ASSERT_TRUE(view.Keep().has_value());
  view.SetLinks({TestLink()}, 3);
  std::filesystem::copy_file(files[0], dir_ / "older");
  ASSERT_TRUE(view.Keep().has_value());
  std::filesystem::rename(dir_ / "older", files[0]);
  ClusterView newest;
  ASSERT_TRUE(newest.KeepIn(files).has_value());
  EXPECT_EQ(newest.links_version(), 3u) << "and not what the first one has";
  // With the same links the later ring counts, and a disk of another cluster not at all.
  std::filesystem::copy_file(files[1], dir_ / "older");
  newest.OfferRing(TableOf(4));
  ASSERT_TRUE(newest.Keep().has_value());
  std::filesystem::rename(dir_ / "older", files[1]);
  ClusterView other;
  ASSERT_TRUE(other.KeepIn({files[2]}).has_value());
  other.SetCluster(Uuid::Random());
  other.SetLinks({}, 99);
  ASSERT_TRUE(other.Keep().has_value());
  ClusterView mine;
  ASSERT_TRUE(mine.KeepIn(files).has_value());
  EXPECT_EQ(mine.cluster(), cluster);
  EXPECT_EQ(mine.ring_epoch(), 4u);
  EXPECT_EQ(mine.links_version(), 3u);
}

TEST_F(ClusterViewTest, ADamagedFileIsToldAndNothingOfItIsTaken) {
  ClusterView good;
  ASSERT_TRUE(good.KeepIn({file_}).has_value());
  good.SetCluster(Uuid::Random());
  good.SetLinks({TestLink()}, 5);
  good.OfferRing(TableOf(1));
  ASSERT_TRUE(good.Keep().has_value());
  const Result<std::string> bytes = ReadWholeFile(file_);
  ASSERT_TRUE(bytes.has_value());
  for (std::size_t size = 1; size < bytes->size(); size = size * 3 / 2 + 1) {
    ASSERT_TRUE(WriteFileAtomically(file_, bytes->substr(0, size)).has_value());
    ClusterView view;
    const Status loaded = view.KeepIn({file_});
    ASSERT_FALSE(loaded.has_value()) << "the first " << size << " bytes";
    EXPECT_EQ(loaded.error().code, Code::kCorrupt);
    EXPECT_TRUE(view.cluster().IsZero());
    EXPECT_EQ(view.links_version(), 0u);
    EXPECT_EQ(view.ring_epoch(), 0u);
  }
}

TEST_F(ClusterViewTest, TheNextKeepReplacesADamagedFile) {
  ASSERT_TRUE(WriteFileAtomically(file_, "what is this").has_value());
  const Uuid cluster = Uuid::Random();
  ClusterView view;
  EXPECT_FALSE(view.KeepIn({file_}).has_value());
  view.SetCluster(cluster);
  ASSERT_TRUE(view.Keep().has_value());
  ClusterView again;
  ASSERT_TRUE(again.KeepIn({file_}).has_value());
  EXPECT_EQ(again.cluster(), cluster);
}

TEST_F(ClusterViewTest, AnOlderRingTableIsIgnored) {
  ClusterView view;
  view.OfferRing(TableOf(3));
  view.OfferRing(TableOf(2));
  EXPECT_EQ(view.ring_epoch(), 3u);
  EXPECT_EQ(view.ring()->epoch(), 3u);
}

TEST_F(ClusterViewTest, TheSameEpochBringsNewAddresses) {
  ClusterView view;
  view.OfferRing(TableOf(3));
  view.OfferRing(TableOf(3, "127.0.0.1:2"));
  EXPECT_EQ(view.ring()->nodes().front().address, "127.0.0.1:2");
}

TEST_F(ClusterViewTest, LinksAreReplacedAsAWhole) {
  const LinkSpec old = TestLink();
  const LinkSpec fresh = TestLink();
  ClusterView view;
  view.SetLinks({old}, 1);
  const std::shared_ptr<const LinkSpec> held = view.FindLink(old.id);
  view.SetLinks({fresh}, 2);
  EXPECT_EQ(view.FindLink(old.id), nullptr);
  EXPECT_NE(view.FindLink(fresh.id), nullptr);
  EXPECT_EQ(*held, old) << "who holds a link keeps it";
}

TEST_F(ClusterViewTest, EachLinkBringsTheOneThatCarriesItsListings) {
  const LinkSpec link = TestLink();
  {
    ClusterView view;
    ASSERT_TRUE(view.KeepIn({file_}).has_value());
    view.SetLinks({link}, 1);
    ASSERT_NE(view.FindLink(SystemLinkId(link.id)), nullptr);
    EXPECT_EQ(*view.FindLink(SystemLinkId(link.id)), SystemLinkOf(link));
    ASSERT_TRUE(view.Keep().has_value());
  }
  ClusterView view;
  ASSERT_TRUE(view.KeepIn({file_}).has_value());
  EXPECT_NE(view.FindLink(SystemLinkId(link.id)), nullptr);
  EXPECT_EQ(view.AllLinks().size(), 2u);
  view.SetLinks({}, 2);
  EXPECT_EQ(view.FindLink(SystemLinkId(link.id)), nullptr);
}

TEST_F(ClusterViewTest, AChangeThatCannotBeWrittenHoldsAllTheSame) {
  ClusterView view;
  ASSERT_TRUE(view.KeepIn({dir_ / "no such folder/cluster_state"}).has_value());
  const LinkSpec link = TestLink();
  view.SetLinks({link}, 1);
  EXPECT_FALSE(view.Keep().has_value());
  EXPECT_NE(view.FindLink(link.id), nullptr);
}

// However many ask for the table and do not take it, there is one copy of it.
TEST_F(ClusterViewTest, AllWhoAskForTheTableShareItsBytes) {
  ClusterView view;
  view.OfferRing(TableOf(3));
  const RingBytes first = view.ring_bytes();
  EXPECT_EQ(first.epoch, 3u);
  EXPECT_EQ(view.ring_bytes().bytes.bytes.data(), first.bytes.bytes.data());
  const auto parsed = [](const RingBytes& table) {
    return RingTable::Parse(std::string_view(
        reinterpret_cast<const char*>(table.bytes.bytes.data()), table.bytes.bytes.size()));
  };
  for (const auto& [epoch, address] : {std::pair(3, "127.0.0.1:2"), std::pair(4, "127.0.0.1:2")}) {
    view.OfferRing(TableOf(static_cast<std::uint64_t>(epoch), address));
    const Result<RingTable> table = parsed(view.ring_bytes());
    ASSERT_TRUE(table.has_value()) << table.error().message;
    EXPECT_EQ(table->epoch(), static_cast<std::uint64_t>(epoch));
    EXPECT_EQ(table->nodes().front().address, address) << "of the same epoch too";
  }
  EXPECT_TRUE(parsed(first).has_value()) << "whoever still sends it has it whole";
}

}  // namespace
}  // namespace forebay
