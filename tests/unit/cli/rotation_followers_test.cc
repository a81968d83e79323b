#include "cli/rotation_followers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/fakes/test_cluster.h"

namespace forebay {
namespace {

using testing::HasSubstr;

class Followers : public testing::Test {
 protected:
  Followers() { Say({0, 1}); }

  void Say(const std::vector<std::size_t>& authorities) {
    reply_.clear_authorities();
    for (const std::size_t i : authorities) reply_.add_authorities(believed_[i].KeyHash());
  }
  Result<std::string> Check(Rotation step) const {
    return CheckFollowers(reply_, step, believed_, believed_.front());
  }

  const TestCluster old_;
  const TestCluster next_;
  const std::vector<Certificate> believed_{old_.authority().certificate(),
                                           next_.authority().certificate()};
  proto::ListMembersReply reply_;
};

TEST_F(Followers, EachStepWaitsForWhatItNeeds) {
  EXPECT_EQ(Check(Rotation::kSwitched), "");
  reply_.mutable_unaware()->add_running("node n1");
  reply_.mutable_unaware()->set_all_running(1);
  EXPECT_THAT(Check(Rotation::kSwitched).error().message, HasSubstr("node n1."));
  EXPECT_EQ(Check(Rotation::kEnded), "");
  reply_.clear_unaware();
  reply_.mutable_unrenewed()->add_running("client m1");
  reply_.mutable_unrenewed()->set_all_running(1);
  EXPECT_EQ(Check(Rotation::kSwitched), "");
  EXPECT_THAT(Check(Rotation::kEnded).error().message, HasSubstr("client m1."));
}

TEST_F(Followers, WhoIsAwayIsNamedSomeOfMany) {
  for (int i = 0; i < 7; ++i) reply_.mutable_unaware()->add_away("client m" + std::to_string(i));
  reply_.mutable_unaware()->set_all_away(1000);
  EXPECT_EQ(Check(Rotation::kSwitched),
            "client m0, client m1, client m2, client m3, client m4 and 995 more");
}

TEST_F(Followers, ACoordinatorThatIsBehindOrNewKnowsNothing) {
  reply_.set_settles_in_s(10);
  EXPECT_THAT(Check(Rotation::kSwitched).error().message, HasSubstr("try again in 10 s"));
  reply_.set_settles_in_s(0);
  Say({1, 0});
  EXPECT_THAT(Check(Rotation::kEnded).error().message, HasSubstr("copy this folder's"))
      << "there the other one issues";
  Say({0});
  EXPECT_THAT(Check(Rotation::kSwitched).error().message, HasSubstr("copy this folder's"));
  Say({});
  EXPECT_THAT(Check(Rotation::kSwitched).error().message, HasSubstr("earlier release"));
}

}  // namespace
}  // namespace forebay
