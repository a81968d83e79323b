#include "common/trust/rotation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "common/trust/renewal.h"
#include "tests/fakes/temp_dir.h"
#include "tests/fakes/test_cluster.h"

namespace forebay {
namespace {

using testing::HasSubstr;

class RotationTest : public testing::Test {
 protected:
  RotationTest() {
    EXPECT_TRUE(folder_.SaveAuthority(cluster_.authority()).has_value());
    EXPECT_TRUE(folder_.Save(cluster_.Member(proto::ROLE_COORDINATOR, "coordinator")).has_value());
  }

  std::vector<std::string> Believed() const {
    std::vector<std::string> hashes;
    for (const Certificate& each : folder_.LoadAuthorities().value())
      hashes.push_back(each.KeyHash());
    return hashes;
  }
  std::string Issuing() const { return folder_.LoadAuthority()->certificate().KeyHash(); }

  /// The coordinator renews its own, and that of an administrator there, as it does within seconds.
  void CoordinatorRenews(std::int64_t now, proto::Role role = proto::ROLE_COORDINATOR) const {
    MemberProof member = folder_.Load(role).value();
    member.certificate = folder_.LoadAuthority()
                             ->Issue(MakeRequest(member.key).value(), member.self,
                                     Validity::From(now, kMemberLifetime))
                             .value();
    ASSERT_TRUE(folder_.Save(member).has_value());
  }

