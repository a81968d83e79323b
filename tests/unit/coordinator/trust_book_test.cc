#include "coordinator/trust_book.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "common/trust/renewal.h"
#include "common/trust/rotation.h"
#include "tests/fakes/temp_dir.h"
#include "tests/fakes/test_cluster.h"
#include "tests/unit/coordinator/testing.h"

// The coordinator's side of certificates; the clock is a parameter.
namespace forebay {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;
using testing::UnorderedElementsAre;

constexpr std::int64_t kDay = std::int64_t{24} * 60 * 60;

class TrustBookTest : public testing::Test {
 protected:
  TrustBookTest() {
    EXPECT_TRUE(folder_.SaveAuthority(cluster_.authority()).has_value());
    EXPECT_TRUE(folder_.Save(cluster_.Member(proto::ROLE_COORDINATOR, "coordinator")).has_value());
    Begin();
  }

  /// As after a restart.
  void Begin() {
    own_ = Trust::Open(folder_, proto::ROLE_COORDINATOR).value();
    book_ = std::make_unique<TrustBook>(store_, store_.Claim().value(), own_);
    const Status loaded = book_->Load(now_);
    ASSERT_TRUE(loaded.has_value()) << loaded.error().message;
  }

  PeerIdentity Peer(proto::Role role, const std::string& id) const {
    PeerIdentity peer{.role = role, .id = id, .program = "test", .proved = true};
    peer.terms.issued_unix_s = now_ - 20 * kDay;
    peer.terms.ends_unix_s = now_ + 10 * kDay;
    peer.address = "10.0.0.1:5";
    return peer;
  }

  static proto::RenewRequest Request() {
    proto::RenewRequest request;
    request.set_request(MakeRequest(PrivateKey::Generate().value()).value());
    return request;
  }

  static proto::RevokeMemberRequest Whom(const std::string& role, const std::string& id) {
    proto::RevokeMemberRequest request;
    request.set_role(role);
    request.set_id(id);
    return request;
  }

