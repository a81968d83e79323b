#include <gmock/gmock.h>
#include <openssl/ssl.h>

#include <boost/asio/ip/tcp.hpp>

#include "common/base/notifier.h"
#include "common/model/limits.h"
#include "common/wire/address.h"
#include "common/wire/tls_stream.h"
#include "tests/component/wire/wire_fixture.h"
#include "tests/fakes/temp_dir.h"
#include "tests/fakes/test_cluster.h"

// What mutual TLS lets through, and what it does not.
namespace forebay {
namespace {

using testing::HasSubstr;

constexpr std::int64_t kDay = 24 * 60 * 60;

/// A secret of its own: what is proved, certificates prove.
Credentials With(proto::Role role, std::shared_ptr<const Trust> trust) {
  Credentials credentials = Who(role, std::string(32, static_cast<char>('a' + role)));
  credentials.trust = std::move(trust);
  return credentials;
}

std::shared_ptr<const Trust> TrustOf(const MemberProof& member) {
  return std::make_shared<Trust>(TlsContext::Of(member).value(), member.self);
}

class WireTls : public WireFixture {
 protected:
  void ServeAs(proto::Role role, RpcHandler handler,
               std::vector<std::string> listen = {"127.0.0.1:0"}) {
    server_options_.credentials = With(role, cluster_.TrustOf(role, "s1"));
    Serve(std::move(handler), std::move(listen));
  }

  void ConnectAs(proto::Role role) { Connect(With(role, cluster_.TrustOf(role, "c1"))); }

