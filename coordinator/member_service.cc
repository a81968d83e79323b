#include "coordinator/member_service.h"

#include <fmt/format.h>

#include <utility>

#include "common/model/membership.h"
#include "common/s3/list_parser.h"
#include "common/wire/messages.h"
#include "coordinator/audit.h"

namespace forebay {
namespace {

std::string_view VerbOf(NodeChange change) {
  switch (change) {
    case NodeChange::kRemove:
      return "removes";
    case NodeChange::kFence:
      return "fences";
    case NodeChange::kDrain:
      return "drains";
    case NodeChange::kUndrain:
      return "takes back";
  }
  return "changes";
}

}  // namespace

std::vector<MethodEntry> MemberService::Methods() {
  std::vector<MethodEntry> methods;
  methods.push_back(
      {Method::kChangeNode, [this](RpcCall call) { return ChangeNode(std::move(call)); }});
  return methods;
}

Task<Result<RpcReply>> MemberService::ChangeNode(RpcCall call) {
  proto::ChangeNodeRequest request;
  Status parsed = ParseMessage(call.message, request);
  if (!parsed) co_return Fail(parsed.error());
  const std::string what = fmt::format(
      "{} node {}", VerbOf(static_cast<NodeChange>(request.change())), Printable(request.node()));
  Result<proto::ChangeNodeReply> reply = co_await Change(std::move(request));
  if (!reply) {
    Audit(call.peer, what, "refused: " + reply.error().message);
    co_return Fail(reply.error());
  }
  reply->set_ring_epoch(membership_.epoch());
  Audit(call.peer, what,
        fmt::format("{}, ring epoch {}", reply->changed() ? "done" : "it was so already",
                    reply->ring_epoch()));
  co_return ReplyWith(*reply);
}

Task<Result<proto::ChangeNodeReply>> MemberService::StartDrain(std::string node) {
  Result<Drainer::Started> started = co_await drainer_.Start(std::move(node));
  if (!started) co_return Fail(started.error());
  proto::ChangeNodeReply reply;
  reply.set_changed(!started->joined);
  reply.set_task_id(started->task_id);
  co_return reply;
}

Task<Result<proto::ChangeNodeReply>> MemberService::Change(proto::ChangeNodeRequest request) {
  const auto change = static_cast<NodeChange>(request.change());
  ClusterMembers::Plan plan;
  std::string reason;
  switch (change) {
    case NodeChange::kDrain: {
      Result<proto::ChangeNodeReply> started = co_await StartDrain(request.node());
      co_return started;
    }
    case NodeChange::kRemove:
    case NodeChange::kFence: {
      const Dismissal why = change == NodeChange::kFence ? Dismissal::kFenced : Dismissal::kRemoved;
      reason = why == Dismissal::kFenced ? "the node was fenced" : "the node was removed";
      plan = [id = request.node(), why](const MemberTable& members, TimePoint now,
                                        std::int64_t unix_s) {
        return members.PlanDismissal(id, why, now, unix_s);
      };
      break;
    }
    case NodeChange::kUndrain:
      reason = "the node was taken back";
      plan = [id = request.node()](const MemberTable& members, TimePoint, std::int64_t) {
        return members.PlanReturn(id);
      };
      break;
    default:
      co_return Fail(Code::kInvalid, "this coordinator does not know such a change of a node");
  }
  Result<bool> changed =
      co_await drainer_.Change(request.node(), std::move(plan), std::move(reason));
  if (!changed) co_return Fail(changed.error());
  proto::ChangeNodeReply reply;
  reply.set_changed(*changed);
  co_return reply;
}

}  // namespace forebay
