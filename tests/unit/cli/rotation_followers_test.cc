#include "cli/rotation_followers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/fakes/test_cluster.h"

namespace forebay {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class Followers : public testing::Test {
 protected:
  static constexpr std::int64_t kNow = 10'000;

  Followers() {
    for (const Certificate& each : believed_) reply_.add_authorities(each.KeyHash());
    reply_.set_since_unix_s(kNow - 3600);
    reply_.set_now_unix_s(kNow);
  }

  proto::MemberState& Add(const std::string& role, const std::string& id, std::int64_t ago) {
    proto::MemberState& member = *reply_.add_members();
    member.set_role(role);
    member.set_id(id);
    member.set_seen_unix_s(kNow - ago);
    return member;
  }
  Result<std::vector<std::string>> Check(Rotation step) const {
    return CheckFollowers(reply_, step, believed_);
  }

  const TestCluster old_;
  const TestCluster next_;
  const std::vector<Certificate> believed_{old_.authority().certificate(),
                                           next_.authority().certificate()};
  proto::ListMembersReply reply_;
};

TEST_F(Followers, EachStepWaitsForWhatItNeeds) {
  proto::MemberState& node = Add("node", "n1", 3);
  Add("client", "m1", 4).set_follows(true);
  EXPECT_THAT(Check(Rotation::kSwitched).error().message, HasSubstr("node n1."));
  node.set_follows(true);
  EXPECT_THAT(Check(Rotation::kSwitched).value(), IsEmpty());
  EXPECT_THAT(Check(Rotation::kEnded).error().message, HasSubstr("node n1, client m1."));
  for (proto::MemberState& each : *reply_.mutable_members()) each.set_renewed(true);
  EXPECT_THAT(Check(Rotation::kEnded).value(), IsEmpty());
}

TEST_F(Followers, WhoIsAwayIsNamedAndNotWaitedFor) {
  Add("node", "n1", 600);
  Add("client", "m1", 599);
  EXPECT_THAT(Check(Rotation::kSwitched).error().message, HasSubstr("client m1."));
  reply_.mutable_members()->RemoveLast();
  Add("admin", "ann", 1);
  Add("viewer", "bob", 1);
  Add("node", "gone", 5).set_revoked_unix_s(kNow - 5);
  Add("node", "joined", kNow);
  EXPECT_THAT(Check(Rotation::kSwitched).value(),
              ElementsAre("node n1", "admin ann", "viewer bob", "node joined"));
}

TEST_F(Followers, OfManySomeAreNamed) {
  for (int i = 0; i < 10; ++i) Add("client", "m" + std::to_string(i), 3);
  EXPECT_THAT(Check(Rotation::kEnded).error().message,
              HasSubstr("client m0, client m1, client m2 and 7 more."));
}

TEST_F(Followers, ACoordinatorThatIsBehindOrNewKnowsNothing) {
  Add("node", "n1", 3).set_follows(true);
  reply_.set_since_unix_s(kNow - 5);
  EXPECT_THAT(Check(Rotation::kSwitched).error().message, HasSubstr("try again in 10 s"));
  reply_.set_since_unix_s(kNow - 15);
  EXPECT_TRUE(Check(Rotation::kSwitched).has_value());
  reply_.mutable_authorities()->RemoveLast();
  EXPECT_THAT(Check(Rotation::kSwitched).error().message, HasSubstr("copy this folder's"));
  reply_.clear_authorities();
  EXPECT_THAT(Check(Rotation::kSwitched).error().message, HasSubstr("earlier release"));
}

}  // namespace
}  // namespace forebay
