#include "common/trust/tls.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <openssl/ssl.h>

#include <array>
#include <functional>
#include <memory>
#include <string>

#include "common/trust/join_token.h"
#include "tests/fakes/test_cluster.h"

namespace forebay {
namespace {

using testing::HasSubstr;
using ContextPtr = std::shared_ptr<const TlsContext>;

constexpr std::int64_t kDay = 24 * 60 * 60;

/// Two ends of a connection in memory.
struct Talk {
  std::unique_ptr<SSL, void (*)(SSL*)> client{nullptr, SSL_free};
  std::unique_ptr<SSL, void (*)(SSL*)> server{nullptr, SSL_free};

  Talk(const ContextPtr& of_client, const ContextPtr& of_server) {
    client.reset(of_client->NewClient());
    server.reset(of_server->NewServer());
    BIO* near = nullptr;
    BIO* far = nullptr;
    BIO_new_bio_pair(&near, 0, &far, 0);
    SSL_set_bio(client.get(), near, near);
    SSL_set_bio(server.get(), far, far);
    SSL_set_connect_state(client.get());
    SSL_set_accept_state(server.get());
  }

  /// Whether both ends are content; the server with its client, which a client learns only later.
  bool Shake() {
    bool refused = false;
    for (int turn = 0; turn < 10 && !refused; ++turn) {
      for (SSL* end : {client.get(), server.get()}) {
        const int done = SSL_do_handshake(end);
        const int why = done == 1 ? SSL_ERROR_NONE : SSL_get_error(end, done);
        if (why != SSL_ERROR_NONE && why != SSL_ERROR_WANT_READ && why != SSL_ERROR_WANT_WRITE)
          refused = true;
      }
    }
    return !refused && SSL_is_init_finished(client.get()) == 1 &&
           SSL_is_init_finished(server.get()) == 1;
  }

