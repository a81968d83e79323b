#include "tests/fakes/fake_coordinator.h"

#include <algorithm>
#include <utility>

#include "common/wire/messages.h"

namespace forebay::fakes {

namespace {

Slice SliceOf(const std::string& bytes) {
  auto buffer = std::make_shared<Buffer>(bytes.size());
  std::copy(bytes.begin(), bytes.end(), reinterpret_cast<char*>(buffer->data()));
  return Slice::Of(std::move(buffer));
}

}  // namespace

FakeCoordinator::FakeCoordinator(std::string secret, std::string listen) {
  Credentials credentials;
  credentials.role = proto::ROLE_COORDINATOR;
  credentials.id = "coordinator";
  credentials.program = "fake-coordinator";
  credentials.cluster = cluster_;
  credentials.secret = Secret(std::move(secret));
  std::vector<MethodEntry> methods;
  methods.push_back(
      {Method::kGetLinks, [this](RpcCall call) { return AnswerLinks(std::move(call)); }});
  methods.push_back(
      {Method::kReadSnapshot, [this](RpcCall call) { return AnswerSnapshot(std::move(call)); }});
  methods.push_back(
      {Method::kReportJobs, [this](RpcCall call) { return AnswerJobs(std::move(call)); }});
  server_ =
      std::make_unique<FakeServer>(std::move(credentials), std::move(listen), std::move(methods));
}

void FakeCoordinator::SetLink(proto::LinkState link, std::string snapshot_bytes) {
  const std::scoped_lock lock(mutex_);
  link_ = std::move(link);
  snapshot_ = std::move(snapshot_bytes);
}

void FakeCoordinator::SetFence(Fence fence, std::uint64_t links_version) {
  const std::scoped_lock lock(mutex_);
  fence_ = fence;
  links_version_ = links_version;
}

void FakeCoordinator::SetDelta(std::uint64_t before, std::uint64_t after, std::string bytes) {
  const std::scoped_lock lock(mutex_);
  deltas_[{before, after}] = std::move(bytes);
}

void FakeCoordinator::OnPiece(std::function<void(std::string&, std::uint64_t)> change) {
  const std::scoped_lock lock(mutex_);
  change_ = std::move(change);
}

std::vector<proto::ReportJobsRequest> FakeCoordinator::job_reports() const {
  const std::scoped_lock lock(mutex_);
  return job_reports_;
}

proto::GetLinksRequest FakeCoordinator::last_link_request() const {
  const std::scoped_lock lock(mutex_);
  return last_link_request_;
}

void FakeCoordinator::ForgetLinkRequest() {
  const std::scoped_lock lock(mutex_);
  last_link_request_.Clear();
}

void FakeCoordinator::LoseJobReplies(int count) {
  const std::scoped_lock lock(mutex_);
  lost_job_replies_ = count;
}

Task<Result<RpcReply>> FakeCoordinator::AnswerJobs(RpcCall call) {
  proto::ReportJobsRequest request;
  const Status parsed = ParseMessage(call.message, request);
  if (!parsed) co_return Fail(parsed.error());
  const std::scoped_lock lock(mutex_);
  job_reports_.push_back(request);
  if (lost_job_replies_ > 0) {
    --lost_job_replies_;
    co_return Fail(Code::kUnavailable, "lost");
  }
  proto::ReportJobsReply reply;
  for (const proto::MountJob& job : request.jobs()) {
    proto::JobProgress& progress = *reply.add_jobs();
    progress.set_touched_until(job.touched_from() + static_cast<std::uint64_t>(job.touched_size()));
    progress.set_epoch(5);
    progress.set_count_reads(count_reads_);
    progress.set_progress(0.5);
  }
  co_return ReplyWith(reply);
}

Task<Result<RpcReply>> FakeCoordinator::AnswerLinks(RpcCall call) {
  ++link_calls_;
  proto::GetLinksRequest request;
  const Status parsed = ParseMessage(call.message, request);
  if (!parsed) co_return Fail(parsed.error());
  const std::scoped_lock lock(mutex_);
  last_link_request_ = request;
  const bool all = request.name().empty();
  if (!all && request.name() != link_.spec().name()) {
    co_return Fail(Code::kNotFound, "there is no link \"" + request.name() + "\"; did you mean " +
                                        link_.spec().name() + "?");
  }
  proto::GetLinksReply message;
  message.set_cluster(cluster_.bytes.data(), cluster_.bytes.size());
  *message.mutable_fence() = ToProto(fence_);
  message.set_links_version(links_version_);
  if (link_.has_spec()) *message.add_links() = link_;
  RpcReply reply;
  reply.message = message.SerializeAsString();
  co_return reply;
}

Task<Result<RpcReply>> FakeCoordinator::AnswerSnapshot(RpcCall call) {
  ++snapshot_calls_;
  proto::ReadSnapshotRequest request;
  const Status parsed = ParseMessage(call.message, request);
  if (!parsed) co_return Fail(parsed.error());
  const std::scoped_lock lock(mutex_);
  const auto delta = deltas_.find({request.before(), request.generation()});
  const bool whole = request.before() == 0;
  if (request.link() != link_.spec().id() || (!whole && delta == deltas_.end()) ||
      (whole && request.generation() != link_.generation().generation())) {
    co_return Fail(Code::kNotFound, "no such generation");
  }
  std::string piece =
      (whole ? snapshot_ : delta->second).substr(request.offset(), request.length());
  if (change_) change_(piece, request.offset());
  snapshot_bytes_ += piece.size();
  RpcReply reply;
  reply.payload = SliceOf(piece);
  co_return reply;
}

}  // namespace forebay::fakes
