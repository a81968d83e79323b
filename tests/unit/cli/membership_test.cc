// init and token.
#include "cli/membership.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <boost/json/parse.hpp>
#include <filesystem>

#include "common/base/files.h"
#include "common/base/wall_clock.h"
#include "common/config/trust_config.h"
#include "common/trust/join_token.h"
#include "common/trust/trust_folder.h"
#include "tests/fakes/temp_dir.h"
#include "tests/fakes/test_cluster.h"
#include "tests/unit/cli/json_doc.h"
#include "tests/unit/cli/scripted_session.h"

namespace forebay::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class Init : public ::testing::Test {
 protected:
  Ran RunInit(std::vector<std::string> words = {}) {
    words.insert(words.begin(), {"init", "--trust-dir", folder_.path(), "--advertise", "c1:7440"});
    return RunForebay(session_, words);
  }

  const fakes::TempDir temp_;
  const TrustFolder folder_{temp_ / "trust"};
  ScriptedSession session_;
};

TEST_F(Init, MakesAClusterAndPrintsOneLineToJoinIt) {
  const Ran ran = RunInit();
  ASSERT_EQ(ran.exit, 0) << ran.err;
  const std::string begin = "forebay join c1:7440 --token ";
  ASSERT_TRUE(ran.out.starts_with(begin)) << ran.out;
  EXPECT_EQ(std::count(ran.out.begin(), ran.out.end(), '\n'), 1);
  const Result<JoinToken> token =
      JoinToken::Parse(ran.out.substr(begin.size(), ran.out.size() - begin.size() - 1));
  ASSERT_TRUE(token.has_value()) << token.error().message;
  const Result<Authority> authority = folder_.LoadAuthority();
  ASSERT_TRUE(authority.has_value()) << authority.error().message;
  EXPECT_EQ(token->authority_hash, authority->certificate().KeyHash());
  for (const proto::Role role : {proto::ROLE_COORDINATOR, proto::ROLE_ADMIN}) {
    const Result<MemberProof> member = folder_.Load(role);
    ASSERT_TRUE(member.has_value()) << member.error().message;
    const Belief belief{.authorities = {authority->certificate()}, .cluster = member->self.cluster};
    EXPECT_TRUE(VerifyMember(member->certificate, belief, Purpose::kConnects, UnixSeconds()));
  }
  EXPECT_EQ(session_.calls(), 0u);
}

TEST_F(Init, HasTheCoordinatorListenWhereOthersReachIt) {
  const Ran ran = RunInit();
  const std::string config = temp_ / "forebay.toml";
  EXPECT_THAT(ran.err, HasSubstr(config + " says now [trust] dir = \"" + folder_.path() +
                                 "\", [coordinator] listen = \"0.0.0.0:7440\"\n"));
  const Result<std::string> text = ReadWholeFile(config);
  ASSERT_TRUE(text.has_value());
  EXPECT_THAT(*text, HasSubstr("[coordinator]\n# By forebay init.\nlisten = \"0.0.0.0:7440\"\n"));
}

TEST_F(Init, WritesNoConfigurationForLoopback) {
  const Ran ran = RunForebay(
      session_, {"init", "--trust-dir", folder_.path(), "--advertise", "127.0.0.1:7440"});
  EXPECT_EQ(ran.exit, 0) << ran.err;
  EXPECT_THAT(ran.err, HasSubstr("with a --listen address"));
  EXPECT_FALSE(std::filesystem::exists(temp_ / "forebay.toml"));
}

TEST_F(Init, ASecondTimeChangesNothing) {
  ASSERT_EQ(RunInit().exit, 0);
  const MemberProof first = folder_.Load(proto::ROLE_ADMIN).value();
  const Ran again = RunInit();
  EXPECT_EQ(again.exit, 0);
  EXPECT_THAT(again.out, HasSubstr(first.self.cluster.ToString()));
  EXPECT_EQ(folder_.Load(proto::ROLE_ADMIN)->certificate.ToPem(), first.certificate.ToPem());
  EXPECT_EQ(RunInit({"--cluster", Uuid::Random().ToString()}).exit, 2);
}

