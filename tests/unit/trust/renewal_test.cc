#include "common/trust/renewal.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "tests/fakes/temp_dir.h"
#include "tests/fakes/test_cluster.h"

// A member's side of a renewal; the clock is a parameter.
namespace forebay {
namespace {

using testing::HasSubstr;

constexpr std::int64_t kDay = std::int64_t{24} * 60 * 60;

class RenewalTest : public testing::Test {
 protected:
  RenewalTest() {
    EXPECT_TRUE(folder_.Save(MemberAt(issued_)).has_value());
    trust_ = Trust::Open(folder_, proto::ROLE_NODE).value();
  }

  MemberProof MemberAt(std::int64_t issued, const std::string& id = "n1") const {
    return cluster_.Member(proto::ROLE_NODE, id, Validity::From(issued, kMemberLifetime));
  }

  /// What a coordinator says at `now`.
  proto::RenewReply Answer(const proto::RenewRequest& request, std::int64_t now,
                           const std::string& id = "n1") const {
    proto::RenewReply reply;
    const Identity member{.cluster = cluster_.id, .role = proto::ROLE_NODE, .id = id};
    reply.set_certificate(
        cluster_.authority()
            .Issue(request.request(), member, Validity::From(now, kMemberLifetime))
            ->ToPem());
    reply.set_known("1");
    reply.set_authorities(cluster_.authority().certificate().ToPem());
    reply.set_renews(true);
    return reply;
  }

