#include "fuse-client/ring_view.h"

#include <gtest/gtest.h>

#include <fstream>

#include "tests/component/fuse-client/client_fixture.h"
#include "tests/fakes/fake_coordinator.h"
#include "tests/fakes/fake_node.h"
#include "tests/fakes/temp_dir.h"

namespace forebay {
namespace {

using fakes::FakeCoordinator;
using fakes::FakeNode;

RingTable TableOf(const RingTable& old, std::vector<NodeInfo> members) {
  return RingTable::Next(old, std::move(members), 1'700'000'000);
}

NodeInfo Member(const std::string& id) {
  NodeInfo node;
  node.id = id;
  node.address = "127.0.0.1:1";
  node.capacity_bytes = 1 << 30;
  return node;
}

TEST(RingView, OnlyANewerTableIsTaken) {
  RingView view;
  const RingTable first = TableOf({}, {Member("a")});
  const RingTable second = TableOf(first, {Member("a"), Member("b")});
  view.Offer(second);
  view.Offer(first);
  EXPECT_EQ(view.epoch(), second.epoch());
  EXPECT_EQ(view.table()->nodes().size(), 2u);
}

TEST(RingView, TheTableSurvivesARestart) {
  const fakes::TempDir dir;
  const RingTable table = TableOf({}, {Member("a")});
  {
    RingView view;
    EXPECT_EQ(view.KeepIn(dir / "ring.bin").error().code, Code::kNotFound);
    view.Offer(table);
  }
  RingView view;
  EXPECT_TRUE(view.KeepIn(dir / "ring.bin"));
  EXPECT_EQ(view.epoch(), table.epoch());
}

TEST(RingView, ADamagedFileIsReplaced) {
  const fakes::TempDir dir;
  std::ofstream(dir / "ring.bin") << "not a ring";
  RingView view;
  view.Offer(TableOf({}, {Member("a")}));
  EXPECT_EQ(view.KeepIn(dir / "ring.bin").error().code, Code::kCorrupt);
  RingView next;
  EXPECT_TRUE(next.KeepIn(dir / "ring.bin"));
  EXPECT_EQ(next.epoch(), view.epoch());
}

class RefresherTest : public ClientFixture {};

TEST_F(RefresherTest, TheCoordinatorIsAskedFirst) {
  FakeCoordinator coordinator(kTestSecret);
  coordinator.SetRing(TableOf({}, {Member("a")}));
  MakeRefresher({coordinator.address()});
  Run(refresher_->Refresh(Deadline::After(std::chrono::seconds(10))));
  EXPECT_EQ(ring_.epoch(), 1u);
}

TEST_F(RefresherTest, WithoutACoordinatorAnyNodeWillDo) {
  FakeNode node("n1", kTestSecret);
  const RingTable first = TableOf({}, {Member("dead"), node.Info()});
  node.SetRing(TableOf(first, {node.Info()}));
  ring_.Offer(first);
  MakeRefresher({"127.0.0.1:1"});
  refresher_->Notice(2);
  EXPECT_TRUE(Eventually([this] { return ring_.epoch() == 2; }));
}

TEST_F(RefresherTest, AWaiterEndsEvenWhenNobodyHasATable) {
  MakeRefresher({"127.0.0.1:1"});
  const TimePoint begin = Clock::now();
  Run(refresher_->Refresh(Deadline::After(std::chrono::seconds(30))));
  EXPECT_LT(Clock::now() - begin, std::chrono::seconds(10));
  EXPECT_EQ(ring_.epoch(), 0u);
}

}  // namespace
}  // namespace forebay