TEST_F(Init, RenewsCertificatesAThirdOfWhoseTimeIsOver) {
  ASSERT_EQ(RunInit().exit, 0);
  const Authority authority = folder_.LoadAuthority().value();
  MemberProof old = folder_.Load(proto::ROLE_COORDINATOR).value();
  const std::int64_t now = UnixSeconds();
  const std::int64_t life = std::chrono::seconds(kMemberLifetime).count();
  old.certificate = authority
                        .Issue(MakeRequest(old.key).value(), old.self,
                               {now - life / 3 - 1 - kClockTolerance / std::chrono::seconds(1),
                                now + life * 2 / 3 - 1})
                        .value();
  ASSERT_TRUE(folder_.Save(old).has_value());
  const std::string admin = folder_.Load(proto::ROLE_ADMIN)->certificate.ToPem();
  const Ran again = RunInit();
  EXPECT_EQ(again.exit, 0) << again.err;
  EXPECT_THAT(again.out, HasSubstr("by itself"));
  const MemberProof renewed = folder_.Load(proto::ROLE_COORDINATOR).value();
  EXPECT_EQ(renewed.self, old.self);
  EXPECT_GE(renewed.certificate.ends_unix_s(), now + life);
  EXPECT_EQ(folder_.Load(proto::ROLE_ADMIN)->certificate.ToPem(), admin) << "it was young";
}

TEST_F(Init, TakesTheStepsToANewAuthority) {
  EXPECT_EQ(RunInit({"--rotate-ca"}).exit, 2) << "there is none yet";
  ASSERT_EQ(RunInit({"--member-lifetime", "2d"}).exit, 0);
  EXPECT_EQ(folder_.MemberLifetime().value(), std::chrono::hours(48));
  const Ran begun = RunInit({"--rotate-ca", "-o", "json"});
  ASSERT_EQ(begun.exit, 0) << begun.err;
  EXPECT_EQ(boost::json::parse(begun.out).at("rotation"), "begun");
  EXPECT_EQ(folder_.LoadAuthorities()->size(), 2u);
  const Ran early = RunInit({"--rotate-ca", "--force"});
  EXPECT_EQ(early.exit, 2);
  EXPECT_THAT(early.err, HasSubstr("try again in"));
  EXPECT_EQ(RunInit({"--member-lifetime", "10s"}).exit, 2);
  EXPECT_EQ(RunInit({"--force"}).exit, 2);
  EXPECT_EQ(RunInit({"--rotate-ca", "--member-lifetime", "5m"}).exit, 2);
  EXPECT_EQ(folder_.MemberLifetime().value(), std::chrono::hours(48));
  EXPECT_EQ(RunInit({"--advertise", ""}).exit, 2) << "a variable that is not set";
}

TEST_F(Init, AsksWhoHasFollowedBeforeTheNextStep) {
  ASSERT_EQ(RunInit().exit, 0);
  ASSERT_EQ(RunInit({"--rotate-ca"}).exit, 0);
  EXPECT_EQ(session_.calls(), 0u) << "the first step shuts nobody out";
  session_.Refuse(Method::kListMembers,
                  Failure(Error{Code::kUnavailable, "no coordinator answers"}));
  const Ran unknown = RunInit({"--rotate-ca"});
  EXPECT_EQ(unknown.exit, 1);
  EXPECT_THAT(unknown.err, HasSubstr("whether all members have followed is not known"));
  EXPECT_THAT(unknown.err, HasSubstr("--force"));
  proto::ListMembersReply reply;
  for (const Certificate& each : folder_.LoadAuthorities().value())
    reply.add_authorities(each.KeyHash());
  reply.mutable_unaware()->add_running("node n1");
  reply.mutable_unaware()->set_all_running(1);
  session_.Answer(Method::kListMembers, reply);
  const Ran refused = RunInit({"--rotate-ca"});
  EXPECT_EQ(refused.exit, 1);
  EXPECT_THAT(refused.err, HasSubstr("node n1"));
  EXPECT_TRUE(folder_.LoadNextAuthority().has_value()) << "the step was not taken";
}

TEST_F(Init, GivesAClusterThatExistsItsCertificates) {
  const Uuid cluster = Uuid::Random();
  ASSERT_EQ(RunInit({"--cluster", cluster.ToString()}).exit, 0);
  EXPECT_EQ(folder_.Load(proto::ROLE_COORDINATOR)->self.cluster, cluster);
}

TEST_F(Init, WhatIsWrongChangesNothing) {
  EXPECT_EQ(RunInit({"--cluster", "mine"}).exit, 2);
  EXPECT_EQ(RunInit({"--advertise", "nowhere"}).exit, 2);
  EXPECT_TRUE(std::filesystem::is_empty(temp_.path()));
  std::filesystem::create_directories(folder_.path() + "/something");
  const Ran full = RunInit();
  EXPECT_EQ(full.exit, 2);
  EXPECT_THAT(full.err, HasSubstr("not empty"));
}

