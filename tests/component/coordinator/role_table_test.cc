#include <gtest/gtest.h>

#include <algorithm>

#include "common/wire/rpc_rules.h"
#include "tests/component/coordinator/cluster_fixture.h"

namespace forebay {
namespace {

/// DESIGN section 10: who may call what.
struct Row {
  Method method;
  bool client;
  bool node;
  bool admin;
  bool coordinator = false;
  bool viewer = false;
};

constexpr Row kTable[] = {
    {Method::kGetRing, true, true, true, false, true},
    {Method::kGetLinks, true, true, true, true, true},
    {Method::kReadSnapshot, true, true, true, true},
    {Method::kGetLeader, true, true, true, true, true},
    {Method::kRegisterNode, false, true, false},
    {Method::kHeartbeat, false, true, false},
    {Method::kLink, false, false, true},
    {Method::kUnlink, false, false, true},
    {Method::kGetTask, false, false, true, false, true},
    {Method::kListTarget, false, false, true, false, true},
    {Method::kCheckTarget, false, false, true, false, true},
    {Method::kEvictTarget, false, false, true},
    {Method::kStats, false, false, true, false, true},
    {Method::kListTasks, false, false, true, false, true},
    {Method::kCancelTask, false, false, true},
    {Method::kRetryTask, false, false, true},
    {Method::kUploadNames, false, false, true},
    {Method::kPreload, false, false, true},
    {Method::kFillBlocks, false, false, false},
    {Method::kReadBlock, false, false, false},
    {Method::kOpenSegment, false, false, false},
    {Method::kNoteReads, false, false, false},
    {Method::kCheckBlocks, false, false, false},
    {Method::kReportJobs, true, false, false},
    {Method::kDescribeJob, false, false, true, false, true},
    {Method::kListMounts, false, false, true, false, true},
    {Method::kEvictBlocks, false, false, false},
    {Method::kDescribeBlocks, false, false, false},
    {Method::kExplain, false, false, true, false, true},
    {Method::kRefresh, false, false, true},
    {Method::kSetFillLimits, false, false, true},
    {Method::kPin, false, false, true},
    {Method::kUnpin, false, false, true},
    {Method::kListPins, false, false, true, false, true},
    {Method::kBackup, false, false, true},
    {Method::kRestore, false, false, true},
    {Method::kSetPriority, false, false, true},
    {Method::kSetReplicas, false, false, true},
    {Method::kCopyBlocks, false, false, false},
    {Method::kCreateToken, false, false, true},
    {Method::kListTokens, false, false, true},
    {Method::kRevokeToken, false, false, true},
    {Method::kSetQuota, false, false, true},
    {Method::kPrefetchBlock, false, false, false},
    {Method::kVerifyBlocks, false, false, false},
    {Method::kPinBlocks, false, false, false},
    {Method::kJoin, false, false, false},
    {Method::kRenew, true, true, true, true, true},
    {Method::kChangeNode, false, false, true},
    {Method::kListMembers, false, false, true},
    {Method::kRevokeMember, false, false, true},
};

class RoleTableTest : public ClusterTest {};

TEST_F(RoleTableTest, NoRequestIsForgotten) {
  for (const RpcRule& rule : AllRules()) {
    EXPECT_TRUE(std::ranges::any_of(kTable, [&](const Row& row) {
      return row.method == rule.method;
    })) << rule.name;
  }
}

TEST_F(RoleTableTest, EveryCellIsAsDesigned) {
  StartCoordinator();
  const struct {
    proto::Role role;
    bool Row::* allowed;
  } kRoles[] = {{proto::ROLE_CLIENT, &Row::client}, {proto::ROLE_NODE, &Row::node},
                {proto::ROLE_ADMIN, &Row::admin},   {proto::ROLE_COORDINATOR, &Row::coordinator},
                {proto::ROLE_VIEWER, &Row::viewer}, {proto::ROLE_STRANGER, nullptr}};
  for (const auto& role : kRoles) {
    Caller caller(role.role, "someone", secret);
    for (const Row& row : kTable) {
      // An empty message is a wrong request, which an allowed caller is told; a caller that is not
      // allowed is told that.
      const Result<RpcReply> reply = caller.Call(address(), row.method, proto::Empty());
      const bool refused =
          !reply && (reply.error().code == Code::kDenied ||
                     reply.error().message.find("has no request") != std::string::npos);
      // A node that may register is still told that its empty message names nobody.
      const bool other_id = !reply && reply.error().message.find("may not re") != std::string::npos;
      const bool denied = refused && !other_id;
      const bool joins = role.role == proto::ROLE_STRANGER && row.method == Method::kJoin;
      const bool allowed = joins || (role.allowed != nullptr && row.*role.allowed);
      EXPECT_EQ(denied, !allowed) << "role " << role.role << ", method "
                                  << static_cast<int>(row.method) << ": "
                                  << (reply ? "answered" : reply.error().message);
    }
  }
}

TEST_F(RoleTableTest, AViewerHasNodesReadNothing) {
  StartCoordinator();
  Caller viewer(proto::ROLE_VIEWER, "ann", secret);
  Caller admin(proto::ROLE_ADMIN, "bob", secret);
  proto::CheckTargetRequest request;
  request.mutable_target()->set_text("absent");
  const auto code = [&](Caller& caller) {
    return caller.Call(address(), Method::kCheckTarget, request).error().code;
  };
  EXPECT_EQ(code(viewer), Code::kNotFound) << "it may look";
  request.set_verify(true);
  EXPECT_EQ(code(viewer), Code::kDenied);
  EXPECT_EQ(code(admin), Code::kNotFound);
}

TEST_F(RoleTableTest, ANodeMaySpeakForItselfAlone) {
  StartCoordinator();
  Caller other(proto::ROLE_NODE, "n2", secret);
  proto::RegisterNodeRequest request;
  request.mutable_node()->set_id("n1");
  request.mutable_node()->set_address("127.0.0.1:1");
  request.mutable_node()->set_capacity_bytes(1);
  const Result<RpcReply> reply = other.Call(address(), Method::kRegisterNode, request);
  ASSERT_FALSE(reply.has_value());
  EXPECT_EQ(reply.error().code, Code::kDenied);
}

}  // namespace
}  // namespace forebay
