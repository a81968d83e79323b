#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/model/disk_state.h"
#include "coordinator/stats.h"

namespace forebay {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Property;

class AlertsTest : public ::testing::Test {
 protected:
  AlertsTest() { reply_.add_nodes()->mutable_info()->set_id("n1"); }

  proto::NodeStats& node() { return *reply_.mutable_nodes(0); }
  std::vector<proto::Alert> Alerts() const { return ClusterAlerts(reply_, members_, {}, kNow); }
  MemberView& Member(const std::string& id, NodeState state = NodeState::kUp) {
    MemberView& member = members_.emplace_back();
    member.info.id = id;
    member.info.address = "10.0.0." + id.substr(1) + ":7441";
    member.info.state = state;
    return member;
  }

  static constexpr std::int64_t kNow = 1'767'323'000;
  proto::StatsReply reply_;
  std::vector<MemberView> members_;
};

TEST_F(AlertsTest, AHealthyNodeHasNone) {
  node().add_disks()->set_path("/a");
  EXPECT_THAT(Alerts(), IsEmpty());
}

TEST_F(AlertsTest, ADiskThatTheNodeRunsWithoutComesWithBothWaysOut) {
  proto::DiskReport& disk = *node().add_disks();
  disk.set_path("/mnt/a");
  disk.set_state(static_cast<std::uint32_t>(DiskState::kMissing));
  const std::vector<proto::Alert> alerts = Alerts();
  ASSERT_THAT(alerts, ElementsAre(Property(&proto::Alert::name, "disk_missing")));
  EXPECT_THAT(alerts[0].message(), HasSubstr("node n1 runs without its disk /mnt/a"));
  EXPECT_THAT(alerts[0].action(), HasSubstr("mount the disk and restart forebay-node"));
  EXPECT_THAT(alerts[0].action(), HasSubstr("--accept-new-disk /mnt/a"));
}

TEST_F(AlertsTest, OfARevokedNodeItIsSaidAndWhatBringsItBack) {
  MemberView& member = Member("n1", NodeState::kSuspect);
  member.silence = std::chrono::seconds(7);
  ASSERT_THAT(Alerts(), ElementsAre(Property(&proto::Alert::name, "node_suspect")));
  EXPECT_THAT(Alerts()[0].action(), HasSubstr("look whether forebay-node runs"));
  member.revoked = true;
  EXPECT_THAT(Alerts()[0].message(), HasSubstr("was revoked (`forebay member revoke`) and has been "
                                               "silent for 7 s"));
  EXPECT_THAT(Alerts()[0].action(), HasSubstr("forebay token create --role node"));
  member.info.state = NodeState::kOut;
  ASSERT_THAT(Alerts(), ElementsAre(Property(&proto::Alert::name, "node_out")));
  EXPECT_THAT(Alerts()[0].message(), HasSubstr("was revoked"));
  EXPECT_THAT(Alerts()[0].action(), HasSubstr("`forebay node remove n1`"));
}

TEST_F(AlertsTest, NodesThatNameOneAddressAreNamedWhileTheyAreUp) {
  Member("n1");
  Member("n2");
  EXPECT_THAT(Alerts(), IsEmpty());
  for (const char* id : {"n3", "n4", "n5", "n6"}) Member(id).info.address = "10.0.0.2:7441";
  const std::vector<proto::Alert> alerts = Alerts();
  ASSERT_THAT(alerts, ElementsAre(Property(&proto::Alert::name, "address_shared")));
  EXPECT_THAT(alerts[0].message(),
              HasSubstr("n2, n3, n4 and 2 more all say that 10.0.0.2:7441 is their address"));
  for (std::size_t i = 2; i < members_.size(); ++i) {
    members_[i].info.state = NodeState::kOut;
    members_[i].dismissal = Dismissal::kRemoved;
  }
  EXPECT_THAT(Alerts(), IsEmpty()) << "its machine has another name now";
}

TEST_F(AlertsTest, AKillForWantOfMemoryIsToldForAnHour) {
  node().set_last_end(2);
  node().set_running_s(600);
  const std::vector<proto::Alert> alerts = Alerts();
  ASSERT_THAT(alerts, ElementsAre(Property(&proto::Alert::name, "node_out_of_memory")));
  EXPECT_EQ(alerts[0].since_unix_s(), kNow - 600);
  EXPECT_THAT(alerts[0].action(), HasSubstr("--memory-limit"));
  node().set_running_s(3600);
  EXPECT_THAT(Alerts(), IsEmpty());
  node().set_running_s(1);
  node().set_last_end(1);
  EXPECT_THAT(Alerts(), IsEmpty()) << "who killed it knows";
}

TEST_F(AlertsTest, APlaceThatS3DoesNotAnswerForIsNamedOnceWithAllThatWait) {
  const auto waits = [](proto::NodeStats& of, std::uint64_t ms, std::uint64_t calls) {
    proto::S3Wait& wait = *of.add_s3_waits();
    wait.set_bucket("data");
    wait.set_prefix("train/");
    wait.set_longest_ms(ms);
    wait.set_calls(calls);
    wait.set_why("no answer within 5 s");
  };
  waits(node(), 9'999, 7);
  EXPECT_THAT(Alerts(), IsEmpty()) << "it may just be slow";
  waits(node(), 12'000, 3);
  proto::NodeStats& other = *reply_.add_nodes();
  other.mutable_info()->set_id("n2");
  waits(other, 23'400, 1);
  const std::vector<proto::Alert> alerts = Alerts();
  ASSERT_THAT(alerts, ElementsAre(Property(&proto::Alert::name, "s3_unanswered")));
  EXPECT_EQ(alerts[0].since_unix_s(), kNow - 23);
  EXPECT_THAT(alerts[0].message(),
              HasSubstr("s3://data/train/ leaves 4 requests of n1, n2 without an answer, since 23 "
                        "s: no answer within 5 s"));
  for (int i = 0; i < reply_.nodes_size(); ++i)
    reply_.mutable_nodes(i)->set_last_heartbeat_age_ms(6'000);
  EXPECT_THAT(Alerts(), IsEmpty()) << "what they said last is old";
}

// Its readers see no error where the next owner may ask S3.
TEST_F(AlertsTest, ANodeThatS3RefusesIsNamedWithTheLinkAndTheReason) {
  proto::S3Refusal& refusal = *node().add_s3_refusals();
  refusal.set_link("imagenet");
  refusal.set_why("S3 answered 403 RequestTimeTooSkewed");
  refusal.set_calls(7);
  refusal.set_since_ms(12'400);
  const std::vector<proto::Alert> alerts = Alerts();
  ASSERT_THAT(alerts, ElementsAre(Property(&proto::Alert::name, "s3_refused")));
  EXPECT_EQ(alerts[0].since_unix_s(), kNow - 12);
  EXPECT_EQ(alerts[0].message(),
            "S3 refuses what node n1 asks of link 'imagenet', 7 requests one after the other since "
            "12 s: S3 answered 403 RequestTimeTooSkewed");
  for (const char* id : {"n2", "n3", "n4", "n5"}) {
    proto::NodeStats& other = *reply_.add_nodes();
    other.mutable_info()->set_id(id);
    *other.add_s3_refusals() = refusal;
  }
  ASSERT_EQ(Alerts().size(), 1u) << "of a link, however many nodes there are";
  EXPECT_THAT(Alerts()[0].message(),
              HasSubstr("nodes n1, n2, n3 and 2 more ask of link 'imagenet', "
                        "35 requests"));
  for (int i = 0; i < reply_.nodes_size(); ++i)
    reply_.mutable_nodes(i)->set_last_heartbeat_age_ms(6'000);
  EXPECT_THAT(Alerts(), IsEmpty()) << "what it said last is old";
}

TEST_F(AlertsTest, ASlowNodeIsNamedWithHowManyMountsFoundItSlow) {
  node().set_slow_mounts(3);
  const std::vector<proto::Alert> alerts = Alerts();
  ASSERT_THAT(alerts, ElementsAre(Property(&proto::Alert::name, "node_slow")));
  EXPECT_THAT(alerts[0].message(), HasSubstr("node n1 answers 3 mounts several times slower"));
}

TEST_F(AlertsTest, AWrongClockIsNamedWithWhichWayAndSinceWhen) {
  node().set_clock_known(true);
  node().set_clock_ahead_ms(-3'600'000);
  EXPECT_THAT(Alerts(), IsEmpty()) << "the coordinator's watch says when it is wrong";
  node().set_clock_wrong_s(20);
  const std::vector<proto::Alert> alerts = Alerts();
  ASSERT_THAT(alerts, ElementsAre(Property(&proto::Alert::name, "clock_wrong")));
  EXPECT_EQ(alerts[0].since_unix_s(), kNow - 20);
  EXPECT_THAT(alerts[0].message(), HasSubstr("the clock of node n1 is 60 min behind the coord"));
  EXPECT_THAT(alerts[0].action(), HasSubstr("set the clock of n1"));
}

TEST_F(AlertsTest, BlocksThatANodeCrashedOnAreToldAsLongAsTheyAreSetAside) {
  node().set_blocks_set_aside(2);
  const std::vector<proto::Alert> alerts = Alerts();
  ASSERT_THAT(alerts, ElementsAre(Property(&proto::Alert::name, "blocks_set_aside")));
  EXPECT_THAT(alerts[0].message(), HasSubstr("node n1 keeps 2 blocks out of its cache"));
  EXPECT_THAT(alerts[0].action(), HasSubstr("forebay evict"));
}

}  // namespace
}  // namespace forebay
