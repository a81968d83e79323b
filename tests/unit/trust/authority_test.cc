#include "common/trust/authority.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/fakes/test_cluster.h"

namespace forebay {
namespace {

using testing::HasSubstr;

std::string Refusal(const MemberProof& member, const Belief& belief, Purpose purpose,
                    std::int64_t now) {
  const Result<Identity> believed = VerifyMember(member.certificate, belief, purpose, now);
  if (believed) return "";
  EXPECT_EQ(believed.error().code, Code::kDenied);
  return believed.error().message;
}

TEST(Authority, BelievesWhomItIssued) {
  const TestCluster cluster;
  for (const proto::Role role :
       {proto::ROLE_CLIENT, proto::ROLE_NODE, proto::ROLE_COORDINATOR, proto::ROLE_ADMIN}) {
    const MemberProof member = cluster.Member(role, "m.1");
    const Result<Identity> believed =
        VerifyMember(member.certificate, cluster.OwnBelief(), Purpose::kConnects, UnixSeconds());
    ASSERT_TRUE(believed.has_value()) << believed.error().message;
    EXPECT_EQ(*believed, member.self);
  }
}

TEST(Authority, ClientsAndAdminsCannotBeConnectedTo) {
  const TestCluster cluster;
  const auto refusal = [&](proto::Role role) {
    return Refusal(cluster.Member(role, "m"), cluster.OwnBelief(), Purpose::kIsConnectedTo,
                   UnixSeconds());
  };
  EXPECT_EQ(refusal(proto::ROLE_NODE), "");
  EXPECT_EQ(refusal(proto::ROLE_COORDINATOR), "");
  EXPECT_THAT(refusal(proto::ROLE_CLIENT), HasSubstr("client m"));
  EXPECT_THAT(refusal(proto::ROLE_ADMIN), HasSubstr("admin m"));
}

TEST(Authority, BelievesNobodyOfAnotherAuthority) {
  const TestCluster cluster;
  const TestCluster other;
  EXPECT_THAT(Refusal(other.Member(proto::ROLE_NODE, "n1"), cluster.OwnBelief(), Purpose::kConnects,
                      UnixSeconds()),
              HasSubstr("not issued by this cluster's authority"));
  // Nor one that names this cluster, and nor an authority as a member.
  Identity pretender{.cluster = cluster.id, .role = proto::ROLE_ADMIN, .id = "root"};
  const PrivateKey key = PrivateKey::Generate().value();
  MemberProof forged = other.Member(proto::ROLE_ADMIN, "root");
  forged.certificate = other.authority()
                           .Issue(MakeRequest(key).value(), pretender,
                                  Validity::From(UnixSeconds(), kMemberLifetime))
                           .value();
  EXPECT_THAT(Refusal(forged, cluster.OwnBelief(), Purpose::kConnects, UnixSeconds()),
              HasSubstr("not issued by this cluster's authority"));
  forged.certificate = cluster.authority().certificate();
  EXPECT_NE(Refusal(forged, cluster.OwnBelief(), Purpose::kConnects, UnixSeconds()), "");
}

TEST(Authority, AMemberIssuesNothing) {
  const TestCluster cluster;
  const MemberProof node = cluster.Member(proto::ROLE_NODE, "n1");
  const Authority own = Authority::Of(node.certificate, node.key).value();
  MemberProof forged = node;
  forged.self.role = proto::ROLE_ADMIN;
  forged.certificate = own.Issue(MakeRequest(node.key).value(), forged.self,
                                 Validity::From(UnixSeconds(), kMemberLifetime))
                           .value();
  EXPECT_NE(Refusal(forged, cluster.OwnBelief(), Purpose::kConnects, UnixSeconds()), "");
  Belief with_node = cluster.OwnBelief();
  with_node.authorities.push_back(node.certificate);  // as sent beside it
  EXPECT_NE(Refusal(forged, with_node, Purpose::kConnects, UnixSeconds()), "");
}

TEST(Authority, ACertificateOfAnotherClusterUnderTheSameAuthorityIsRefused) {
  const TestCluster cluster;
  Belief belief = cluster.OwnBelief();
  belief.cluster = Uuid::Random();
  EXPECT_THAT(
      Refusal(cluster.Member(proto::ROLE_NODE, "n1"), belief, Purpose::kConnects, UnixSeconds()),
      HasSubstr("another cluster"));
}

TEST(Authority, TimesAreKeptAndTheSentenceNamesBothClocks) {
  const TestCluster cluster;
  const std::int64_t now = UnixSeconds();
  const MemberProof node =
      cluster.Member(proto::ROLE_NODE, "n1", Validity::From(now, kMemberLifetime));
  const std::int64_t end = now + std::chrono::seconds(kMemberLifetime).count();
  EXPECT_EQ(node.certificate.ends_unix_s(), end);
  const auto refusal = [&](std::int64_t when) {
    return Refusal(node, cluster.OwnBelief(), Purpose::kConnects, when);
  };
  EXPECT_EQ(refusal(now - 60), "") << "clocks differ a little";
  EXPECT_EQ(refusal(end - 1), "");
  EXPECT_THAT(refusal(end + 1), testing::AllOf(HasSubstr("ended at " + DescribeTime(end)),
                                               HasSubstr(DescribeTime(end + 1))));
  EXPECT_THAT(refusal(now - 3600),
              testing::AllOf(HasSubstr("begins at"), HasSubstr(DescribeTime(now - 3600)),
                             HasSubstr("set the clock")));
}

TEST(Authority, IssuesForWhoHoldsTheKeyAlone) {
  const TestCluster cluster;
  const PrivateKey key = PrivateKey::Generate().value();
  const Identity self{.cluster = cluster.id, .role = proto::ROLE_NODE, .id = "n1"};
  const Validity validity = Validity::From(UnixSeconds(), kMemberLifetime);
  const std::string request = MakeRequest(key).value();
  EXPECT_TRUE(cluster.authority().Issue(request, self, validity).has_value());
  for (std::size_t at = 0; at < request.size(); ++at) {
    std::string changed = request;
    changed[at] = static_cast<char>(changed[at] ^ 1);
    const Result<Certificate> issued = cluster.authority().Issue(changed, self, validity);
    ASSERT_FALSE(issued.has_value()) << "byte " << at;
    EXPECT_EQ(issued.error().code, Code::kInvalid);
  }
  EXPECT_FALSE(cluster.authority().Issue("", self, validity).has_value());
  EXPECT_FALSE(cluster.authority().Issue(std::string(5000, 'x'), self, validity).has_value());
}

TEST(Authority, IssuesToTheLongestName) {
  const TestCluster cluster;
  const MemberProof member = cluster.Member(proto::ROLE_COORDINATOR, std::string(63, 'x'));
  EXPECT_EQ(Refusal(member, cluster.OwnBelief(), Purpose::kIsConnectedTo, UnixSeconds()), "");
}

TEST(Authority, IssuesToMembersWithANameAlone) {
  const TestCluster cluster;
  const std::string request = MakeRequest(PrivateKey::Generate().value()).value();
  const Validity validity = Validity::From(UnixSeconds(), kMemberLifetime);
  for (const std::string id : {"", "a/b", "a b", "a,URI:spiffe://x", "a\nb"}) {
    const Identity self{.cluster = cluster.id, .role = proto::ROLE_NODE, .id = id};
    EXPECT_FALSE(cluster.authority().Issue(request, self, validity).has_value()) << id;
  }
}

TEST(Identity, IsReadAsItIsWritten) {
  const Identity self{.cluster = Uuid::Random(), .role = proto::ROLE_NODE, .id = "n-1.x_Y"};
  EXPECT_EQ(ParseSpiffeId(SpiffeIdOf(self)), Result<Identity>(self));
  const std::string cluster = self.cluster.ToString();
  const std::string good = "spiffe://" + cluster;
  const std::vector<std::string> bad_ones = {"",
                                             "spiffe://",
                                             good + "/node",
                                             good + "/node/",
                                             good + "/node/a/b",
                                             good + "/node/a b",
                                             good + "/Node/a",
                                             good + "/root/a",
                                             "http://" + cluster + "/node/a",
                                             "spiffe://" + Uuid().ToString() + "/node/a"};
  for (const std::string& bad : bad_ones) {
    EXPECT_FALSE(ParseSpiffeId(bad).has_value()) << bad;
  }
}

}  // namespace
}  // namespace forebay