TEST_F(Init, PrintsADocument) {
  const boost::json::value made = boost::json::parse(RunInit({"-o", "json"}).out);
  EXPECT_TRUE(made.at("changed").as_bool());
  EXPECT_THAT(std::string(made.at("join").as_string()), HasSubstr("forebay join c1:7440 --token"));
  EXPECT_EQ(std::string(made.at("trust_dir").as_string()), folder_.path());
  EXPECT_EQ(std::string(made.at("config").as_string()), temp_ / "forebay.toml");
  const boost::json::value again = boost::json::parse(RunInit({"-o", "json"}).out);
  EXPECT_FALSE(again.at("changed").as_bool());
  EXPECT_TRUE(again.at("join").is_null());
  EXPECT_TRUE(again.at("config").is_null());
  EXPECT_EQ(again.at("cluster"), made.at("cluster"));
}

TEST(JoinVerb, WhatIsNoTokenIsRefusedBeforeAnybodyIsAsked) {
  ScriptedSession session;
  const fakes::TempDir temp;
  const auto exit = [&](std::vector<std::string> words) {
    words.insert(words.begin(), {"join", "--trust-dir", temp / "trust"});
    return RunForebay(session, words).exit;
  };
  EXPECT_EQ(exit({"127.0.0.1:1"}), 2) << "no token";
  EXPECT_EQ(exit({"127.0.0.1:1", "--token", "abc"}), 2);
  const std::string good(JoinToken::New(std::string(32, 'h')).ToText().Reveal());
  EXPECT_EQ(exit({"127.0.0.1", "--token", good}), 2) << "no port";
  EXPECT_EQ(exit({"127.0.0.1:1", "--token", "forebay join c1:7440 --token " + good + " "}), 1)
      << "the whole line is taken for the token in it";
  EXPECT_EQ(exit({"127.0.0.1:1", "--token", good, "--role", "root"}), 2);
  EXPECT_FALSE(std::filesystem::exists(temp / "trust"));
}

TEST(TrustDirOf, AFolderThatIsNamedIsObeyed) {
  const fakes::TempDir temp;
  const std::string config = temp / "forebay.toml";
  const auto dirs = [&](const std::string& named) {
    return std::vector{TrustDirOf(proto::ROLE_NODE, named, config),
                       TrustDirOf(proto::ROLE_CLIENT, named, config),
                       TrustDirOf(proto::ROLE_ADMIN, named, config)};
  };
  const std::string usual = kDefaultTrustDir;
  const std::vector usually = {PackagesTrustDir(proto::ROLE_NODE), usual, usual};
  EXPECT_EQ(dirs(""), usually) << "there is no configuration";
  for (const char* silent : {"", "[trust]\ndir = \"\"\n", "[node]\ndir = \"/a\"\n", "dir ="}) {
    ASSERT_TRUE(WriteFileAtomically(config, silent));
    EXPECT_EQ(dirs(""), usually) << silent;
  }
  for (const std::string& each : {usual, std::string("/srv/trust")}) {
    ASSERT_TRUE(WriteFileAtomically(config, "[trust]\ndir = \"" + each + "\"\n"));
    EXPECT_EQ(dirs(""), (std::vector{each, each, usual})) << "the command reads no configuration";
    EXPECT_EQ(dirs("/else"), std::vector<std::string>(3, "/else"));
    EXPECT_EQ(dirs(usual), std::vector<std::string>(3, usual));
  }
}

TEST(MemberSettings, NameTheTrustFolderWhereTheProgramWouldNotLookIntoIt) {
  const auto named = [](proto::Role role, const std::string& dir) {
    const auto settings = MemberSettings(dir, role, "c1:7440", "");
    return settings.front().front().section == "trust" ? settings.front().front().value : "";
  };
  EXPECT_EQ(named(proto::ROLE_CLIENT, kDefaultTrustDir), "");
  EXPECT_EQ(named(proto::ROLE_NODE, PackagesTrustDir(proto::ROLE_NODE)), "");
  EXPECT_EQ(named(proto::ROLE_NODE, "/srv/trust"), "\"/srv/trust\"");
  const bool is_apart = PackagesTrustDir(proto::ROLE_NODE) != kDefaultTrustDir;
  EXPECT_EQ(named(proto::ROLE_NODE, kDefaultTrustDir), is_apart ? "\"/etc/forebay/trust\"" : "");
}