  const std::int64_t now_ = UnixSeconds();
  const fakes::TempDir temp_;
  const TestCluster cluster_;
  const TrustFolder folder_{temp_ / "trust"};
  const std::string old_ = cluster_.authority().certificate().KeyHash();
};

TEST_F(RotationTest, TheNewOneIsBelievedThenIssuesThenStandsAlone) {
  ASSERT_EQ(RotateAuthority(folder_, now_), Rotation::kBegun);
  EXPECT_EQ(Issuing(), old_);
  ASSERT_EQ(Believed().size(), 2u);
  const std::string fresh = folder_.LoadNextAuthority()->certificate().KeyHash();
  ASSERT_EQ(RotateAuthority(folder_, now_ + 60), Rotation::kSwitched);
  EXPECT_EQ(Issuing(), fresh);
  EXPECT_EQ(Believed().size(), 2u);
  CoordinatorRenews(now_ + 60);
  ASSERT_EQ(RotateAuthority(folder_, now_ + 120), Rotation::kEnded);
  EXPECT_EQ(Believed(), std::vector<std::string>{fresh});
  EXPECT_TRUE(folder_.Load(proto::ROLE_COORDINATOR).has_value());
  EXPECT_FALSE(std::filesystem::exists(folder_.path() + "/ca.next.key"));
}

TEST_F(RotationTest, AStepThatComesTooEarlyChangesNothing) {
  ASSERT_EQ(RotateAuthority(folder_, now_), Rotation::kBegun);
  EXPECT_THAT(RotateAuthority(folder_, now_ + 29).error().message, HasSubstr("try again in 1 s"));
  EXPECT_EQ(Issuing(), old_);
  ASSERT_EQ(RotateAuthority(folder_, now_ + 60), Rotation::kSwitched);
  EXPECT_THAT(RotateAuthority(folder_, now_ + 180).error().message,
              HasSubstr("has not renewed its own"));
  CoordinatorRenews(now_ + 180);
  EXPECT_FALSE(RotateAuthority(folder_, now_ + 200).has_value());
  EXPECT_EQ(Believed().size(), 2u);
  EXPECT_EQ(RotateAuthority(folder_, now_ + 200, HeardBy::kCoordinator), Rotation::kEnded)
      << "it may just have renewed once more";
}

// A verb right behind a step: the coordinator has not looked at its files since, and says what was.
TEST_F(RotationTest, ACoordinatorThatIsBehindTakesNoStepBack) {
  ASSERT_TRUE(folder_.Save(cluster_.Member(proto::ROLE_ADMIN, "admin")).has_value());
  proto::RenewReply behind;
  const auto hear = [&](const std::string& known) {
    const std::shared_ptr<Trust> trust = Trust::Open(folder_, proto::ROLE_ADMIN).value();
    Renewal renewal(trust);
    EXPECT_TRUE(renewal.Prepare(now_).has_value());
    behind.set_known(known);
    behind.set_revoked("client " + known + " 5\n");
    EXPECT_TRUE(renewal.Take(behind, now_).has_value());
    EXPECT_TRUE(trust->standing().IsRevoked(proto::ROLE_CLIENT, known, 5));
  };
  behind.set_authorities(PemOf(folder_.LoadAuthorities().value()));
  ASSERT_EQ(RotateAuthority(folder_, now_), Rotation::kBegun);
  hear("1");
  ASSERT_EQ(Believed().size(), 2u);
  behind.set_authorities(PemOf(folder_.LoadAuthorities().value()));
  ASSERT_EQ(RotateAuthority(folder_, now_ + 60), Rotation::kSwitched);
  for (const proto::Role role : {proto::ROLE_COORDINATOR, proto::ROLE_ADMIN})
    CoordinatorRenews(now_ + 60, role);
  hear("2");
  ASSERT_EQ(RotateAuthority(folder_, now_ + 120), Rotation::kEnded);
  hear("3");
  EXPECT_EQ(Believed(), std::vector<std::string>{Issuing()}) << "the old one is believed no more";
}

TEST_F(RotationTest, MembersOfTheOldAuthorityAndOfTheNewBelieveEachOtherInBetween) {
  ASSERT_EQ(RotateAuthority(folder_, now_), Rotation::kBegun);
  const Belief belief{.authorities = folder_.LoadAuthorities().value(), .cluster = cluster_.id};
  const Certificate before = folder_.Load(proto::ROLE_COORDINATOR)->certificate;
  ASSERT_EQ(RotateAuthority(folder_, now_ + 60), Rotation::kSwitched);
  CoordinatorRenews(now_ + 60);
  const Certificate after = folder_.Load(proto::ROLE_COORDINATOR)->certificate;
  for (const Certificate& each : {before, after})
    EXPECT_TRUE(VerifyMember(each, belief, Purpose::kIsConnectedTo, now_ + 60).has_value());
  EXPECT_FALSE(VerifyMember(after, cluster_.OwnBelief(), Purpose::kIsConnectedTo, now_ + 60))
      << "it is another authority's";
}

TEST_F(RotationTest, AMemberOfTheOldAuthorityIsDueAtOnce) {
  MemberProof member = cluster_.Member(proto::ROLE_NODE, "n1");
  EXPECT_FALSE(IsDue(member, now_));
  const TestCluster next;
  member.authorities.insert(member.authorities.begin(), next.authority().certificate());
  EXPECT_TRUE(IsDue(member, now_));
}

TEST_F(RotationTest, AKeyOfAnAuthorityThatIsGoneIsRemovedAndTheFirstStepComesAgain) {
  ASSERT_EQ(RotateAuthority(folder_, now_), Rotation::kBegun);
  ASSERT_TRUE(folder_.SaveAuthorities({cluster_.authority().certificate()}).has_value());
  EXPECT_THAT(RotateAuthority(folder_, now_ + 60).error().message,
              HasSubstr("ca.next.key is the key of none of the authorities in "));
  EXPECT_THAT(RotateAuthority(folder_, now_ + 60).error().message,
              HasSubstr("remove it, and begin with the first step again"));
  std::filesystem::remove(folder_.path() + "/ca.next.key");
  EXPECT_EQ(RotateAuthority(folder_, now_ + 60), Rotation::kBegun);
}

// Copied here after the first step on another machine, and not with the next two.
TEST_F(RotationTest, AKeyThatIsThePresentOnesByNowIsNoNextOne) {
  ASSERT_EQ(NextRotation(folder_), Rotation::kBegun);
  ASSERT_TRUE(folder_.SaveNextAuthority(cluster_.authority()).has_value());
  ASSERT_EQ(NextRotation(folder_), Rotation::kBegun);
  ASSERT_EQ(RotateAuthority(folder_, now_), Rotation::kBegun);
  EXPECT_EQ(NextRotation(folder_), Rotation::kSwitched);
  EXPECT_NE(folder_.LoadNextAuthority()->certificate().KeyHash(), old_);
}

TEST_F(RotationTest, WithoutTheAuthoritysKeyNothingIsDone) {
  std::filesystem::remove(folder_.path() + "/ca.key");
  EXPECT_THAT(RotateAuthority(folder_, now_).error().message, HasSubstr("ca.key"));
  EXPECT_EQ(Believed().size(), 1u);
}

}  // namespace
}  // namespace forebay
