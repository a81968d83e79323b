// Who may open a connection, and how many may try.
#include <gtest/gtest.h>
#include <sys/resource.h>

#include "common/wire/turned_away.h"
#include "proto/common.pb.h"
#include "tests/component/wire/raw_peer.h"
#include "tests/component/wire/wire_fixture.h"
#include "tests/fakes/test_cluster.h"

namespace forebay {
namespace {

// Sanitizers make a connection, not the rule, expensive.
#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
constexpr std::size_t kCrowd = 500;
#else
constexpr std::size_t kCrowd = 4000;
#endif
#else
constexpr std::size_t kCrowd = 4000;
#endif

class Crowd : public WireFixture {
 protected:
  Crowd() {
    // Both ends of each connection are in this process.
    rlimit limit{};
    getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
    // Nothing in these tests may end by waiting.
    server_options_.handshake_timeout = std::chrono::minutes(10);
  }

  static std::size_t OpenOf(const std::vector<RawPeer>& peers) {
    return static_cast<std::size_t>(
        std::ranges::count_if(peers, [](const RawPeer& peer) { return peer.IsOpen(); }));
  }
};

TEST_F(Crowd, OneMoreHandshakeEndsTheOldestOfItsAddress) {
  Serve(EchoCall);
  Connect();
  std::vector<RawPeer> peers;
  peers.reserve(kMaxHalfOpenPerAddress);
  for (std::size_t i = 0; i < kMaxHalfOpenPerAddress; ++i)
    peers.push_back(RawPeer::ConnectTo(address_));
  EXPECT_TRUE(Eventually([this] { return server_->counters().accepted.load() == 64; }));
  EXPECT_EQ(OpenOf(peers), kMaxHalfOpenPerAddress);
  EXPECT_EQ(AnswerOf(Call(1)), 1u);
  EXPECT_TRUE(peers.front().Ends());
  EXPECT_EQ(OpenOf(peers), kMaxHalfOpenPerAddress - 1);
}

TEST_F(Crowd, ThousandsOfSlowConnectionsLeaveHonestClientsTheirAnswers) {
  Serve(EchoCall);
  Connect();
  EXPECT_EQ(AnswerOf(Call(1)), 1u);
  std::vector<RawPeer> peers;
  std::uint32_t answers = 0;
  for (std::size_t i = 0; i < kCrowd; ++i) {
    peers.push_back(RawPeer::ConnectTo(address_));
    ASSERT_TRUE(peers.back().connected()) << i;
    peers.back().Send("FBY1");
    if (i % 50 == 0) answers += AnswerOf(Call(1));
  }
  EXPECT_EQ(answers, kCrowd / 50);
  // A program that comes only now is let in as well.
  CloseClient();
  Connect();
  EXPECT_EQ(AnswerOf(Call(2)), 2u);
  EXPECT_TRUE(Eventually([&] { return OpenOf(peers) < kMaxHalfOpenPerAddress; }));
  EXPECT_TRUE(Eventually([this] { return server_->counters().connections.load() == 1; }));
}

// Each of another address, as nobody's network lacks them.
TEST_F(Crowd, ThoseWhoSayNothingTakeHalfOfTheConnectionsFromHoweverManyAddresses) {
  constexpr std::uint8_t kMost = 8;
  server_options_.max_connections = kMost;
  Serve(EchoCall);
  std::vector<RawPeer> peers;
  for (std::uint8_t i = 1; i <= 3 * kMost; ++i) {
    peers.push_back(RawPeer::ConnectFrom(i, address_));
    ASSERT_TRUE(peers.back().connected()) << int{i};
    const std::uint64_t accepted = i;
    ASSERT_TRUE(Eventually([&] { return server_->counters().accepted.load() == accepted; }));
    ASSERT_TRUE(Eventually([&] { return OpenOf(peers) <= kMost / 2; })) << int{i};
  }
  EXPECT_TRUE(peers.back().IsOpen()) << "the oldest make way";
  Connect();
  EXPECT_EQ(AnswerOf(Call(1)), 1u);
}

// Members have nearly all connections, and silent strangers the rest of them.
TEST_F(Crowd, ThoseWhoSayNothingKeepOutNoMemberHoweverManyThereAre) {
  constexpr std::uint8_t kMost = 8;
  server_options_.max_connections = kMost;
  Serve(EchoCall);
  std::vector<RawPeer> members;
  members.reserve(kMost);
  std::vector<RawPeer> silent;
  silent.reserve(std::size_t{kMost} * kMost);
  std::uint64_t accepted = 0;
  const auto all_accepted = [&] { return server_->counters().accepted.load() == accepted; };
  for (std::uint8_t i = 1; i <= kMost; ++i) {
    members.push_back(RawPeer::ConnectTo(address_));
    ASSERT_TRUE(members.back().OpenAsClient(Who(proto::ROLE_CLIENT))) << int{i};
    accepted += 1 + std::uint64_t{kMost};
    for (std::uint8_t k = 0; k < kMost; ++k) {
      silent.push_back(RawPeer::ConnectFrom(static_cast<std::uint8_t>(i * kMost + k), address_));
      ASSERT_TRUE(silent.back().connected());
    }
    ASSERT_TRUE(Eventually(all_accepted));
  }
  EXPECT_TRUE(Eventually([this] { return server_->counters().connections.load() == kMost; }));
  EXPECT_EQ(OpenOf(members), kMost);
  EXPECT_TRUE(Eventually([&] { return OpenOf(silent) == 0; })) << "there is no room for them";
}

TEST_F(Crowd, ThereAreNeverMoreConnectionsThanAllowed) {
  server_options_.max_connections = 3;
  Serve(EchoCall);
  std::vector<RawPeer> peers;
  peers.reserve(3);
  for (int i = 0; i < 2; ++i) {
    peers.push_back(RawPeer::ConnectTo(address_));
    ASSERT_TRUE(peers.back().OpenAsClient(Who(proto::ROLE_CLIENT)));
  }
  EXPECT_TRUE(Eventually([this] { return server_->counters().connections.load() == 2; }));
  const RawPeer halfway = RawPeer::ConnectTo(address_);
  EXPECT_TRUE(Eventually([this] { return server_->counters().accepted.load() == 3; }));
  EXPECT_TRUE(halfway.IsOpen());
  peers.push_back(RawPeer::ConnectTo(address_));
  ASSERT_TRUE(peers.back().OpenAsClient(Who(proto::ROLE_CLIENT)));
  EXPECT_TRUE(halfway.Ends()) << "it has proved nothing, and makes way";
  EXPECT_TRUE(Eventually([this] { return server_->counters().connections.load() == 3; }));
  const RawPeer too_many = RawPeer::ConnectTo(address_);
  EXPECT_TRUE(too_many.Ends());
  EXPECT_EQ(OpenOf(peers), 3u);
}

// One place for handshakes alone, so that each would close the one before it.
TEST_F(Crowd, WhoeverIsLetInMakesWayForNoHandshake) {
  server_options_.max_connections = 3;
  Serve(EchoCall);
  std::vector<RawPeer> peers;
  constexpr int kRounds = 50;
  for (int i = 0; i < kRounds; ++i) {
    peers.push_back(RawPeer::ConnectTo(address_));
    ASSERT_TRUE(peers.back().OpenAsClient(Who(proto::ROLE_CLIENT))) << i;
    const RawPeer next = RawPeer::ConnectTo(address_);
    const std::uint64_t accepted = 2 * static_cast<std::uint64_t>(i) + 2;
    ASSERT_TRUE(Eventually([&] { return server_->counters().accepted.load() == accepted; }));
    ASSERT_TRUE(Eventually([&] { return server_->counters().connections.load() == 1; })) << i;
    EXPECT_TRUE(peers.back().IsOpen()) << i;
    peers.clear();
    ASSERT_TRUE(Eventually([&] { return server_->counters().connections.load() == 0; })) << i;
  }
}

TEST_F(Crowd, AMemberHasItsShareOfTheConnectionsAndKeepsOutNoOther) {
  const TestCluster cluster;
  const auto with = [&](proto::Role role, const std::string& id) {
    Credentials credentials = Who(role);
    credentials.trust = cluster.TrustOf(role, id);
    return credentials;
  };
  constexpr std::size_t kShare = 3;
  server_options_.max_connections = kShare * kMemberShares;
  server_options_.credentials = with(proto::ROLE_NODE, "s1");
  Serve(EchoCall);
  client_io_.Start();
  const auto program_of = [&](const std::string& id) {
    ClientPoolOptions options;
    options.credentials = with(proto::ROLE_CLIENT, id);
    return std::make_unique<ClientPool>(
        client_io_.At(0), options, [] { return std::uint64_t{1}; }, [](std::uint64_t) {});
  };
  const auto ask = [&](ClientPool& pool) {
    return Run([](ClientPool* from, std::string address) -> Task<Result<RpcReply>> {
      proto::ReadBlockRequest request;
      Result<RpcReply> reply =
          co_await from->Call(address, Method::kReadBlock, request, Deadline::After(kPatience));
      co_return reply;
    }(&pool, address_));
  };
  const auto close = [&](ClientPool* pool) {
    const Result<RpcReply> closing = Run([](ClientPool* closed) -> Task<Result<RpcReply>> {
      closed->Close();
      co_return RpcReply();
    }(pool));
    EXPECT_TRUE(closing.has_value());
  };
  std::vector<std::unique_ptr<ClientPool>> greedy;
  for (std::size_t i = 0; i < kShare; ++i) {
    greedy.push_back(program_of("greedy"));
    ASSERT_TRUE(ask(*greedy.back()).has_value());
  }
  const auto one_too_many = program_of("greedy");
  const Result<RpcReply> refused = ask(*one_too_many);
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code, Code::kUnavailable) << "another node may have room";
  EXPECT_NE(refused.error().message.find("client greedy has 3 connections"), std::string::npos)
      << refused.error().message;
  EXPECT_TRUE(Eventually([this] { return server_->counters().handshakes_refused.load() == 1; }));
  const auto other = program_of("other");
  EXPECT_TRUE(ask(*other).has_value());
  close(greedy.front().get());
  const auto comes_later = program_of("greedy");
  EXPECT_TRUE(Eventually([&] { return ask(*comes_later).has_value(); }))
      << "what it has closed it may have again";
  for (const auto& pool : greedy) close(pool.get());
  for (ClientPool* pool : {one_too_many.get(), other.get(), comes_later.get()}) close(pool);
}

TEST(TurnedAway, TheLogHasALineAMinuteAndNoneIsForgotten) {
  TurnedAway away;
  const TimePoint now = Clock::now();
  EXPECT_EQ(away.Note("it is full", now),
            "connections turned away: 1; the last because it is full");
  for (int i = 0; i < 59; ++i) EXPECT_FALSE(away.Note("it is full", now + std::chrono::seconds(i)));
  EXPECT_EQ(away.Note("of c1", now + std::chrono::minutes(1)),
            "connections turned away: 60; the last because of c1");
}

struct Refusal {
  int code = 0;  ///< 0: the server went on.
  std::string why;
};

/// What a server answers to a hello that `change` has made wrong.
Refusal RefusedFor(const std::string& address, const Credentials& credentials,
                   const std::function<void(proto::ClientHello&)>& change) {
  const RawPeer peer = RawPeer::ConnectTo(address);
  proto::ClientHello hello;
  hello.set_version_min(kWireVersion);
  hello.set_version_max(kWireVersion);
  hello.set_role(credentials.role);
  hello.set_nonce(NewNonce());
  hello.set_program(credentials.program);
  change(hello);
  peer.Send(FrameBytes(HeaderOf(FrameKind::kHandshake), hello.SerializeAsString()));
  const std::optional<RawFrame> answer = peer.Read();
  if (!answer || answer->header.kind == FrameKind::kHandshake) return {};
  proto::ErrorDetail detail;
  EXPECT_TRUE(ParseMessage(answer->message, detail).has_value());
  EXPECT_FALSE(detail.message().empty());
  EXPECT_TRUE(peer.Ends());
  return {.code = answer->header.code, .why = detail.message()};
}

int RefusalOf(const std::string& address, const Credentials& credentials,
              const std::function<void(proto::ClientHello&)>& change) {
  return RefusedFor(address, credentials, change).code;
}

TEST_F(Crowd, AWrongHelloIsRefusedWithAReason) {
  server_options_.credentials = Who(proto::ROLE_NODE);
  server_options_.credentials.cluster = Uuid::Random();
  Serve(EchoCall);
  constexpr int kDeniedCode = 7;  // docs/WIRE.md
  constexpr int kInvalidCode = 8;
  const Credentials client = Who(proto::ROLE_CLIENT);
  using Hello = proto::ClientHello;
  EXPECT_EQ(RefusalOf(address_, client, [](Hello&) {}), 0);
  EXPECT_EQ(RefusalOf(address_, client, [](Hello& h) { h.set_cluster(std::string(16, 'c')); }),
            kDeniedCode);
  EXPECT_EQ(RefusalOf(address_, client, [](Hello& h) { h.set_cluster("short"); }), kDeniedCode);
  EXPECT_EQ(RefusalOf(address_, client, [](Hello& h) { h.set_version_max(0); }), kInvalidCode);
  EXPECT_EQ(RefusalOf(address_, client, [](Hello& h) { h.set_version_min(2); }), kInvalidCode);
  EXPECT_EQ(RefusalOf(address_, client, [](Hello& h) { h.set_nonce("short"); }), kInvalidCode);
  EXPECT_EQ(RefusalOf(address_, client, [](Hello& h) { h.clear_role(); }), kInvalidCode);
  EXPECT_EQ(RefusalOf(address_, client, [](Hello& h) { h.set_role(static_cast<proto::Role>(9)); }),
            kInvalidCode);
  EXPECT_EQ(RefusalOf(address_, client, [](Hello& h) { h.set_program("a\nfalse line in a log"); }),
            kInvalidCode);
  EXPECT_EQ(RefusalOf(address_, client, [](Hello& h) { h.set_peer_id(std::string(2000, 'x')); }),
            kInvalidCode);
}

// What a newer release does here: it says which versions it speaks, and the older server chooses
// the one that both do.
TEST_F(Crowd, ANewerProgramIsLetInWhereOneOfItsVersionsIsOurs) {
  Serve(EchoCall);
  const Credentials client = Who(proto::ROLE_CLIENT);
  using Hello = proto::ClientHello;
  EXPECT_EQ(RefusalOf(address_, client, [](Hello& h) { h.set_version_max(kWireVersion + 1); }), 0);
  const Refusal refusal = RefusedFor(address_, client, [](Hello& h) {
    h.set_version_min(kWireVersion + 1);
    h.set_version_max(kWireVersion + 2);
  });
  EXPECT_NE(refusal.why.find("speaks wire versions 2 to 3, "), std::string::npos) << refusal.why;
  EXPECT_NE(refusal.why.find("speaks 1: install matching versions"), std::string::npos)
      << refusal.why;
}

TEST_F(Crowd, AProofOfOtherWordsIsNoProof) {
  Serve(EchoCall);
  const Credentials client = Who(proto::ROLE_CLIENT);
  const std::function<void(proto::ClientHello&)> changes[] = {
      [](proto::ClientHello& hello) { hello.set_role(proto::ROLE_ADMIN); },
      [](proto::ClientHello& hello) { hello.set_nonce(std::string(32, 'n')); },
      [](proto::ClientHello& hello) { hello.set_peer_id("somebody else"); },
      [](proto::ClientHello& hello) { hello.set_version_max(kWireVersion + 1); }};
  for (const auto& change : changes) {
    const RawPeer peer = RawPeer::ConnectTo(address_);
    EXPECT_FALSE(peer.OpenAsClient(client, change));
    EXPECT_TRUE(peer.Ends());
  }
  EXPECT_TRUE(Eventually([this] { return server_->counters().handshakes_refused.load() == 4; }));
  EXPECT_EQ(server_->counters().connections.load(), 0u);
}

}  // namespace
}  // namespace forebay