  const std::int64_t now_ = UnixSeconds();
  const fakes::TempDir temp_;
  const TestCluster cluster_;
  const TrustFolder folder_{temp_ / "trust"};
  MemoryStateStore store_;
  std::shared_ptr<Trust> own_;
  std::unique_ptr<TrustBook> book_;
};

TEST_F(TrustBookTest, AMemberGetsItsOwnNameAgainWhateverItSays) {
  const Result<proto::RenewReply> reply =
      book_->Renew(Request(), Peer(proto::ROLE_NODE, "n1"), now_);
  ASSERT_TRUE(reply.has_value()) << reply.error().message;
  const Certificate certificate = Certificate::FromPem(reply->certificate()).value();
  const Identity self{.cluster = cluster_.id, .role = proto::ROLE_NODE, .id = "n1"};
  EXPECT_EQ(certificate.Member(), self);
  EXPECT_EQ(certificate.ends_unix_s(), now_ + 30 * kDay);
  EXPECT_TRUE(reply->renews());
}

TEST_F(TrustBookTest, WhoHasProvedNothingGetsNothing) {
  PeerIdentity peer = Peer(proto::ROLE_NODE, "n1");
  peer.proved = false;
  EXPECT_FALSE(book_->Renew(Request(), peer, now_).has_value());
}

TEST_F(TrustBookTest, AClientsLinksStayWhatTheyAre) {
  PeerIdentity peer = Peer(proto::ROLE_CLIENT, "c1");
  peer.terms.links = {"a"};
  const Result<proto::RenewReply> reply = book_->Renew(Request(), peer, now_);
  ASSERT_TRUE(reply.has_value()) << reply.error().message;
  const Certificate certificate = Certificate::FromPem(reply->certificate()).value();
  EXPECT_EQ(certificate.Links().value(), std::vector<std::string>{"a"});
  EXPECT_EQ(certificate.ends_unix_s(), now_ + 14 * kDay);
}

TEST_F(TrustBookTest, WhatIsKnownIsNotSaidAgain) {
  const PeerIdentity peer = Peer(proto::ROLE_NODE, "n1");
  proto::RenewRequest request;
  const proto::RenewReply first = book_->Renew(request, peer, now_).value();
  EXPECT_FALSE(first.authorities().empty());
  request.set_known(first.known());
  EXPECT_TRUE(book_->Renew(request, peer, now_)->authorities().empty());
  ASSERT_TRUE(book_->Revoke(Whom("client", "c1"), peer, now_).has_value());
  const proto::RenewReply news = book_->Renew(request, peer, now_).value();
  EXPECT_EQ(news.revoked(), "client c1 " + std::to_string(now_) + "\n");
}

TEST_F(TrustBookTest, ARevocationHoldsAtOnceAndAfterARestart) {
  const PeerIdentity admin = Peer(proto::ROLE_ADMIN, "ann");
  ASSERT_TRUE(book_->Revoke(Whom("node", "n1"), admin, now_).has_value());
  EXPECT_TRUE(own_->standing().IsRevoked(proto::ROLE_NODE, "n1", now_));
  Begin();
  EXPECT_TRUE(own_->standing().IsRevoked(proto::ROLE_NODE, "n1", now_));
  ASSERT_THAT(book_->Members(), SizeIs(1));
  EXPECT_EQ(book_->Members()[0].revoked_unix_s(), now_);
}

// A release before viewers takes no list with one in it, from the state or from an answer.
TEST_F(TrustBookTest, ARevokedViewerIsKnownToCoordinatorsAlone) {
  const PeerIdentity admin = Peer(proto::ROLE_ADMIN, "ann");
  ASSERT_TRUE(book_->Revoke(Whom("viewer", "v1"), admin, now_).has_value());
  ASSERT_TRUE(book_->Revoke(Whom("client", "c1"), admin, now_).has_value());
  const std::string client = "client c1 " + std::to_string(now_) + "\n";
  EXPECT_EQ(book_->Renew({}, Peer(proto::ROLE_NODE, "n1"), now_)->revoked(), client);
  EXPECT_EQ(store_.Get("trust/revoked").value(), client);
  Begin();
  EXPECT_TRUE(own_->standing().IsRevoked(proto::ROLE_VIEWER, "v1", now_));
  EXPECT_TRUE(own_->standing().IsRevoked(proto::ROLE_CLIENT, "c1", now_));
  EXPECT_FALSE(own_->standing().IsRevoked(proto::ROLE_ADMIN, "v1", now_));
}

TEST_F(TrustBookTest, AViewerIsRenewedAsWhatItIs) {
  const Result<proto::RenewReply> reply =
      book_->Renew(Request(), Peer(proto::ROLE_VIEWER, "v1"), now_);
  ASSERT_TRUE(reply.has_value()) << reply.error().message;
  const Identity self{.cluster = cluster_.id, .role = proto::ROLE_VIEWER, .id = "v1"};
  EXPECT_EQ(Certificate::FromPem(reply->certificate())->Member(), self);
  ASSERT_THAT(book_->Members(), SizeIs(1));
  EXPECT_EQ(book_->Members()[0].role(), "viewer");
}

TEST_F(TrustBookTest, WhoJoinsAgainInTheSecondOfTheRevocationIsGood) {
  const PeerIdentity admin = Peer(proto::ROLE_ADMIN, "ann");
  const Identity member{.cluster = cluster_.id, .role = proto::ROLE_CLIENT, .id = "gpu2"};
  EXPECT_TRUE(book_->Revoke(Whom("client", "gpu2"), admin, now_)->unseen());
  const auto join = [&] {
    const Result<std::string> asked = MakeRequest(PrivateKey::Generate().value());
    const std::int64_t issued = IssueTime(book_->issuer().revoked, member, now_);
    const Certificate certificate =
        cluster_.authority()
            .Issue(*asked, member, Validity::From(issued, std::chrono::hours(1)), std::nullopt)
            .value();
    book_->NoteJoined(certificate, "10.0.0.2:5");
    return certificate.issued_unix_s();
  };
  const std::int64_t again = join();
  EXPECT_FALSE(own_->standing().IsRevoked(member.role, member.id, again));
  ASSERT_THAT(book_->Members(), SizeIs(1)) << "also before it asks for anything";
  EXPECT_EQ(book_->Members()[0].revoked_unix_s(), 0) << "what it has now is good";
  EXPECT_EQ(book_->Members()[0].seen_unix_s(), 0);
  EXPECT_EQ(book_->Members()[0].address(), "10.0.0.2:5");
  // And the next revocation, in the same second still, counts for that certificate as well.
  const auto revoked = book_->Revoke(Whom("client", "gpu2"), admin, now_);
  EXPECT_FALSE(revoked->unseen());
  EXPECT_TRUE(own_->standing().IsRevoked(member.role, member.id, again));
  EXPECT_EQ(book_->Members()[0].revoked_unix_s(), revoked->until_unix_s());
  EXPECT_FALSE(own_->standing().IsRevoked(member.role, member.id, join()));
}

TEST_F(TrustBookTest, AWrongRevocationChangesNothing) {
  const PeerIdentity admin = Peer(proto::ROLE_ADMIN, "ann");
  EXPECT_FALSE(book_->Revoke(Whom("king", "n1"), admin, now_).has_value());
  EXPECT_FALSE(book_->Revoke(Whom("coordinator", "coordinator"), admin, now_).has_value());
  EXPECT_FALSE(book_->Revoke(Whom("node", "a b"), admin, now_).has_value());
  EXPECT_THAT(book_->Revoke(Whom("admin", "ann"), admin, now_).error().message,
              HasSubstr("another administrator"));
  EXPECT_THAT(own_->standing().revoked(), IsEmpty());
}

TEST_F(TrustBookTest, TheCoordinatorsOwnIsRenewedInTime) {
  book_->KeepOwn(now_ + 9 * kDay);
  EXPECT_LE(own_->ends_unix_s(), now_ + 30 * kDay + 1);
  const std::uint64_t before = own_->reloads();
  book_->KeepOwn(now_ + 11 * kDay);
  EXPECT_EQ(own_->ends_unix_s(), now_ + 41 * kDay);
  EXPECT_EQ(own_->reloads(), before + 1);
  book_->KeepOwn(now_ + 11 * kDay + 5);
  EXPECT_EQ(own_->reloads(), before + 1) << "connections are not opened anew for nothing";
}

TEST_F(TrustBookTest, WhatWasDoneByHandIsTakenForTheLogWithTheNextLook) {
  ASSERT_TRUE(folder_.NoteAction("admin 'root': init rotate-ca=begun: done").has_value());
  book_->KeepOwn(now_);
  EXPECT_FALSE(std::filesystem::exists(folder_.path() + "/actions"));
}

TEST_F(TrustBookTest, WithoutTheAuthoritysKeyNothingIsRenewedAndThatAlarms) {
  std::filesystem::remove(folder_.path() + "/ca.key");
  Begin();
  book_->KeepOwn(now_ + 9 * kDay);
  EXPECT_THAT(book_->Alerts(now_), IsEmpty()) << "it is not time yet";
  book_->KeepOwn(now_ + 11 * kDay);
  const auto alerts = book_->Alerts(now_);
  ASSERT_THAT(alerts, SizeIs(1));
  EXPECT_EQ(alerts[0].name(), "certificate_not_renewed");
  EXPECT_THAT(alerts[0].message(), HasSubstr("ca.key"));
  const Result<proto::RenewReply> refused =
      book_->Renew(Request(), Peer(proto::ROLE_NODE, "n1"), now_);
  EXPECT_FALSE(refused.has_value());
  EXPECT_THAT(book_->Alerts(now_), SizeIs(2)) << "of the node, too";
  EXPECT_FALSE(book_->Renew({}, Peer(proto::ROLE_NODE, "n1"), now_)->renews());
}

TEST_F(TrustBookTest, TheAdministratorsBesideItIsRenewedInTime) {
  ASSERT_TRUE(folder_.Save(cluster_.Member(proto::ROLE_ADMIN, "admin")).has_value());
  book_->KeepOwn(now_ + 11 * kDay);
  EXPECT_EQ(folder_.Load(proto::ROLE_ADMIN)->certificate.ends_unix_s(), now_ + 41 * kDay);
  EXPECT_THAT(book_->Alerts(now_), IsEmpty());
}

TEST_F(TrustBookTest, AnAdministratorsKeyThatCannotBeReadAlarmsWhileItIsSo) {
  ASSERT_TRUE(folder_.Save(cluster_.Member(proto::ROLE_ADMIN, "admin")).has_value());
  const std::string key = folder_.path() + "/admin.key";
  std::filesystem::rename(key, key + ".elsewhere");
  book_->KeepOwn(now_);
  book_->KeepOwn(now_ + 100);
  const auto alerts = book_->Alerts(now_ + 100);
  ASSERT_THAT(alerts, SizeIs(1));
  EXPECT_EQ(alerts[0].name(), "certificate_not_renewed");
  EXPECT_EQ(alerts[0].since_unix_s(), now_);
  EXPECT_THAT(alerts[0].message(), HasSubstr("administrator"));
  EXPECT_THAT(alerts[0].message(), HasSubstr("admin.key"));
  EXPECT_EQ(own_->renewal_failure(), "") << "its own is in order";
  std::filesystem::rename(key + ".elsewhere", key);
  book_->KeepOwn(now_ + 200);
  EXPECT_THAT(book_->Alerts(now_ + 200), IsEmpty());
}

TEST_F(TrustBookTest, AMemberThatFailsOrIsSoonOverAlarmsAsLongAsItIsThere) {
  const PeerIdentity peer = Peer(proto::ROLE_NODE, "n1");
  proto::RenewRequest request;
  request.set_ends_unix_s(now_ + 6 * kDay);
  ASSERT_TRUE(book_->Renew(request, peer, now_).has_value());
  EXPECT_THAT(book_->Alerts(now_), IsEmpty());
  request.set_ends_unix_s(now_ + 3 * kDay);  // of 23: less than a sixth
  ASSERT_TRUE(book_->Renew(request, peer, now_).has_value());
  ASSERT_THAT(book_->Alerts(now_), SizeIs(1));
  EXPECT_EQ(book_->Alerts(now_)[0].name(), "certificate_ends");
  request.set_failure("its folder is read-only");
  ASSERT_TRUE(book_->Renew(request, peer, now_).has_value());
  EXPECT_EQ(book_->Alerts(now_)[0].name(), "certificate_not_renewed");
  EXPECT_THAT(book_->Alerts(now_)[0].message(), HasSubstr("node n1"));
  EXPECT_THAT(book_->Alerts(now_ + 700), IsEmpty()) << "it has left";
  ASSERT_TRUE(book_->Revoke(Whom("node", "n1"), Peer(proto::ROLE_ADMIN, "a"), now_).has_value());
  EXPECT_THAT(book_->Alerts(now_), IsEmpty()) << "that was meant";
}

TEST_F(TrustBookTest, ARotationReachesMembersAndTheCoordinatorItself) {
  ASSERT_EQ(RotateAuthority(folder_, now_), Rotation::kBegun);
  book_->KeepOwn(now_);
  const PeerIdentity peer = Peer(proto::ROLE_NODE, "n1");
  const proto::RenewReply begun = book_->Renew({}, peer, now_).value();
  EXPECT_THAT(Certificate::AllFromPem(begun.authorities()).value(), SizeIs(2));
  ASSERT_EQ(RotateAuthority(folder_, now_ + 60), Rotation::kSwitched);
  book_->KeepOwn(now_ + 60);
  const proto::RenewReply switched = book_->Renew(Request(), peer, now_ + 60).value();
  const auto authorities = Certificate::AllFromPem(switched.authorities()).value();
  ASSERT_THAT(authorities, SizeIs(2));
  EXPECT_NE(authorities[0].KeyHash(), cluster_.authority().certificate().KeyHash());
  EXPECT_TRUE(Certificate::FromPem(switched.certificate())->IsIssuedBy(authorities[0]));
  EXPECT_TRUE(folder_.Load(proto::ROLE_COORDINATOR)->certificate.IsIssuedBy(authorities[0]));
}

TEST_F(TrustBookTest, WhoHasFollowedAChangeOfTheAuthorityIsKnown) {
  const auto describe = [&](Duration later = {}, TrustBook::Expected expected = {}) {
    proto::ListMembersReply reply;
    book_->DescribeRotation(expected, Clock::now() + later, reply);
    return reply;
  };
  const auto unaware = [&](Duration later = {}) {
    const proto::ListMembersReply reply = describe(later);
    return std::vector<std::string>(reply.unaware().running().begin(),
                                    reply.unaware().running().end());
  };
  PeerIdentity node = Peer(proto::ROLE_NODE, "n1");
  node.terms.authority = cluster_.authority().certificate().KeyHash();
  PeerIdentity standby = Peer(proto::ROLE_COORDINATOR, "coordinator");
  standby.terms.authority = node.terms.authority;
  proto::RenewRequest asks;
  const auto ask = [&] {
    asks.clear_believes();
    for (const std::string& each : book_->Believed()) asks.add_believes(each);
    ASSERT_TRUE(book_->Renew(asks, node, now_).has_value());
  };
  ask();
  const proto::RenewRequest behind = book_->Report("c2:7440");
  ASSERT_TRUE(book_->Renew(behind, standby, now_).has_value());
  EXPECT_THAT(unaware(), IsEmpty());
  EXPECT_GT(describe().settles_in_s(), 0U);
  EXPECT_EQ(describe(std::chrono::seconds(30)).settles_in_s(), 0U);

  ASSERT_EQ(RotateAuthority(folder_, now_), Rotation::kBegun);
  book_->KeepOwn(now_);
  EXPECT_EQ(describe().authorities_size(), 2);
  EXPECT_THAT(unaware(), UnorderedElementsAre("node n1", "coordinator c2:7440"));
  EXPECT_THAT(unaware(std::chrono::minutes(10)), IsEmpty()) << "they are away";
  EXPECT_EQ(describe(std::chrono::minutes(10)).unaware().all_away(), 2U);
  ask();
  EXPECT_THAT(unaware(), ElementsAre("coordinator c2:7440"));
  ASSERT_TRUE(book_->Renew(book_->Report("c2:7440"), standby, now_).has_value());
  EXPECT_THAT(unaware(), IsEmpty());
  EXPECT_EQ(describe().unrenewed().all_running(), 0U);

  ASSERT_EQ(RotateAuthority(folder_, now_ + 60), Rotation::kSwitched);
  book_->KeepOwn(now_ + 60);
  EXPECT_THAT(unaware(), IsEmpty()) << "the order is no matter";
  EXPECT_EQ(describe().unrenewed().all_running(), 2U);
  node.terms.authority = book_->Believed().front();
  ask();
  EXPECT_EQ(describe().unrenewed().all_running(), 1U);
}

// A revocation is no part of what is believed; of an earlier release it is.
TEST_F(TrustBookTest, WhoSaysWhatItBelievesFollowsThroughARevocation) {
  proto::RenewRequest says;
  says.add_believes(book_->Believed().front());
  ASSERT_TRUE(book_->Renew(says, Peer(proto::ROLE_NODE, "n1"), now_).has_value());
  proto::RenewRequest before;
  before.set_known(
      book_->Renew(proto::RenewRequest(), Peer(proto::ROLE_NODE, "n2"), now_)->known());
  ASSERT_TRUE(book_->Renew(before, Peer(proto::ROLE_NODE, "n2"), now_).has_value());
  proto::ListMembersReply reply;
  book_->DescribeRotation({}, Clock::now(), reply);
  EXPECT_EQ(reply.unaware().all_running(), 0U);
  ASSERT_TRUE(book_->Revoke(Whom("client", "c1"), Peer(proto::ROLE_ADMIN, "a"), now_).has_value());
  reply.Clear();
  book_->DescribeRotation({}, Clock::now(), reply);
  EXPECT_THAT(reply.unaware().running(), ElementsAre("node n2"));
}

// After a restart nobody has asked yet: what is known from elsewhere is waited for.
TEST_F(TrustBookTest, NodesOfTheRingAndCoordinatorsThatStandByAreExpected) {
  ASSERT_TRUE(book_->Renew(proto::RenewRequest(), Peer(proto::ROLE_NODE, "n1"), now_).has_value());
  ASSERT_TRUE(book_->Renew(proto::RenewRequest(), Peer(proto::ROLE_ADMIN, "a"), now_).has_value());
  proto::ListMembersReply reply;
  book_->DescribeRotation({.nodes = {"n1", "n2"}, .standbys = {"c2:7440"}},
                          Clock::now() + std::chrono::hours(1), reply);
  EXPECT_THAT(reply.unaware().running(),
              UnorderedElementsAre("node n1", "node n2", "coordinator c2:7440"));
  EXPECT_THAT(reply.unaware().away(), ElementsAre("admin a"));
  ASSERT_TRUE(book_->Revoke(Whom("node", "n1"), Peer(proto::ROLE_ADMIN, "a"), now_).has_value());
  reply.Clear();
  book_->DescribeRotation({}, Clock::now(), reply);
  EXPECT_EQ(reply.unaware().all_running(), 0U) << "who is revoked is not waited for";
}

TEST_F(TrustBookTest, ACoordinatorThatStandsByGetsNoCertificateAndHasItsAlert) {
  EXPECT_FALSE(book_->Renew(Request(), Peer(proto::ROLE_COORDINATOR, "coordinator"), now_));
  proto::RenewRequest report = book_->Report("c2:7440");
  report.set_failure("it does not hold ca.key");
  ASSERT_TRUE(book_->Renew(report, Peer(proto::ROLE_COORDINATOR, "coordinator"), now_).has_value());
  const std::vector<proto::Alert> alerts = book_->Alerts(now_);
  ASSERT_THAT(alerts, SizeIs(1));
  EXPECT_THAT(alerts.front().message(), HasSubstr("coordinator c2:7440"));
}

// Its clock was ahead when it renewed: every member would wait for that time.
TEST_F(TrustBookTest, ACertificateThatHasNotBegunIsRenewed) {
  ASSERT_TRUE(folder_
                  .Save(cluster_.Member(proto::ROLE_COORDINATOR, "coordinator",
                                        Validity::From(now_ + kDay, kMemberLifetime)))
                  .has_value());
  book_->KeepOwn(now_);
  EXPECT_LE(folder_.Load(proto::ROLE_COORDINATOR)->certificate.begins_unix_s(), now_);
  EXPECT_EQ(own_->ends_unix_s(), now_ + 30 * kDay);
}

TEST_F(TrustBookTest, WhoRunsTheClusterSaysForHowLong) {
  ASSERT_TRUE(folder_.SaveMemberLifetime(std::chrono::hours(24)).has_value());
  book_->KeepOwn(now_);
  const proto::RenewReply reply =
      book_->Renew(Request(), Peer(proto::ROLE_NODE, "n1"), now_).value();
  EXPECT_EQ(Certificate::FromPem(reply.certificate())->ends_unix_s(), now_ + kDay);
}

}  // namespace
}  // namespace forebay
