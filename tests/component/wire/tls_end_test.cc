#include <gmock/gmock.h>

#include <atomic>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>

#include "common/wire/address.h"
#include "common/wire/opening.h"
#include "common/wire/wire_stream.h"
#include "tests/component/wire/wire_fixture.h"
#include "tests/fakes/test_cluster.h"

// How membership ends over connections: certificates that end, are late, or are revoked.
namespace forebay {
namespace {

using testing::HasSubstr;

constexpr std::int64_t kDay = std::int64_t{24} * 60 * 60;

Task<Result<RpcReply>> Answer(RpcCall) { co_return Echo(1); }

class WireEnd : public WireFixture {
 protected:
  std::shared_ptr<Trust> TrustWith(proto::Role role, const std::string& id, std::int64_t issued,
                                   std::int64_t ends) const {
    const std::int64_t early = std::chrono::seconds(kClockTolerance).count();
    const MemberProof member = cluster_.Member(role, id, {issued - early, ends});
    return std::make_shared<Trust>(TlsContext::Of(member).value(), member.self);
  }

  static Credentials With(proto::Role role, std::shared_ptr<const Trust> trust) {
    Credentials credentials = Who(role);
    credentials.trust = std::move(trust);
    return credentials;
  }

  void ServeWith(const std::shared_ptr<Trust>& trust, std::vector<Method> methods) {
    server_io_.Start();
    RpcServerOptions options = server_options_;
    options.listen = {"127.0.0.1:0"};
    options.credentials = With(trust->self().role, trust);
    std::vector<MethodEntry> entries;
    entries.reserve(methods.size());
    for (const Method method : methods) entries.push_back({method, Answer});
    server_ = std::make_unique<RpcServer>(
        server_io_, options, std::move(entries), [] { return std::uint64_t{1}; },
        [](std::uint64_t) {});
    ASSERT_TRUE(server_->Start().has_value());
    address_ = server_->addresses().front();
  }

  static Task<Result<RpcReply>> Pinged(std::string address, Credentials credentials,
                                       std::atomic<bool>* opened);

