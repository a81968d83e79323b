#include "common/wire/audit.h"

#include <gmock/gmock.h>

#include <set>
#include <string_view>

#include "proto/coordinator.pb.h"

namespace forebay {
namespace {

using testing::EndsWith;
using testing::HasSubstr;
using testing::Not;

std::string Said(Method method, const google::protobuf::MessageLite& message) {
  PeerIdentity peer{.role = proto::ROLE_ADMIN, .id = "ann", .program = "forebay 0.1.0"};
  peer.address = "10.0.0.3:51234";
  return DescribeAudited(*RuleOf(method), peer, message.SerializeAsString());
}

TEST(AuditTest, ALineSaysWhoFromWhereAndWhat) {
  proto::UnlinkRequest request;
  request.set_name("data");
  request.set_evict(true);
  EXPECT_EQ(Said(Method::kUnlink, request),
            "admin 'ann' at 10.0.0.3:51234 (forebay 0.1.0): Unlink name=\"data\" evict=1");
}

TEST(AuditTest, TargetsAndNegativeNumbersReadAsTheyWereMeant) {
  proto::EvictTargetRequest evict;
  evict.mutable_target()->set_text("data/train");
  EXPECT_THAT(Said(Method::kEvictTarget, evict), EndsWith("EvictTarget target=\"data/train\""));
  proto::SetPriorityRequest priority;
  priority.set_name("data");
  priority.set_priority(-1);
  EXPECT_THAT(Said(Method::kSetPriority, priority), EndsWith("name=\"data\" priority=-1"));
}

TEST(AuditTest, ASetIsNamedWithItsSources) {
  proto::LinkRequest link;
  link.set_name("clip");
  for (const std::string part : {"images", "labels"}) {
    proto::LinkPart& added = *link.add_parts();
    added.set_name(part);
    added.set_bucket("bucket");
    added.set_prefix(part + "\n");
  }
  EXPECT_THAT(Said(Method::kLink, link),
              EndsWith("Link name=\"clip\" part=\"images bucket images\\x0a\" part=\"labels "
                       "bucket labels\\x0a\""));
}

TEST(AuditTest, NobodyWritesLinesOfTheirOwnIntoTheLog) {
  proto::UnlinkRequest request;
  request.set_name("a\nb\x1b[2J" + std::string(1000, 'x'));
  const std::string said = Said(Method::kUnlink, request);
  EXPECT_THAT(said, HasSubstr("a\\x0ab\\x1b[2Jxxx"));
  EXPECT_THAT(said, Not(HasSubstr("\n")));
  EXPECT_LT(said.size(), 400u);
}

TEST(AuditTest, AProofIsNotLogged) {
  proto::JoinRequest request;
  request.set_token_id("abc");
  request.set_proof("the proof");
  request.set_request("the request");
  request.set_id("n1");
  const std::string said = Said(Method::kJoin, request);
  EXPECT_THAT(said, EndsWith("Join token=\"abc\" id=\"n1\""));
}

TEST(AuditTest, AMessageThatIsNoneIsSurvived) {
  const PeerIdentity peer{.role = proto::ROLE_ADMIN, .id = "a", .program = "p"};
  for (int first = 0; first < 256; ++first) {
    const std::string bytes = {static_cast<char>(first), '\x7f', '\xff', '\xff', '\x01'};
    EXPECT_THAT(DescribeAudited(*RuleOf(Method::kEvictTarget), peer, bytes), HasSubstr("Evict"));
  }
}

// Whoever adds a request for administrators decides here whether it only looks.
TEST(AuditTest, AllThatAdministratorsMayAskButTheseIsAudited) {
  const std::set<std::string_view> looks = {
      "ReadBlock",   "PrefetchBlock", "CheckBlocks", "VerifyBlocks", "DescribeBlocks", "GetRing",
      "GetLinks",    "ReadSnapshot",  "GetLeader",   "DescribeJob",  "GetTask",        "ListTarget",
      "CheckTarget", "Stats",         "Explain",     "ListPins",     "ListTasks",      "ListTokens",
      "ListMembers", "Renew",         "ListMounts"};
  for (const RpcRule& rule : AllRules()) {
    if (!rule.callers.Has(proto::ROLE_ADMIN)) continue;
    EXPECT_EQ(IsAudited(rule, proto::ROLE_ADMIN), !looks.contains(rule.name)) << rule.name;
  }
}

// Whoever adds a request that only looks decides here whether it is for those who look alone, too.
TEST(AuditTest, AViewerMayAskCoordinatorsForWhatLooksAndNobodyElse) {
  const std::set<std::string_view> seen = {
      "GetRing", "GetLinks", "GetLeader", "DescribeJob", "GetTask", "ListTarget", "CheckTarget",
      "Stats",   "Explain",  "ListPins",  "ListTasks",   "Renew",   "ListMounts"};
  for (const RpcRule& rule : AllRules()) {
    const bool may = MayAsk(rule, proto::ROLE_VIEWER, proto::ROLE_COORDINATOR);
    EXPECT_EQ(may, seen.contains(rule.name)) << rule.name;
    EXPECT_TRUE(!may || rule.effect == Effect::kLooks) << rule.name;
    EXPECT_TRUE(!may || MayAsk(rule, proto::ROLE_ADMIN, proto::ROLE_COORDINATOR)) << rule.name;
    EXPECT_FALSE(MayAsk(rule, proto::ROLE_VIEWER, proto::ROLE_NODE)) << rule.name;
  }
  EXPECT_TRUE(MayAsk(*RuleOf(Method::kGetRing), proto::ROLE_CLIENT, proto::ROLE_NODE));
}

TEST(AuditTest, WhatOnlyLooksIsNotAudited) {
  EXPECT_FALSE(IsAudited(*RuleOf(Method::kStats), proto::ROLE_ADMIN));
  EXPECT_TRUE(IsAudited(*RuleOf(Method::kLink), proto::ROLE_ADMIN));
  EXPECT_TRUE(IsAudited(*RuleOf(Method::kJoin), proto::ROLE_STRANGER));
  EXPECT_TRUE(IsAudited(*RuleOf(Method::kEvictBlocks), proto::ROLE_ADMIN));
  EXPECT_FALSE(IsAudited(*RuleOf(Method::kEvictBlocks), proto::ROLE_COORDINATOR))
      << "an administrator asked for it at the coordinator";
  EXPECT_FALSE(IsAudited(*RuleOf(Method::kHeartbeat), proto::ROLE_NODE));
}

}  // namespace
}  // namespace forebay
