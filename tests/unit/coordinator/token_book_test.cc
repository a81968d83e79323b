#include "coordinator/token_book.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>

#include "common/base/files.h"
#include "common/trust/join_token.h"
#include "common/trust/token_record.h"
#include "tests/fakes/temp_dir.h"
#include "tests/fakes/test_cluster.h"
#include "tests/unit/coordinator/testing.h"

namespace forebay {
namespace {

using testing::HasSubstr;

constexpr std::int64_t kHour = 3600;
const std::string kChannel(32, 'c');

class TokenBookTest : public testing::Test {
 protected:
  proto::CreateTokenReply Create(const std::string& role = "node", std::uint32_t uses = 1) {
    proto::CreateTokenRequest request;
    request.set_role(role);
    request.set_uses(uses);
    request.set_valid_s(kHour);
    return book_.Create(request, now_).value();
  }

  /// As a good machine asks.
  static proto::JoinRequest RequestWith(const std::string& text, std::int64_t clock) {
    const JoinToken token = JoinToken::Parse(text).value();
    proto::JoinRequest request;
    request.set_token_id(token.id);
    request.set_request(MakeRequest(PrivateKey::Generate().value()).value());
    request.set_proof(JoinProof(token.secret, kChannel, request.request()));
    request.set_id("m1");
    request.set_clock_unix_s(clock);
    return request;
  }

  static Issuer IssuerOf(const TestCluster& cluster) {
    return {.authority = std::make_shared<const Authority>(cluster.authority()),
            .believed = cluster.authority().certificate().ToPem()};
  }

  std::uint32_t UsesLeft() { return book_.All(now_).value().at(0).uses_left(); }

  void ExpectRefused(const Result<proto::JoinReply>& reply, const std::string& sentence) {
    ASSERT_FALSE(reply.has_value()) << sentence;
    EXPECT_THAT(reply.error().message, HasSubstr(sentence));
  }