  std::string ServerSays() const { return TlsFailure(server.get(), 0).message; }
  std::string ClientSays() const { return TlsFailure(client.get(), 0).message; }
};

ContextPtr ContextOf(const MemberProof& member) { return TlsContext::Of(member).value(); }

class Tls : public testing::Test {
 protected:
  const TestCluster cluster_;
  const ContextPtr node_ = ContextOf(cluster_.Member(proto::ROLE_NODE, "n1"));
  const ContextPtr client_ = ContextOf(cluster_.Member(proto::ROLE_CLIENT, "c1"));
  const ContextPtr coordinator_ =
      ContextOf(cluster_.Member(proto::ROLE_COORDINATOR, "coordinator"));
  const std::string pin_ = cluster_.authority().certificate().KeyHash();
};

TEST_F(Tls, BothEndsKnowEachOther) {
  Talk talk(client_, node_);
  ASSERT_TRUE(talk.Shake()) << talk.ServerSays() << "; " << talk.ClientSays();
  EXPECT_STREQ(SSL_get_version(talk.client.get()), "TLSv1.3");
  const Identity client{.cluster = cluster_.id, .role = proto::ROLE_CLIENT, .id = "c1"};
  const Identity node{.cluster = cluster_.id, .role = proto::ROLE_NODE, .id = "n1"};
  EXPECT_EQ(PeerOf(talk.server.get()), client);
  EXPECT_EQ(PeerOf(talk.client.get()), node);
}

TEST_F(Tls, TheChannelBindingIsOneConnectionsAlone) {
  Talk one(client_, node_);
  Talk other(client_, node_);
  ASSERT_TRUE(one.Shake() && other.Shake());
  const std::string binding = TlsChannelBinding(one.client.get());
  EXPECT_EQ(binding.size(), 32u);
  EXPECT_EQ(binding, TlsChannelBinding(one.server.get()));
  EXPECT_NE(binding, TlsChannelBinding(other.server.get()));
}

TEST_F(Tls, OlderVersionsAreRefused) {
  Talk talk(client_, node_);
  ASSERT_EQ(SSL_set_min_proto_version(talk.client.get(), TLS1_2_VERSION), 1);
  ASSERT_EQ(SSL_set_max_proto_version(talk.client.get(), TLS1_2_VERSION), 1);
  EXPECT_FALSE(talk.Shake());
}

TEST_F(Tls, StrangersAreRefused) {
  const TestCluster other;
  const std::int64_t now = UnixSeconds();
  const struct {
    ContextPtr client;
    const char* sentence;
  } cases[] = {
      {ContextOf(other.Member(proto::ROLE_CLIENT, "c1")), "not issued by this cluster's authority"},
      {ContextOf(cluster_.Member(proto::ROLE_CLIENT, "c1", {now - 2 * kDay, now - kDay})),
       "ended at"},
      {ContextOf(cluster_.Member(proto::ROLE_CLIENT, "c1", {now + kDay, now + 2 * kDay})),
       "begins at"},
  };
  for (const auto& each : cases) {
    // The stranger believes the node: what is asked is whether the node lets it in.
    Talk talk(each.client, node_);
    SSL_set_verify(talk.client.get(), SSL_VERIFY_NONE, nullptr);
    EXPECT_FALSE(talk.Shake()) << each.sentence;
    EXPECT_THAT(talk.ServerSays(), HasSubstr(each.sentence));
    EXPECT_FALSE(PeerOf(talk.server.get()).has_value());
  }
  Talk nobody(TlsContext::Joining(pin_).value(), node_);
  SSL_set_verify(nobody.client.get(), SSL_VERIFY_NONE, nullptr);
  EXPECT_FALSE(nobody.Shake()) << "no certificate";
}

TEST_F(Tls, AServerMustBeOfTheClusterAndMayNotBeAClient) {
  const TestCluster other;
  Talk foreign(client_, ContextOf(other.Member(proto::ROLE_NODE, "n1")));
  EXPECT_FALSE(foreign.Shake());
  EXPECT_THAT(foreign.ClientSays(), HasSubstr("not issued by this cluster's authority"));
  Talk posing(client_, ContextOf(cluster_.Member(proto::ROLE_CLIENT, "c2")));
  EXPECT_FALSE(posing.Shake());
  EXPECT_THAT(posing.ClientSays(), HasSubstr("not made for this end"));
}

TEST_F(Tls, ACoordinatorLetsStrangersInAsNobody) {
  Talk talk(TlsContext::Joining(pin_).value(), coordinator_);
  ASSERT_TRUE(talk.Shake()) << talk.ServerSays() << "; " << talk.ClientSays();
  EXPECT_FALSE(PeerOf(talk.server.get()).has_value());
  EXPECT_EQ(PeerOf(talk.client.get())->role, proto::ROLE_COORDINATOR);
}

TEST_F(Tls, WhoJoinsBelievesThePinnedAuthorityAlone) {
  const TestCluster other;
  Talk elsewhere(TlsContext::Joining(other.authority().certificate().KeyHash()).value(),
                 coordinator_);
  EXPECT_FALSE(elsewhere.Shake());
  EXPECT_THAT(elsewhere.ClientSays(), HasSubstr("not of the cluster that the token is of"));
  // The right authority sent along with another's certificate proves nothing.
  MemberProof mixed = other.Member(proto::ROLE_COORDINATOR, "coordinator");
  mixed.authorities = {cluster_.authority().certificate()};
  Talk forged(TlsContext::Joining(pin_).value(), ContextOf(mixed));
  EXPECT_FALSE(forged.Shake());
  EXPECT_THAT(forged.ClientSays(), HasSubstr("not issued by this cluster's authority"));
  Talk to_node(TlsContext::Joining(pin_).value(), node_);
  EXPECT_FALSE(to_node.Shake());
  EXPECT_THAT(to_node.ClientSays(), HasSubstr("no coordinator"));
}

}  // namespace
}  // namespace forebay