  const std::int64_t issued_ = UnixSeconds() - 9 * kDay;
  const fakes::TempDir temp_;
  const TestCluster cluster_;
  const TrustFolder folder_{temp_ / "trust"};
  std::shared_ptr<Trust> trust_;
};

TEST_F(RenewalTest, ACertificateIsAskedForOnceAThirdOfItsTimeIsOver) {
  Renewal renewal(trust_);
  EXPECT_TRUE(renewal.Prepare(issued_ + 10 * kDay - 1)->request().empty());
  const proto::RenewRequest request = renewal.Prepare(issued_ + 10 * kDay).value();
  EXPECT_FALSE(request.request().empty());
  EXPECT_EQ(request.ends_unix_s(), issued_ + 30 * kDay);
}

TEST_F(RenewalTest, TheNewOneIsInForceAndOnDiskWithAKeyOfItsOwn) {
  const std::int64_t now = issued_ + 10 * kDay;
  const std::string key(folder_.Load(proto::ROLE_NODE)->key.ToPem().Reveal());
  Renewal renewal(trust_);
  const proto::RenewRequest request = renewal.Prepare(now).value();
  const std::uint64_t before = trust_->reloads();
  ASSERT_TRUE(renewal.Take(Answer(request, now), now).has_value());
  EXPECT_EQ(trust_->ends_unix_s(), now + 30 * kDay);
  EXPECT_NE(trust_->reloads(), before);
  const MemberProof kept = folder_.Load(proto::ROLE_NODE).value();
  EXPECT_EQ(kept.certificate.ends_unix_s(), now + 30 * kDay);
  EXPECT_NE(kept.key.ToPem().Reveal(), key);
  EXPECT_TRUE(renewal.Prepare(now + kDay)->request().empty());
}

TEST_F(RenewalTest, WhatDoesNotFitIsRefusedAndChangesNothing) {
  const std::int64_t now = issued_ + 10 * kDay;
  const TestCluster other;
  const std::string before = folder_.Load(proto::ROLE_NODE)->certificate.ToPem();
  Renewal renewal(trust_);
  proto::RenewRequest request = renewal.Prepare(now).value();
  proto::RenewReply foreign = Answer(request, now);
  foreign.set_authorities(other.authority().certificate().ToPem());
  proto::RenewRequest strange = request;
  strange.set_request(MakeRequest(PrivateKey::Generate().value()).value());
  proto::RenewReply damaged = Answer(request, now);
  damaged.set_revoked("what");
  for (const proto::RenewReply& reply :
       {foreign, Answer(request, now, "n2"), Answer(strange, now), damaged}) {
    EXPECT_FALSE(renewal.Take(reply, now).has_value());
    EXPECT_EQ(folder_.Load(proto::ROLE_NODE)->certificate.ToPem(), before);
    EXPECT_EQ(folder_.LoadAuthorities()->front().KeyHash(),
              cluster_.authority().certificate().KeyHash());
    EXPECT_FALSE(trust_->renewal_failure().empty());
  }
  ASSERT_TRUE(renewal.Take(Answer(request, now), now).has_value());
  EXPECT_TRUE(trust_->renewal_failure().empty());
}

TEST_F(RenewalTest, AFailureIsKeptAndTriedAgainAMinuteLater) {
  const std::int64_t now = issued_ + 11 * kDay;
  Renewal renewal(trust_);
  ASSERT_FALSE(renewal.Prepare(now)->request().empty());
  renewal.Failed(Error{Code::kInvalid, "no authority"}, now);
  EXPECT_THAT(trust_->renewal_failure(), HasSubstr("no authority"));
  const proto::RenewRequest soon = renewal.Prepare(now + 59).value();
  EXPECT_TRUE(soon.request().empty());
  EXPECT_THAT(soon.failure(), HasSubstr("no authority")) << "the coordinator is told";
  EXPECT_FALSE(renewal.Prepare(now + 60)->request().empty());
}

TEST_F(RenewalTest, AMemberThatHasJoinedAgainHasNoFailureAnyMore) {
  const std::int64_t now = issued_ + 11 * kDay;
  Renewal renewal(trust_);
  ASSERT_FALSE(renewal.Prepare(now)->request().empty());
  renewal.Failed(Error{Code::kInvalid, "no authority"}, now);
  ASSERT_TRUE(folder_.Save(MemberAt(now)).has_value());
  const proto::RenewRequest next = renewal.Prepare(now + 5).value();
  EXPECT_EQ(next.failure(), "");
  EXPECT_EQ(next.ends_unix_s(), now + 30 * kDay);
  EXPECT_EQ(trust_->renewal_failure(), "");
}

TEST_F(RenewalTest, ACoordinatorThatComesBackIsAskedAtOnce) {
  const std::int64_t now = issued_ + 11 * kDay;
  Renewal renewal(trust_);
  for (const Code silent : {Code::kUnavailable, Code::kTimeout}) {
    ASSERT_FALSE(renewal.Prepare(now)->request().empty());
    renewal.Failed(Error{silent, "nobody answers"}, now);
    EXPECT_THAT(trust_->renewal_failure(), HasSubstr("nobody answers"));
  }
  EXPECT_FALSE(renewal.Prepare(now)->request().empty());
}

TEST_F(RenewalTest, TwoProgramsThatShareACertificateEndWithOne) {
  const std::int64_t now = issued_ + 10 * kDay;
  const std::shared_ptr<Trust> second = Trust::Open(folder_, proto::ROLE_NODE).value();
  Renewal one(trust_);
  Renewal two(second);
  const proto::RenewRequest first_asks = one.Prepare(now).value();
  const proto::RenewRequest second_asks = two.Prepare(now).value();
  ASSERT_TRUE(one.Take(Answer(first_asks, now), now).has_value());
  ASSERT_TRUE(two.Take(Answer(second_asks, now + 5), now + 5).has_value());
  EXPECT_EQ(trust_->ends_unix_s(), now + 30 * kDay);
  EXPECT_EQ(second->ends_unix_s(), now + 30 * kDay) << "the first one's, with its key";
  EXPECT_TRUE(folder_.Load(proto::ROLE_NODE).has_value());
}

TEST_F(RenewalTest, ASaveThatWasInterruptedLeavesTheNewPairOrTheOld) {
  const std::string old_certificate = folder_.Load(proto::ROLE_NODE)->certificate.ToPem();
  const MemberProof next = MemberAt(issued_ + kDay);
  ASSERT_TRUE(folder_.Save(next).has_value());
  // Killed behind the key's file.
  std::ofstream(folder_.path() + "/node.pem") << old_certificate;
  const Result<MemberProof> loaded = folder_.Load(proto::ROLE_NODE);
  ASSERT_TRUE(loaded.has_value()) << loaded.error().message;
  EXPECT_EQ(loaded->certificate.ToPem(), next.certificate.ToPem());
}

TEST_F(RenewalTest, RevocationsAndAuthoritiesAreTakenWithoutACertificate) {
  const TestCluster other;
  Renewal renewal(trust_);
  ASSERT_TRUE(renewal.Prepare(issued_)->request().empty());
  proto::RenewReply news;
  news.set_known("2");
  news.set_authorities(cluster_.authority().certificate().ToPem() +
                       other.authority().certificate().ToPem());
  news.set_revoked("client c1 5\n");
  ASSERT_TRUE(renewal.Take(news, issued_).has_value());
  EXPECT_TRUE(trust_->standing().IsRevoked(proto::ROLE_CLIENT, "c1", 5));
  EXPECT_EQ(folder_.LoadAuthorities()->size(), 2u);
  EXPECT_EQ(renewal.Prepare(issued_)->known(), "2");
  const std::shared_ptr<Trust> again = Trust::Open(folder_, proto::ROLE_NODE).value();
  EXPECT_TRUE(again->standing().IsRevoked(proto::ROLE_CLIENT, "c1", 5)) << "after a restart";
}

TEST_F(RenewalTest, WhatAnotherProgramHasWrittenComesIntoForceHereToo) {
  const std::shared_ptr<Trust> second = Trust::Open(folder_, proto::ROLE_NODE).value();
  proto::RenewReply news;
  news.set_known("2");
  news.set_authorities(cluster_.authority().certificate().ToPem());
  news.set_revoked("client c1 5\n");
  for (const std::shared_ptr<Trust>& each : {trust_, second}) {
    Renewal renewal(each);
    ASSERT_TRUE(renewal.Prepare(issued_).has_value());
    ASSERT_TRUE(renewal.Take(news, issued_).has_value());
    EXPECT_TRUE(each->standing().IsRevoked(proto::ROLE_CLIENT, "c1", 5));
  }
}

// A full disk: the coordinator is told of the new authority and the revocation all the same.
TEST_F(RenewalTest, WhatCannotBeKeptIsInForceAndIsAFailure) {
  const TestCluster next;
  proto::RenewReply news;
  news.set_known("2");
  news.set_authorities(cluster_.authority().certificate().ToPem() +
                       next.authority().certificate().ToPem());
  news.set_revoked("client c1 5\n");
  Renewal renewal(trust_);
  ASSERT_TRUE(renewal.Prepare(issued_)->request().empty());
  // Nobody writes a file where a folder is, not even root.
  const std::string in_the_way = folder_.path() + "/lock";
  std::filesystem::create_directory(in_the_way);
  EXPECT_FALSE(renewal.Take(news, issued_).has_value());
  EXPECT_EQ(trust_->believed(), news.authorities());
  EXPECT_TRUE(trust_->standing().IsRevoked(proto::ROLE_CLIENT, "c1", 5));
  EXPECT_EQ(folder_.LoadAuthorities()->size(), 1u);

  const proto::RenewRequest told = renewal.Prepare(issued_ + 5).value();
  EXPECT_THAT(told.failure(), HasSubstr("lock"));
  EXPECT_NE(told.known(), "2") << "after a restart it would not know";
  EXPECT_EQ(told.believes_size(), 0);
  const std::uint64_t before = trust_->reloads();
  EXPECT_FALSE(renewal.Take(news, issued_ + 5).has_value());
  EXPECT_EQ(trust_->reloads(), before) << "connections are not opened anew each time";

  std::filesystem::remove(in_the_way);
  ASSERT_TRUE(renewal.Take(news, issued_ + 10).has_value());
  EXPECT_EQ(folder_.LoadAuthorities()->size(), 2u);
  EXPECT_EQ(renewal.Prepare(issued_ + 15)->failure(), "");
  EXPECT_EQ(renewal.Prepare(issued_ + 15)->known(), "2");
  EXPECT_EQ(renewal.Prepare(issued_ + 15)->believes_size(), 2);
}

TEST_F(RenewalTest, WhatIsCopiedIntoTheFolderIsInForceWithTheNextLook) {
  Renewal renewal(trust_);
  EXPECT_EQ(renewal.Prepare(issued_)->believes_size(), 1);
  const TestCluster next;
  ASSERT_TRUE(
      folder_.SaveAuthorities({cluster_.authority().certificate(), next.authority().certificate()})
          .has_value());
  EXPECT_EQ(renewal.Prepare(issued_ + 5)->believes_size(), 2);
}

TEST_F(RenewalTest, OlderFilesThatComeBackAreNotTheLastWord) {
  const TestCluster next;
  proto::RenewReply news;
  news.set_known("2");
  news.set_authorities(cluster_.authority().certificate().ToPem() +
                       next.authority().certificate().ToPem());
  Renewal renewal(trust_);
  ASSERT_TRUE(renewal.Prepare(issued_).has_value());
  ASSERT_TRUE(renewal.Take(news, issued_).has_value());
  EXPECT_EQ(renewal.Prepare(issued_ + 5)->known(), "2");
  ASSERT_TRUE(folder_.SaveAuthorities({cluster_.authority().certificate()}).has_value());
  EXPECT_EQ(renewal.Prepare(issued_ + 10)->known(), "") << "it is told again";
  ASSERT_TRUE(renewal.Take(news, issued_ + 10).has_value());
  EXPECT_EQ(renewal.Prepare(issued_ + 15)->believes_size(), 2);
}

TEST_F(RenewalTest, AFolderThatCannotBeReadIsToldOfAndWhatIsSaidIsInForce) {
  Renewal renewal(trust_);
  const std::string key = folder_.path() + "/node.key";
  std::filesystem::rename(key, key + ".away");
  const proto::RenewRequest told = renewal.Prepare(issued_ + 11 * kDay).value();
  EXPECT_THAT(told.failure(), HasSubstr("node.key"));
  EXPECT_EQ(told.ends_unix_s(), issued_ + 30 * kDay);
  EXPECT_TRUE(told.request().empty());
  proto::RenewReply news;
  news.set_known("2");
  news.set_authorities(cluster_.authority().certificate().ToPem());
  news.set_revoked("client c1 5\n");
  EXPECT_FALSE(renewal.Take(news, issued_ + 11 * kDay).has_value());
  EXPECT_TRUE(trust_->standing().IsRevoked(proto::ROLE_CLIENT, "c1", 5));
  std::filesystem::rename(key + ".away", key);
  EXPECT_FALSE(renewal.Prepare(issued_ + 11 * kDay)->request().empty());
}

TEST_F(RenewalTest, AClockThatWasFarAheadPutsNothingOff) {
  Renewal renewal(trust_);
  ASSERT_FALSE(renewal.Prepare(issued_ + 300 * kDay)->request().empty());
  renewal.Failed(Error{Code::kDenied, "the coordinator's certificate has ended"},
                 issued_ + 300 * kDay);
  EXPECT_FALSE(renewal.Prepare(issued_ + 10 * kDay)->request().empty());
}

TEST_F(RenewalTest, WhatIsKnownAlreadyOpensNoConnectionAnew) {
  Renewal renewal(trust_);
  ASSERT_TRUE(renewal.Prepare(issued_).has_value());
  proto::RenewReply same;
  same.set_known("1");
  same.set_authorities(cluster_.authority().certificate().ToPem());
  const std::uint64_t before = trust_->reloads();
  ASSERT_TRUE(renewal.Take(same, issued_).has_value());
  EXPECT_EQ(trust_->reloads(), before);
  EXPECT_EQ(renewal.Prepare(issued_)->known(), "1");
}

TEST_F(RenewalTest, ACoordinatorWithoutTheAuthorityIsNoneThatCouldHaveRenewed) {
  Renewal renewal(trust_);
  const std::int64_t ended = issued_ + 20 * kDay;
  for (const bool renews : {false, true}) {
    proto::RenewReply reply;
    reply.set_renews(renews);
    for (std::int64_t now = ended; now <= ended + 3600; now += 60)
      ASSERT_TRUE(renewal.Take(reply, now).has_value());
    EXPECT_EQ(trust_->standing().Excuses(ended, ended + 3600), !renews);
  }
}

TEST_F(RenewalTest, SoonIsFiveDaysOrASixthOfAShortTime) {
  const std::int64_t ends = issued_ + 30 * kDay;
  EXPECT_FALSE(IsSoonOver(issued_, ends, ends - 5 * kDay));
  EXPECT_TRUE(IsSoonOver(issued_, ends, ends - 5 * kDay + 1));
  EXPECT_FALSE(IsSoonOver(issued_, issued_ + 60, issued_ + 50));
  EXPECT_TRUE(IsSoonOver(issued_, issued_ + 60, issued_ + 51));
}

}  // namespace
}  // namespace forebay
