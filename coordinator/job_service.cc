#include "coordinator/job_service.h"

#include <utility>

namespace forebay {

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