  const std::int64_t now_ = UnixSeconds();
  const TestCluster cluster_;
};

TEST_F(WireEnd, WithoutACoordinatorACertificateThatEndedIsBelievedForAWhile) {
  // The node's own certificate is the last that it has heard of a coordinator.
  ServeWith(TrustWith(proto::ROLE_NODE, "n1", now_ - 3 * kDay, now_ + kDay), {Method::kReadBlock});
  Connect(With(proto::ROLE_CLIENT,
               TrustWith(proto::ROLE_CLIENT, "c1", now_ - 9 * kDay, now_ - 2 * kDay)));
  EXPECT_EQ(AnswerOf(Call(1)), 1u) << "two days ago: nobody could renew it";
  CloseClient();
  Connect(With(proto::ROLE_CLIENT,
               TrustWith(proto::ROLE_CLIENT, "c2", now_ - 20 * kDay, now_ - 4 * kDay)));
  EXPECT_FALSE(Call(1).has_value()) << "a day before the node's was issued: it could have";
}

TEST_F(WireEnd, ACoordinatorThatAnswersEndsTheGraceAlsoOfWhoIsConnected) {
  const auto trust = TrustWith(proto::ROLE_NODE, "n1", now_ - 3 * kDay, now_ + kDay);
  ServeWith(trust, {Method::kReadBlock});
  Connect(With(proto::ROLE_CLIENT,
               TrustWith(proto::ROLE_CLIENT, "c1", now_ - 9 * kDay, now_ - 2 * kDay)));
  ASSERT_EQ(AnswerOf(Call(1)), 1u);
  for (std::int64_t at = now_ - kDay; at <= now_ - kDay + 3600; at += 60)
    trust->standing().NoteCoordinator(at);
  EXPECT_TRUE(Eventually([this] { return server_->counters().connections.load() == 0; }));
  EXPECT_FALSE(Call(1).has_value());
}

/// A peer that asks once, and then pings for as long as it can, whatever it is told.
Task<Result<RpcReply>> WireEnd::Pinged(std::string address, Credentials credentials,
                                       std::atomic<bool>* opened) {
  const Deadline deadline = Deadline::After(kPatience);
  const auto places = co_await ResolveAddress(address, deadline);
  const asio::any_io_executor executor = co_await asio::this_coro::executor;
  auto socket = std::make_shared<StreamSocket>(executor);
  boost::system::error_code error;
  co_await socket->async_connect(places->front(), asio::redirect_error(asio::use_awaitable, error));
  WireStream stream(socket);
  const Result<OpenedSocket> open = co_await OpenAsClient(stream, credentials, deadline);
  if (!open) co_return Fail(open.error());
  FrameHeader header;
  header.kind = FrameKind::kRequest;
  header.request_id = 1;
  header.method = Method::kReadBlock;
  while (!deadline.Expired()) {
    const auto frame = EncodeFrameHeader(header, "");
    const asio::const_buffer bytes(frame.data(), frame.size());
    co_await stream.WriteAll(bytes, &error);
    if (error) co_return RpcReply();
    *opened = true;
    header = FrameHeader();
    header.kind = FrameKind::kPing;
    co_await SleepFor(std::chrono::milliseconds(10));
  }
  co_return Fail(Code::kTimeout, "nobody closed it");
}

TEST_F(WireEnd, WhoeverStaysOnAfterItsCertificateHasEndedIsClosed) {
  const auto trust = TrustWith(proto::ROLE_NODE, "n1", now_ - 3 * kDay, now_ + kDay);
  server_options_.end_timeout = std::chrono::milliseconds(200);
  ServeWith(trust, {Method::kReadBlock});
  client_io_.Start();
  std::atomic<bool> opened = false;
  const Credentials late = With(
      proto::ROLE_CLIENT, TrustWith(proto::ROLE_CLIENT, "c1", now_ - 9 * kDay, now_ - 2 * kDay));
  auto pinged = Start(Pinged(address_, late, &opened));
  EXPECT_TRUE(Eventually([&] { return opened.load(); }));
  for (std::int64_t at = now_ - kDay; at <= now_ - kDay + 3600; at += 60)
    trust->standing().NoteCoordinator(at);
  EXPECT_TRUE(Eventually([this] { return server_->counters().connections.load() == 0; }));
  const Result<RpcReply> end = Await(std::move(pinged));
  EXPECT_TRUE(end.has_value()) << end.error().message;
}

TEST_F(WireEnd, WhoIsLateMayRenewAtTheCoordinatorAndNothingElse) {
  ServeWith(TrustWith(proto::ROLE_COORDINATOR, "coordinator", now_ - kDay, now_ + kDay),
            {Method::kRenew, Method::kGetRing});
  Connect(
      With(proto::ROLE_NODE, TrustWith(proto::ROLE_NODE, "n1", now_ - 30 * kDay, now_ - 2 * kDay)));
  const Result<RpcReply> other = Call(1, Method::kGetRing);
  ASSERT_FALSE(other.has_value());
  EXPECT_THAT(other.error().message, HasSubstr("renewed first"));
  CloseClient();
  Connect(
      With(proto::ROLE_NODE, TrustWith(proto::ROLE_NODE, "n1", now_ - 30 * kDay, now_ - 2 * kDay)));
  EXPECT_TRUE(Call(1, Method::kRenew).has_value());
  EXPECT_TRUE(Eventually([this] { return server_->counters().connections.load() == 0; }))
      << "it comes again with its new certificate";
  CloseClient();
  Connect(
      With(proto::ROLE_NODE, TrustWith(proto::ROLE_NODE, "n2", now_ - 30 * kDay, now_ - 8 * kDay)));
  EXPECT_FALSE(Call(1, Method::kRenew).has_value()) << "after seven days only a token helps";
}

// A mount that learns of a newer ring asks for it on the connection that its renewal waits for.
TEST_F(WireEnd, WhatTheLateMayNotAskDoesNotCostThemTheirRenewal) {
  ServeWith(TrustWith(proto::ROLE_COORDINATOR, "coordinator", now_ - kDay, now_ + kDay),
            {Method::kRenew, Method::kGetRing});
  Connect(
      With(proto::ROLE_NODE, TrustWith(proto::ROLE_NODE, "n1", now_ - 30 * kDay, now_ - 2 * kDay)));
  auto other = Start(Ask(1, Method::kGetRing));
  auto renewed = Start(Ask(2, Method::kRenew));
  EXPECT_FALSE(Await(std::move(other)).has_value());
  const Result<RpcReply> reply = Await(std::move(renewed));
  EXPECT_TRUE(reply.has_value()) << reply.error().message;
  EXPECT_TRUE(Eventually([this] { return server_->counters().connections.load() == 0; }));
}

// Also of who has stolen the old key: his connections would outlive it.
TEST_F(WireEnd, WhoseAuthorityIsBelievedNoMoreIsEndedAlsoWhileConnected) {
  const auto trust = TrustWith(proto::ROLE_NODE, "n1", now_, now_ + kDay);
  const std::string hash = cluster_.authority().certificate().KeyHash();
  trust->standing().SetBelieved({"another", hash});
  ServeWith(trust, {Method::kReadBlock});
  Connect(With(proto::ROLE_CLIENT, TrustWith(proto::ROLE_CLIENT, "c1", now_, now_ + kDay)));
  ASSERT_EQ(AnswerOf(Call(1)), 1u);
  trust->standing().SetBelieved({hash, "another"});
  ASSERT_EQ(AnswerOf(Call(1)), 1u);
  EXPECT_EQ(server_->counters().connections.load(), 1u);
  trust->standing().SetBelieved({"another"});
  EXPECT_TRUE(Eventually([this] { return server_->counters().connections.load() == 0; }));
}

TEST_F(WireEnd, ARevokedClientIsCutOffAndNotLetInAgain) {
  const auto trust = TrustWith(proto::ROLE_NODE, "n1", now_ - kDay, now_ + kDay);
  ServeWith(trust, {Method::kReadBlock});
  const auto revoked = TrustWith(proto::ROLE_CLIENT, "c1", now_ - kDay, now_ + kDay);
  Connect(With(proto::ROLE_CLIENT, revoked));
  ASSERT_EQ(AnswerOf(Call(1)), 1u);
  trust->standing().SetRevoked({{proto::ROLE_CLIENT, "c1", now_}});
  EXPECT_TRUE(Eventually([this] { return server_->counters().connections.load() == 0; }))
      << "a connection that was open";
  EXPECT_FALSE(Call(1).has_value());
  CloseClient();
  Connect(With(proto::ROLE_CLIENT, TrustWith(proto::ROLE_CLIENT, "c1", now_ + 1, now_ + kDay)));
  EXPECT_EQ(AnswerOf(Call(1)), 1u) << "it joined again";
}

TEST_F(WireEnd, ARevokedNodeIsNotAskedAnyMore) {
  ServeWith(TrustWith(proto::ROLE_NODE, "n1", now_ - kDay, now_ + kDay), {Method::kReadBlock});
  const auto trust = TrustWith(proto::ROLE_CLIENT, "c1", now_ - kDay, now_ + kDay);
  Connect(With(proto::ROLE_CLIENT, trust));
  ASSERT_EQ(AnswerOf(Call(1)), 1u);
  trust->standing().SetRevoked({{proto::ROLE_NODE, "n1", now_}});
  const std::uint64_t calls = server_->counters().calls.load();
  const Result<RpcReply> reply = Call(1);
  ASSERT_FALSE(reply.has_value());
  EXPECT_THAT(reply.error().message, HasSubstr("revoked"));
  EXPECT_EQ(server_->counters().calls.load(), calls);
}

}  // namespace
}  // namespace forebay
