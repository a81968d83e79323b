// A coordinator's state in a file, and a new coordinator that goes on from it.
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "common/wire/messages.h"
#include "tests/component/coordinator/cluster_fixture.h"

namespace forebay {
namespace {

class BackupTest : public ClusterTest {
 protected:
  void SetUp() override {
    for (int i = 0; i < 40; ++i) store.Put("p/f" + std::to_string(i), 100);
  }
};

TEST_F(BackupTest, ANewCoordinatorGoesOnFromIt) {
  StartCoordinator();
  MakeLink("l", "p/");
  const proto::LinkState before = *GetLink("l");
  const Uuid cluster = coordinator->cluster();
  const std::string bytes = Backup();
  MakeLink("later", "p/");
  StopCoordinator();

  state_name = "fresh";
  begun_again = 0;
  StartCoordinator();
  EXPECT_NE(coordinator->cluster(), cluster);
  const auto restored = Restore(bytes);
  ASSERT_TRUE(restored.has_value()) << restored.error().message;
  EXPECT_EQ(restored->links(), 1u);
  EXPECT_EQ(UuidFromBytes(restored->cluster()), cluster);
  // This one has another state in its memory: it answers nothing and writes nothing any more.
  EXPECT_EQ(begun_again, 1);
  const auto refused = GetLink("l");
  ASSERT_FALSE(refused.has_value());
  EXPECT_NE(refused.error().message.find("begins again"), std::string::npos);
  StopCoordinator();
  StartCoordinator();
  EXPECT_EQ(coordinator->cluster(), cluster);
  const Deadline deadline = Deadline::After(std::chrono::seconds(30));
  Result<proto::LinkState> link = GetLink("l");
  while (link && !link->has_generation() && !deadline.Expired()) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    link = GetLink("l");
  }
  ASSERT_TRUE(link && link->has_generation());
  EXPECT_EQ(link->spec().id(), before.spec().id());
  EXPECT_EQ(link->spec().domain(), before.spec().domain());
  EXPECT_EQ(link->generation().objects(), before.generation().objects());
  // A mount may hold a listing of the lost coordinator under any of its numbers.
  EXPECT_GT(link->generation().generation(), std::uint64_t{1} << 30);
  EXPECT_FALSE(GetLink("later").has_value());
}

TEST_F(BackupTest, ACoordinatorWithLinksRefusesItAndGoesOn) {
  StartCoordinator();
  MakeLink("l", "p/");
  const std::string bytes = Backup();
  const auto refused = Restore(bytes);
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code, Code::kInvalid);
  EXPECT_NE(refused.error().message.find("state of its own"), std::string::npos);
  EXPECT_FALSE(Restore("no backup").has_value());
  EXPECT_EQ(begun_again, 0);
  EXPECT_TRUE(GetLink("l").has_value());
  MakeLink("m", "p/");
}

}  // namespace
}  // namespace forebay
