#include "coordinator/job_service.h"

#include <optional>
#include <utility>

#include "common/wire/messages.h"

namespace forebay {

void KeepGranted(const LinkRegistry& links, const PeerIdentity& peer,
                 proto::ReportJobsRequest& request) {
  if (!peer.terms.links) return;
  for (proto::MountJob& row : *request.mutable_jobs()) {
    const std::optional<Link> link = links.FindById(UuidFromBytes(row.link()));
    if (link && MayRead(peer, link->spec.name, link->spec.set)) continue;
    row.clear_job();
    row.clear_link();
  }
}

std::vector<MethodEntry> JobService::Methods() {
  std::vector<MethodEntry> methods;
  methods.push_back(
      {Method::kReportJobs, [this](RpcCall call) { return ReportJobs(std::move(call)); }});
  methods.push_back(
      {Method::kDescribeJob, [this](RpcCall call) { return DescribeJob(std::move(call)); }});
  return methods;
}

Task<Result<RpcReply>> JobService::ReportJobs(RpcCall call) {
  proto::ReportJobsRequest request;
  Status parsed = ParseMessage(call.message, request);
  if (!parsed) co_return Fail(parsed.error());
  KeepGranted(links_, call.peer, request);
  proto::ReportJobsReply reply;
  stats_.ReportJobs(request, reply);
  fills_.Report(request, reply);
  co_return ReplyWith(reply);
}

Task<Result<RpcReply>> JobService::DescribeJob(RpcCall call) {
  proto::DescribeJobRequest request;
  Status parsed = ParseMessage(call.message, request);
  if (!parsed) co_return Fail(parsed.error());
  Result<proto::DescribeJobReply> reply = stats_.DescribeJob(request.job(), links_.All());
  if (!reply) co_return Fail(reply.error());
  co_return ReplyWith(*reply);
}

}  // namespace forebay