  const TestCluster cluster_;
};

TEST_F(WireTls, ManyCallsWithPayloadsGoThrough) {
  ServeAs(proto::ROLE_NODE, EchoCall);
  ConnectAs(proto::ROLE_CLIENT);
  std::vector<std::future<Result<RpcReply>>> calls;
  for (std::uint32_t number = 0; number < 200; ++number) calls.push_back(Start(Ask(number)));
  for (std::uint32_t number = 0; number < 200; ++number) {
    const Result<RpcReply> reply = Await(std::move(calls[number]));
    ASSERT_EQ(AnswerOf(reply), number);
    ASSERT_EQ(reply->payload.bytes.size(), 40'000u);
    for (std::size_t i = 0; i < reply->payload.bytes.size(); ++i)
      ASSERT_EQ(reply->payload.bytes[i], static_cast<std::byte>(i * 31 + number));
  }
  EXPECT_EQ(server_->counters().accepted.load(), 1u);
}

// It has a TLS connection, and has not said a word of ours. A coordinator lets anybody come so far.
TEST_F(WireTls, AStrangerThatOnlyChangesItsKeysIsCutOffAtOnce) {
  server_options_.handshake_timeout = std::chrono::minutes(10);
  ServeAs(proto::ROLE_NODE, EchoCall);
  asio::io_context context;
  asio::ip::tcp::socket socket(context);
  const auto port = static_cast<std::uint16_t>(std::stoi(address_.substr(address_.rfind(':') + 1)));
  socket.connect({asio::ip::make_address("127.0.0.1"), port});
  const timeval patience{.tv_sec = kPatience.count(), .tv_usec = 0};
  ASSERT_EQ(setsockopt(socket.native_handle(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience),
            0);
  const auto trust = TlsContext::Of(cluster_.Member(proto::ROLE_CLIENT, "c1")).value();
  const std::unique_ptr<ssl_st, void (*)(ssl_st*)> peer(trust->NewClient(), SSL_free);
  ASSERT_EQ(SSL_set_fd(peer.get(), socket.native_handle()), 1);
  ASSERT_EQ(SSL_connect(peer.get()), 1);
  for (std::size_t i = 0; i <= TlsStream::kMostMessages; ++i) {
    ASSERT_EQ(SSL_key_update(peer.get(), SSL_KEY_UPDATE_REQUESTED), 1);
    ASSERT_EQ(SSL_do_handshake(peer.get()), 1) << i;
  }
  EXPECT_TRUE(Eventually([this] { return server_->counters().handshakes_refused.load() == 1; }));
  ConnectAs(proto::ROLE_CLIENT);
  EXPECT_EQ(AnswerOf(Call(1)), 1u);
}

TEST_F(WireTls, RoleAndIdComeFromTheCertificate) {
  auto seen = std::make_shared<PeerIdentity>();
  ServeAs(proto::ROLE_NODE, [seen](RpcCall call) {
    *seen = call.peer;
    return EchoCall(std::move(call));
  });
  Credentials client = With(proto::ROLE_CLIENT, cluster_.TrustOf(proto::ROLE_CLIENT, "c1"));
  client.id = "somebody else";
  Connect(client);
  ASSERT_EQ(AnswerOf(Call(1)), 1u);
  EXPECT_EQ(seen->role, proto::ROLE_CLIENT);
  EXPECT_EQ(seen->id, "c1");
  EXPECT_TRUE(seen->proved);
  EXPECT_EQ(seen->channel.size(), 32u);
}

TEST_F(WireTls, AStrangerIsRefusedAndTold) {
  ServeAs(proto::ROLE_NODE, EchoCall);
  const TestCluster other;
  const std::int64_t now = UnixSeconds();
  const MemberProof ended = cluster_.Member(proto::ROLE_CLIENT, "c1", {now - 2 * kDay, now - kDay});
  MemberProof foreign = other.Member(proto::ROLE_CLIENT, "c1");
  // It believes the node: what is asked is whether the node lets it in.
  foreign.authorities = {cluster_.authority().certificate()};
  foreign.self.cluster = cluster_.id;
  const struct {
    const char* who;
    std::shared_ptr<const Trust> trust;
  } strangers[] = {
      {"no certificates at all", nullptr},
      {"another cluster's certificate", TrustOf(foreign)},
      {"a certificate that has ended", TrustOf(ended)},
      {"a machine that only joins",
       std::make_shared<Trust>(
           TlsContext::Joining(cluster_.authority().certificate().KeyHash()).value())},
  };
  for (const auto& stranger : strangers) {
    Connect(With(proto::ROLE_CLIENT, stranger.trust));
    const Result<RpcReply> reply = Call(1);
    ASSERT_FALSE(reply.has_value()) << stranger.who;
    EXPECT_EQ(reply.error().code, Code::kDenied) << stranger.who << ": " << reply.error().message;
    if (!stranger.trust) EXPECT_THAT(reply.error().message, HasSubstr("forebay join"));
    CloseClient();
  }
  EXPECT_EQ(server_->counters().calls.load(), 0u);
  ConnectAs(proto::ROLE_CLIENT);
  EXPECT_EQ(AnswerOf(Call(2)), 2u) << "whoever belongs to it still gets in";
}

TEST_F(WireTls, ARoleThatIsSaidMustBeTheCertificates) {
  ServeAs(proto::ROLE_NODE, EchoCall);
  Connect(With(proto::ROLE_ADMIN, cluster_.TrustOf(proto::ROLE_CLIENT, "c1")));
  const Result<RpcReply> reply = Call(1);
  ASSERT_FALSE(reply.has_value());
  EXPECT_EQ(reply.error().code, Code::kDenied);
  EXPECT_THAT(reply.error().message, HasSubstr("client c1"));
}

TEST_F(WireTls, ARoleMayAskOnlyWhatTheTableSays) {
  ServeAs(proto::ROLE_NODE, EchoCall);
  ConnectAs(proto::ROLE_COORDINATOR);
  const Result<RpcReply> reply = Call(1);
  ASSERT_FALSE(reply.has_value());
  EXPECT_EQ(reply.error().code, Code::kDenied) << "coordinators read no blocks";
}

TEST_F(WireTls, ANodeThatPosesAsTheCoordinatorIsNotAsked) {
  ServeAs(proto::ROLE_NODE, EchoCall);
  ConnectAs(proto::ROLE_CLIENT);
  const Result<RpcReply> reply = Call(1, Method::kGetLinks);
  ASSERT_FALSE(reply.has_value());
  EXPECT_EQ(reply.error().code, Code::kDenied);
  EXPECT_THAT(reply.error().message, HasSubstr("is node s1"));
  EXPECT_EQ(server_->counters().calls.load(), 0u);
}

TEST_F(WireTls, AServerOfAnotherClusterIsNotAsked) {
  const TestCluster other;
  server_options_.credentials = With(proto::ROLE_NODE, other.TrustOf(proto::ROLE_NODE, "n1"));
  Serve(EchoCall);
  ConnectAs(proto::ROLE_CLIENT);
  const Result<RpcReply> reply = Call(1);
  ASSERT_FALSE(reply.has_value());
  EXPECT_EQ(reply.error().code, Code::kDenied);
  EXPECT_THAT(reply.error().message, HasSubstr("not issued by this cluster's authority"));
}

TEST_F(WireTls, AServerWithoutCertificatesIsNotAsked) {
  Serve(EchoCall);
  ConnectAs(proto::ROLE_CLIENT);
  EXPECT_FALSE(Call(1).has_value());
  EXPECT_EQ(server_->counters().calls.load(), 0u);
}

TEST_F(WireTls, UnixSocketsNeedTheSecretAlone) {
  const fakes::TempDir folder;
  server_options_.credentials = With(proto::ROLE_NODE, cluster_.TrustOf(proto::ROLE_NODE, "s1"));
  server_options_.credentials.secret = Secret(std::string(32, 's'));
  Serve(EchoCall, {"unix:" + (folder / "s.sock")});
  Connect(Who(proto::ROLE_CLIENT));
  EXPECT_EQ(AnswerOf(Call(1)), 1u);
}

TEST_F(WireTls, CertificatesLetAServerListenForOtherMachines) {
  ServeAs(proto::ROLE_NODE, EchoCall, {"0.0.0.0:0"});
  address_ = "127.0.0.1" + address_.substr(address_.rfind(':'));
  ConnectAs(proto::ROLE_CLIENT);
  EXPECT_EQ(AnswerOf(Call(1)), 1u);
}

Task<Result<RpcReply>> OpenOnly(ClientPool* pool, std::string address) {
  const Result<std::string> channel = co_await pool->Channel(address, Deadline::After(kPatience));
  if (!channel) co_return Fail(channel.error());
  co_return RpcReply();
}

Task<Result<RpcReply>> CloseAll(std::vector<std::unique_ptr<ClientPool>>* pools) {
  for (const auto& pool : *pools) pool->Close();
  co_return RpcReply();
}

TEST_F(WireTls, ACrowdOfStrangersTakesFewPlacesAndKeepsNoMemberOut) {
  server_options_.first_frame_timeout = kPatience;
  ServeAs(proto::ROLE_COORDINATOR, EchoCall);
  ConnectAs(proto::ROLE_CLIENT);
  ASSERT_TRUE(Run(OpenOnly(client_.get(), address_)).has_value());
  ClientPoolOptions stranger;
  stranger.credentials =
      With(proto::ROLE_STRANGER,
           std::make_shared<Trust>(
               TlsContext::Joining(cluster_.authority().certificate().KeyHash()).value()));
  std::vector<std::unique_ptr<ClientPool>> crowd;
  for (std::size_t i = 0; i < kMaxHalfOpenPerAddress + 6; ++i) {
    crowd.push_back(std::make_unique<ClientPool>(
        client_io_.At(0), stranger, [] { return std::uint64_t{1}; }, [](std::uint64_t) {}));
    const Result<RpcReply> opened = Run(OpenOnly(crowd.back().get(), address_));
    ASSERT_TRUE(opened.has_value()) << "stranger " << i << ": " << opened.error().message;
  }
  EXPECT_TRUE(Eventually(
      [&] { return server_->counters().connections.load() == kMaxHalfOpenPerAddress + 1; }));
  EXPECT_TRUE(Run(OpenOnly(client_.get(), address_)).has_value());
  EXPECT_EQ(server_->counters().accepted.load(), kMaxHalfOpenPerAddress + 7) << "the member stayed";
  EXPECT_TRUE(Run(CloseAll(&crowd)).has_value());
  EXPECT_TRUE(Eventually([&] { return server_->counters().connections.load() == 1; }));
}

Task<Result<RpcReply>> WaitForRelease(std::shared_ptr<Notifier> release,
                                      std::shared_ptr<std::promise<void>> entered, RpcCall call) {
  const auto executor = co_await asio::this_coro::executor;
  Notifier::Ticket ticket = release->Enlist(executor);
  entered->set_value();
  const bool released = co_await ticket.Wait(Deadline::After(kPatience));
  if (!released) co_return Fail(Code::kTimeout, "nobody released the call");
  co_return Echo(NumberOf(call));
}

TEST_F(WireTls, NewCertificatesComeIntoForceWithoutLosingACall) {
  const fakes::TempDir temp;
  const TrustFolder folder(temp / "trust");
  ASSERT_TRUE(folder.Save(cluster_.Member(proto::ROLE_NODE, "s1")).has_value());
  const std::shared_ptr<Trust> trust = Trust::Open(folder, proto::ROLE_NODE).value();
  server_options_.credentials = With(proto::ROLE_NODE, trust);
  auto release = std::make_shared<Notifier>();
  auto entered = std::make_shared<std::promise<void>>();
  Serve([release, entered](RpcCall call) {
    return WaitForRelease(release, entered, std::move(call));
  });
  ConnectAs(proto::ROLE_CLIENT);
  auto reply = Start(Ask(7));
  entered->get_future().wait();
  // The old certificate is of no use any more: whoever connects now must see the new one.
  MemberProof renewed = cluster_.Member(proto::ROLE_NODE, "s1");
  const TestCluster next_authority;
  renewed.authorities.push_back(next_authority.authority().certificate());
  ASSERT_TRUE(folder.Save(renewed).has_value());
  ASSERT_TRUE(trust->Reload().has_value());
  release->NotifyAll();
  EXPECT_EQ(AnswerOf(Await(std::move(reply))), 7u) << "an open connection goes on";
  *entered = std::promise<void>();
  CloseClient();
  ConnectAs(proto::ROLE_CLIENT);
  reply = Start(Ask(8));
  entered->get_future().wait();
  release->NotifyAll();
  EXPECT_EQ(AnswerOf(Await(std::move(reply))), 8u);
}

}  // namespace
}  // namespace forebay