TEST(MemberSettings, NameTheTrustFolderWhereTheFileNamesAnotherOne) {
  const fakes::TempDir temp;
  const std::string config = temp / "forebay.toml";
  const std::string text = "[trust]\ndir = \"/srv/trust\"\n";
  ASSERT_TRUE(WriteFileAtomically(config, text));
  const auto said = [&](const std::vector<SettingGroup>& wanted) {
    const CompletedConfig done = CompleteConfig(text, "f", wanted, "").value();
    return ShowSettings(done.kept);
  };
  const std::string kept = "[trust] dir = \"/srv/trust\"";
  for (const proto::Role role : {proto::ROLE_NODE, proto::ROLE_CLIENT}) {
    EXPECT_EQ(said(MemberSettings(PackagesTrustDir(role), role, "c1:7440", "", config)), kept);
    EXPECT_EQ(said(MemberSettings("/srv/trust", role, "c1:7440", "", config)), "");
  }
  EXPECT_EQ(said(CoordinatorSettings(kDefaultTrustDir, {"c1", 7440}, config)), kept);
  for (const proto::Role role : {proto::ROLE_ADMIN, proto::ROLE_VIEWER}) {
    for (const char* dir : {kDefaultTrustDir, "/home/ann/trust"})
      EXPECT_TRUE(MemberSettings(dir, role, "c1:7440", "", config).empty())
          << "the command reads no configuration";
  }
}

TEST(RoleOfCommand, IsAnAdministratorsUnlessAViewersAloneIsThere) {
  const fakes::TempDir temp;
  const TestCluster cluster;
  const TrustFolder folder(temp / "trust");
  EXPECT_EQ(RoleOfCommand(folder), proto::ROLE_ADMIN);
  ASSERT_TRUE(folder.Save(cluster.Member(proto::ROLE_CLIENT, "c")).has_value());
  EXPECT_EQ(RoleOfCommand(folder), proto::ROLE_ADMIN) << "whose lack is said";
  ASSERT_TRUE(folder.Save(cluster.Member(proto::ROLE_VIEWER, "v")).has_value());
  EXPECT_EQ(RoleOfCommand(folder), proto::ROLE_VIEWER);
  ASSERT_TRUE(folder.Save(cluster.Member(proto::ROLE_ADMIN, "a")).has_value());
  EXPECT_EQ(RoleOfCommand(folder), proto::ROLE_ADMIN);
  ASSERT_TRUE(WriteFileAtomically(folder.path() + "/admin.pem", "damaged"));
  EXPECT_EQ(RoleOfCommand(folder), proto::ROLE_ADMIN) << "what is wrong with it is said";
}

TEST(Token, IsMadeForARole) {
  ScriptedSession session;
  EXPECT_EQ(RunForebay(session, {"token", "create"}).exit, 2) << "without a role";
  EXPECT_EQ(RunForebay(session, {"token", "create", "--role", "node", "--ttl", "31d"}).exit, 2);
  EXPECT_EQ(RunForebay(session, {"token", "create", "--role", "node", "--uses", "0"}).exit, 2);
  EXPECT_EQ(RunForebay(session, {"token", "revoke"}).exit, 2) << "without an id";
  EXPECT_EQ(RunForebay(session, {"token", "list", "0123"}).exit, 2);
  EXPECT_EQ(session.calls(), 0u);
  proto::CreateTokenReply reply;
  reply.set_text("TOKEN");
  session.Answer(Method::kCreateToken, reply);
  const Ran ran =
      RunForebay(session, {"token", "create", "--role", "client", "--uses", "4", "--ttl", "2h"});
  EXPECT_EQ(ran.exit, 0) << ran.err;
  EXPECT_TRUE(ran.out.ends_with(":7440 --token TOKEN\n")) << ran.out;
  session.Answer(Method::kCreateToken, reply);
  RunForebay(session, {"token", "create", "--role", "client", "--links", "a,b"});
  const auto bounded = session.Asked<proto::CreateTokenRequest>(1);
  ASSERT_EQ(bounded.links_size(), 2);
  EXPECT_EQ(bounded.links(1), "b");
  const auto asked = session.Asked<proto::CreateTokenRequest>(0);
  EXPECT_EQ(asked.role(), "client");
  EXPECT_EQ(asked.uses(), 4u);
  EXPECT_EQ(asked.valid_s(), 7200u);
}

TEST(Token, LinksAreForClientsAndAVariableThatIsNotSetGrantsNothing) {
  ScriptedSession session;
  for (const std::vector<std::string>& words : std::vector<std::vector<std::string>>{
           {"token", "create", "--role", "viewer", "--links", "a"},
           {"token", "create", "--role", "client", "--links", ""}}) {
    EXPECT_EQ(RunForebay(session, words).exit, 2);
  }
  EXPECT_EQ(session.calls(), 0u);
}