  const std::int64_t now_ = UnixSeconds();
  const TestCluster cluster_;
  MemoryStateStore store_;
  TokenBook book_{store_, store_.Claim().value(), cluster_.id,
                  [this] { return IssuerOf(cluster_); }};
};

TEST_F(TokenBookTest, AGoodTokenMakesAMember) {
  const proto::CreateTokenReply created = Create();
  const Result<proto::JoinReply> reply =
      book_.Redeem(RequestWith(created.text(), now_), kChannel, now_);
  ASSERT_TRUE(reply.has_value()) << reply.error().message;
  const Certificate certificate = Certificate::FromPem(reply->certificate()).value();
  const Result<Identity> believed =
      VerifyMember(certificate, cluster_.OwnBelief(), Purpose::kIsConnectedTo, now_);
  ASSERT_TRUE(believed.has_value()) << believed.error().message;
  const Identity member{.cluster = cluster_.id, .role = proto::ROLE_NODE, .id = "m1"};
  EXPECT_EQ(*believed, member);
  EXPECT_EQ(JoinToken::Parse(created.text())->authority_hash,
            Certificate::FromPem(reply->authorities())->KeyHash());
}

TEST_F(TokenBookTest, WhatIsIssuedInTheSecondOfARevocationIsIssuedBehindIt) {
  TokenBook book(store_, store_.Claim().value(), cluster_.id, [this] {
    Issuer issuer = IssuerOf(cluster_);
    issuer.revoked = {{.role = proto::ROLE_NODE, .id = "m1", .until_unix_s = now_}};
    return issuer;
  });
  proto::CreateTokenRequest token;
  token.set_role("node");
  token.set_uses(1);
  token.set_valid_s(kHour);
  const proto::CreateTokenReply created = book.Create(token, now_).value();
  const auto reply = book.Redeem(RequestWith(created.text(), now_), kChannel, now_);
  ASSERT_TRUE(reply.has_value()) << reply.error().message;
  const Certificate certificate = Certificate::FromPem(reply->certificate()).value();
  EXPECT_EQ(certificate.issued_unix_s(), now_ + 1);
  EXPECT_TRUE(VerifyMember(certificate, cluster_.OwnBelief(), Purpose::kIsConnectedTo, now_));
}

TEST_F(TokenBookTest, ATokenIsGoodForItsUsesAlone) {
  const proto::CreateTokenReply created = Create("client", 2);
  const auto join = [&] { return book_.Redeem(RequestWith(created.text(), now_), kChannel, now_); };
  EXPECT_TRUE(join().has_value());
  EXPECT_TRUE(join().has_value());
  ExpectRefused(join(), "used up: 2 machines joined");
  EXPECT_EQ(UsesLeft(), 0u);
}

TEST_F(TokenBookTest, WhatIsWrongIsSaidAndUsesNothing) {
  const std::string text = Create().text();
  using Change = std::function<void(proto::JoinRequest&)>;
  const auto refused = [&](const Change& change, const std::string& sentence,
                           const std::string& channel = kChannel) {
    proto::JoinRequest request = RequestWith(text, now_);
    change(request);
    ExpectRefused(book_.Redeem(request, channel, now_), sentence);
    EXPECT_EQ(UsesLeft(), 1u) << sentence;
  };
  const Change nothing = [](auto&) {};
  refused(nothing, "was not proved", std::string(32, 'x'));
  refused(nothing, "over TLS", "");
  refused([](auto& r) { r.set_proof(std::string(32, 'p')); }, "was not proved");
  refused([](auto& r) { r.clear_proof(); }, "was not proved");
  refused([](auto& r) { r.set_request(r.request() + "x"); }, "was not proved");
  refused([](auto& r) { r.set_token_id("0123456789ab"); }, "no token 0123456789ab");
  refused([](auto& r) { r.set_token_id("../cluster/uuid"); }, "no such token");
  refused([](auto& r) { r.set_role("client"); }, "is for a node, and not for a client");
  refused([](auto& r) { r.set_role("root"); }, "is for a node, and not for what was asked");
  refused([](auto& r) { r.set_id("a/b"); }, "is no id");
  refused([&](auto& r) { r.set_clock_unix_s(now_ + kHour); }, "clock says");
  refused([&](auto& r) { r.set_clock_unix_s(now_ - kHour); }, "clock says");
  for (const std::int64_t clock : {INT64_MIN, INT64_MAX})
    refused([&](auto& r) { r.set_clock_unix_s(clock); }, "clock says");
  EXPECT_TRUE(book_.Redeem(RequestWith(text, now_ - 60), kChannel, now_).has_value());
}

TEST_F(TokenBookTest, ATokenEndsAndIsForgottenLater) {
  const std::string text = Create().text();
  const std::int64_t late = now_ + kHour;
  ExpectRefused(book_.Redeem(RequestWith(text, late), kChannel, late), "ended at");
  EXPECT_EQ(book_.All(late)->size(), 1u);
  EXPECT_TRUE(book_.All(late + std::int64_t{8} * 24 * kHour)->empty());
  ExpectRefused(book_.Redeem(RequestWith(text, late), kChannel, late), "no token");
}

TEST_F(TokenBookTest, ARevokedTokenIsOfNoUse) {
  const proto::CreateTokenReply created = Create();
  EXPECT_TRUE(book_.Revoke(created.token().id())->changed());
  EXPECT_FALSE(book_.Revoke(created.token().id())->changed());
  ExpectRefused(book_.Redeem(RequestWith(created.text(), now_), kChannel, now_), "was revoked");
  EXPECT_EQ(book_.Revoke("0123456789ab").error().code, Code::kNotFound);
}

TEST_F(TokenBookTest, TokensHaveBounds) {
  proto::CreateTokenRequest request;
  const auto code = [&](const std::string& role, std::uint32_t uses, std::uint32_t valid_s) {
    request.set_role(role);
    request.set_uses(uses);
    request.set_valid_s(valid_s);
    const auto created = book_.Create(request, now_);
    return created ? std::optional<Code>() : created.error().code;
  };
  EXPECT_EQ(code("admin", 1, 60), std::nullopt);
  EXPECT_EQ(code("coordinator", 1, 60), Code::kInvalid);
  EXPECT_EQ(code("", 1, 60), Code::kInvalid);
  EXPECT_EQ(code("node", 0, 60), Code::kInvalid);
  EXPECT_EQ(code("node", 1'000'000, 60), Code::kInvalid);
  EXPECT_EQ(code("node", 1, 0), Code::kInvalid);
  EXPECT_EQ(code("node", 1, kLongestTokenSeconds + 1), Code::kInvalid);
}

TEST_F(TokenBookTest, ATokensLinksStandInTheCertificate) {
  proto::CreateTokenRequest request;
  request.set_role("client");
  request.set_uses(1);
  request.set_valid_s(kHour);
  request.add_links("a");
  request.add_links("b");
  const Result<proto::CreateTokenReply> created = book_.Create(request, now_);
  ASSERT_TRUE(created.has_value()) << created.error().message;
  const Result<proto::JoinReply> reply =
      book_.Redeem(RequestWith(created->text(), now_), kChannel, now_);
  ASSERT_TRUE(reply.has_value()) << reply.error().message;
  const Certificate certificate = Certificate::FromPem(reply->certificate()).value();
  EXPECT_EQ(certificate.Links().value(), (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(certificate.ends_unix_s(), now_ + std::chrono::seconds(kGrantLifetime).count());
  request.set_role("node");
  EXPECT_THAT(book_.Create(request, now_).error().message, HasSubstr("tokens of clients"));
  request.set_role("client");
  request.add_links("a,b");
  EXPECT_THAT(book_.Create(request, now_).error().message, HasSubstr("comma"));
}

TEST_F(TokenBookTest, AViewerJoinsAsNothingElseAndSeesAllLinks) {
  const auto reply = book_.Redeem(RequestWith(Create("viewer").text(), now_), kChannel, now_);
  ASSERT_TRUE(reply.has_value()) << reply.error().message;
  const Certificate certificate = Certificate::FromPem(reply->certificate()).value();
  const Identity member{.cluster = cluster_.id, .role = proto::ROLE_VIEWER, .id = "m1"};
  EXPECT_EQ(VerifyMember(certificate, cluster_.OwnBelief(), Purpose::kConnects, now_), member);
  EXPECT_FALSE(VerifyMember(certificate, cluster_.OwnBelief(), Purpose::kIsConnectedTo, now_))
      << "nobody believes that it serves";
  proto::CreateTokenRequest bounded;
  bounded.set_role("viewer");
  bounded.set_uses(1);
  bounded.set_valid_s(kHour);
  bounded.add_links("a");
  EXPECT_THAT(book_.Create(bounded, now_).error().message, HasSubstr("tokens of clients"));
}

TEST_F(TokenBookTest, TheFirstTokenIsTakenOnce) {
  const fakes::TempDir folder;
  const std::string file = folder / "first_token";
  EXPECT_TRUE(book_.TakeFirst(file).has_value()) << "there need be none";
  proto::CreateTokenRequest request;
  request.set_role("node");
  request.set_uses(1);
  request.set_valid_s(kHour);
  const NewToken token =
      MakeJoinToken(request, cluster_.authority().certificate().KeyHash(), now_).value();
  const std::string bytes = token.record.SerializeAsString();
  const std::string text(token.text.Reveal());
  ASSERT_TRUE(WriteFileAtomically(file, bytes).has_value());
  ASSERT_TRUE(book_.TakeFirst(file).has_value());
  EXPECT_FALSE(std::filesystem::exists(file));
  EXPECT_TRUE(book_.Redeem(RequestWith(text, now_), kChannel, now_).has_value());
  // The file of a coordinator that was killed before it was gone: its use stays used.
  ASSERT_TRUE(WriteFileAtomically(file, bytes).has_value());
  ASSERT_TRUE(book_.TakeFirst(file).has_value());
  ExpectRefused(book_.Redeem(RequestWith(text, now_), kChannel, now_), "used up");
}

TEST_F(TokenBookTest, WithoutAnAuthorityNobodyJoins) {
  TokenBook none(store_, store_.Claim().value(), cluster_.id, [] { return Issuer(); });
  proto::CreateTokenRequest request;
  EXPECT_THAT(none.Create(request, now_).error().message, HasSubstr("forebay init"));
  ExpectRefused(none.Redeem({}, kChannel, now_), "forebay init");
}

TEST_F(TokenBookTest, WhatAReplacedAuthorityHasMadeIsSaidToBeOfNoUse) {
  const TestCluster next;
  bool replaced = false;
  TokenBook book(store_, store_.Claim().value(), cluster_.id,
                 [&] { return IssuerOf(replaced ? next : cluster_); });
  proto::CreateTokenRequest request;
  request.set_role("node");
  request.set_uses(1);
  request.set_valid_s(kHour);
  const proto::CreateTokenReply created = book.Create(request, now_).value();
  EXPECT_FALSE(book.All(now_).value().at(0).outdated());
  replaced = true;
  EXPECT_TRUE(book.All(now_).value().at(0).outdated());
  ASSERT_TRUE(book.Create(request, now_).has_value());
  EXPECT_EQ(std::ranges::count_if(book.All(now_).value(), &proto::TokenState::outdated), 1);
  EXPECT_TRUE(book.Revoke(created.token().id())->token().outdated());
}

}  // namespace
}  // namespace forebay
