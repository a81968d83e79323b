#include "common/wire/rpc_rules.h"

#include <algorithm>
#include <array>

namespace forebay {
namespace {

constexpr Roles kNode = {proto::ROLE_NODE};
constexpr Roles kCoordinator = {proto::ROLE_COORDINATOR};
constexpr Roles kBoth = {proto::ROLE_NODE, proto::ROLE_COORDINATOR};
constexpr Roles kMounts = {proto::ROLE_CLIENT};
constexpr Roles kAdmins = {proto::ROLE_ADMIN};
/// Of those who look, also who may do nothing else: what their verbs show, and no more of it.
constexpr Roles kLooking = {proto::ROLE_ADMIN, proto::ROLE_VIEWER};
constexpr Roles kReaders = {proto::ROLE_CLIENT, proto::ROLE_NODE, proto::ROLE_ADMIN};
constexpr Roles kFollowers = {proto::ROLE_CLIENT, proto::ROLE_NODE, proto::ROLE_ADMIN,
                              proto::ROLE_VIEWER};
constexpr Roles kMembers = {proto::ROLE_CLIENT, proto::ROLE_NODE, proto::ROLE_COORDINATOR,
                            proto::ROLE_ADMIN, proto::ROLE_VIEWER};
/// A whole listing is what a mount reads by; a viewer is shown folders of it (ListTarget). Nor does
/// a viewer ask a node what it has.
constexpr Roles kListers = {proto::ROLE_CLIENT, proto::ROLE_NODE, proto::ROLE_COORDINATOR,
                            proto::ROLE_ADMIN};
constexpr Roles kAsking = kListers;
constexpr Roles kStrangers = {proto::ROLE_STRANGER};
constexpr Roles kMasters = {proto::ROLE_COORDINATOR, proto::ROLE_ADMIN};
constexpr Roles kTrusted = {proto::ROLE_NODE, proto::ROLE_COORDINATOR, proto::ROLE_ADMIN};

constexpr Effect kLooks = Effect::kLooks;

constexpr auto kRules = std::to_array<RpcRule>({
    {Method::kReadBlock, "ReadBlock", kReaders, kNode, kLooks},
    {Method::kPrefetchBlock, "PrefetchBlock", kReaders, kNode, kLooks},
    {Method::kCheckBlocks, "CheckBlocks", kAsking, kNode, kLooks},
    {Method::kEvictBlocks, "EvictBlocks", kMasters, kNode},
    {Method::kFillBlocks, "FillBlocks", kMasters, kNode},
    {Method::kCopyBlocks, "CopyBlocks", kTrusted, kNode},
    {Method::kVerifyBlocks, "VerifyBlocks", kMasters, kNode, kLooks},
    {Method::kPinBlocks, "PinBlocks", kMasters, kNode},
    {Method::kDescribeBlocks, "DescribeBlocks", kMasters, kNode, kLooks},
    {Method::kOpenSegment, "OpenSegment", kMounts, kNode, kLooks},
    {Method::kNoteReads, "NoteReads", kMounts, kNode, kLooks},
    {Method::kGetRing, "GetRing", kFollowers, kBoth, kLooks},
    {Method::kRegisterNode, "RegisterNode", kNode, kCoordinator},
    {Method::kHeartbeat, "Heartbeat", kNode, kCoordinator},
    {Method::kGetLinks, "GetLinks", kMembers, kCoordinator, kLooks},
    {Method::kReadSnapshot, "ReadSnapshot", kListers, kCoordinator, kLooks},
    {Method::kGetLeader, "GetLeader", kMembers, kCoordinator, kLooks},
    {Method::kReportJobs, "ReportJobs", kMounts, kCoordinator},
    {Method::kDescribeJob, "DescribeJob", kLooking, kCoordinator, kLooks},
    {Method::kListMounts, "ListMounts", kLooking, kCoordinator, kLooks},
    {Method::kLink, "Link", kAdmins, kCoordinator},
    {Method::kUnlink, "Unlink", kAdmins, kCoordinator},
    {Method::kGetTask, "GetTask", kLooking, kCoordinator, kLooks},
    {Method::kListTarget, "ListTarget", kLooking, kCoordinator, kLooks},
    {Method::kCheckTarget, "CheckTarget", kLooking, kCoordinator, kLooks},
    {Method::kEvictTarget, "EvictTarget", kAdmins, kCoordinator},
    {Method::kStats, "Stats", kLooking, kCoordinator, kLooks},
    {Method::kRefresh, "Refresh", kAdmins, kCoordinator},
    {Method::kExplain, "Explain", kLooking, kCoordinator, kLooks},
    {Method::kSetFillLimits, "SetFillLimits", kAdmins, kCoordinator},
    {Method::kPin, "Pin", kAdmins, kCoordinator},
    {Method::kUnpin, "Unpin", kAdmins, kCoordinator},
    {Method::kListPins, "ListPins", kLooking, kCoordinator, kLooks},
    {Method::kSetQuota, "SetQuota", kAdmins, kCoordinator},
    {Method::kSetPriority, "SetPriority", kAdmins, kCoordinator},
    {Method::kSetReplicas, "SetReplicas", kAdmins, kCoordinator},
    {Method::kChangeNode, "ChangeNode", kAdmins, kCoordinator, Effect::kChangesAndSays},
    {Method::kBackup, "Backup", kAdmins, kCoordinator},
    {Method::kRestore, "Restore", kAdmins, kCoordinator},
    {Method::kListTasks, "ListTasks", kLooking, kCoordinator, kLooks},
    {Method::kCancelTask, "CancelTask", kAdmins, kCoordinator},
    {Method::kRetryTask, "RetryTask", kAdmins, kCoordinator},
    {Method::kUploadNames, "UploadNames", kAdmins, kCoordinator},
    {Method::kPreload, "Preload", kAdmins, kCoordinator},
    {Method::kCreateToken, "CreateToken", kAdmins, kCoordinator},
    // Who may come in, and under which names, is for who lets them in. A certificate that is not
    // renewed is an alert, which everybody who looks is shown.
    {Method::kListTokens, "ListTokens", kAdmins, kCoordinator, kLooks},
    {Method::kRevokeToken, "RevokeToken", kAdmins, kCoordinator},
    {Method::kListMembers, "ListMembers", kAdmins, kCoordinator, kLooks},
    {Method::kRevokeMember, "RevokeMember", kAdmins, kCoordinator},
    // A coordinator that stands by renews its own; it says how that goes.
    {Method::kRenew, "Renew", kMembers, kCoordinator, kLooks},
    {Method::kJoin, "Join", kStrangers, kCoordinator, Effect::kChangesAndSays},
});

}  // namespace

const RpcRule* RuleOf(Method method) {
  const auto* found = std::ranges::find(kRules, method, &RpcRule::method);
  return found == kRules.end() ? nullptr : found;
}

bool MayAsk(const RpcRule& rule, proto::Role caller, proto::Role server) {
  return rule.callers.Has(caller) &&
         (caller != proto::ROLE_VIEWER || server == proto::ROLE_COORDINATOR);
}

std::span<const RpcRule> AllRules() { return kRules; }

}  // namespace forebay