TEST(Token, ACoordinatorOfBeforeThereWereViewersIsToBeUpgraded) {
  const Error older{Code::kInvalid, "a token is for a client, a node or an admin"};
  const auto said = [&](const std::string& role, const Error& error) {
    ScriptedSession session;
    session.Refuse(Method::kCreateToken, Failure(error));
    const Ran ran = RunForebay(session, {"token", "create", "--role", role});
    EXPECT_EQ(ran.exit, 2);
    return ran.err;
  };
  EXPECT_THAT(said("viewer", older), HasSubstr("upgrade it"));
  EXPECT_THAT(said("veiwer", older), Not(HasSubstr("upgrade")));
  EXPECT_THAT(said("viewer", {Code::kInvalid, "nobody can join"}), Not(HasSubstr("upgrade")));
}

proto::TokenState SampleToken(std::uint32_t uses_left) {
  proto::TokenState token;
  token.set_id("0123456789ab");
  token.set_role("client");
  token.set_uses(4);
  token.set_uses_left(uses_left);
  token.set_ends_unix_s(1'767'409'435);
  return token;
}

TEST_F(JsonDoc, Tokens) {
  proto::CreateTokenReply created;
  *created.mutable_token() = SampleToken(4);
  created.set_text("TOKEN");
  session_.Answer(Method::kCreateToken, created);
  auto printed = boost::json::parse(
      RunForebay(session_, {"-o", "json", "token", "create", "--role", "client"}).out);
  EXPECT_TRUE(printed.at("join").as_string().ends_with(":7440 --token TOKEN"));
  printed.at("join") = "forebay join gpu-1:7440 --token TOKEN";  // this host's name
  Expect("token create", JsonText(printed) + "\n");
  proto::ListTokensReply tokens;
  *tokens.add_tokens() = SampleToken(3);
  session_.Answer(Method::kListTokens, tokens);
  Run("token list", {"token", "list"});
  proto::RevokeTokenReply revoked;
  *revoked.mutable_token() = SampleToken(3);
  revoked.mutable_token()->set_revoked(true);
  revoked.set_changed(true);
  session_.Answer(Method::kRevokeToken, revoked);
  Run("token revoke", {"token", "revoke", "0123456789ab"});
}

TEST_F(JsonDoc, Members) {
  proto::ListMembersReply members;
  proto::MemberState& member = *members.add_members();
  member.set_role("client");
  member.set_id("gpu-2");
  member.set_ends_unix_s(1'768'619'035);
  member.set_seen_unix_s(1'767'409'435);
  member.set_address("10.0.0.2:51234");
  member.add_links("imagenet");
  session_.Answer(Method::kListMembers, members);
  Run("member list", {"member", "list"});
  proto::RevokeMemberReply revoked;
  revoked.set_until_unix_s(1'767'409'435);
  session_.Answer(Method::kRevokeMember, revoked);
  Run("member revoke", {"member", "revoke", "client", "gpu-2"});
  EXPECT_EQ(session_.Asked<proto::RevokeMemberRequest>(session_.calls() - 1).id(), "gpu-2");
}

TEST(Member, ARevocationOfWhoWasNeverSeenSaysSoAndIsDone) {
  ScriptedSession session;
  proto::RevokeMemberReply revoked;
  revoked.set_until_unix_s(1'767'409'435);
  session.Answer(Method::kRevokeMember, revoked);
  EXPECT_EQ(RunForebay(session, {"member", "revoke", "node", "n1"}).err, "");
  revoked.set_unseen(true);
  session.Answer(Method::kRevokeMember, revoked);
  const Ran ran = RunForebay(session, {"member", "revoke", "node", "nx"});
  EXPECT_EQ(ran.exit, 0);
  EXPECT_THAT(ran.err, HasSubstr("nobody called node nx has joined or asked"));
}

TEST(Member, WhatIsNotWholeIsAskedOfNobody) {
  ScriptedSession session;
  EXPECT_EQ(RunForebay(session, {"member", "revoke", "client"}).exit, 2);
  EXPECT_EQ(RunForebay(session, {"member", "list", "client"}).exit, 2);
  EXPECT_EQ(RunForebay(session, {"member"}).exit, 2);
  EXPECT_EQ(session.calls(), 0u);
}

}  // namespace
}  // namespace forebay::testing
