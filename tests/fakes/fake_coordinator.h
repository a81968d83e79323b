#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "common/model/fence.h"
#include "common/model/object_version.h"
#include "common/ring/ring.h"
#include "common/wire/server.h"
#include "proto/coordinator.pb.h"
#include "tests/fakes/fake_server.h"

namespace forebay::fakes {

/// A coordinator with one link: answers what mounts ask. Real connections on a port of its own.
class FakeCoordinator {
 public:
  explicit FakeCoordinator(std::string secret, std::string listen = "127.0.0.1:0");

  /// The link and the bytes of its snapshot; one without a spec: there is no link.
  void SetLink(proto::LinkState link, std::string snapshot_bytes);
  /// The bytes of the difference from generation `before` to `after`.
  void SetDelta(std::uint64_t before, std::uint64_t after, std::string bytes);
  /// What it says of itself beside its links.
  void SetFence(Fence fence, std::uint64_t links_version);
  void SetRing(RingTable table) { server_->SetRing(std::move(table)); }
  /// Changes each piece of a snapshot on its way out (the second argument is its offset).
  void OnPiece(std::function<void(std::string&, std::uint64_t)> change);
  /// What mounts reported of jobs, in order. Each is confirmed, in epoch 5 and half through it.
  std::vector<proto::ReportJobsRequest> job_reports() const;
  /// The next so many reports are taken and refused, as if their replies were lost.
  void LoseJobReplies(int count);
  /// Whether replies ask for the blocks that jobs read.
  void CountReads(bool count) { count_reads_ = count; }
  void Stop() { server_->Stop(); }

  const std::string& address() const { return server_->address(); }
  Uuid cluster() const { return cluster_; }
  std::uint64_t link_calls() const { return link_calls_; }
  /// What a mount asked last for links.
  proto::GetLinksRequest last_link_request() const;
  void ForgetLinkRequest();
  std::uint64_t snapshot_calls() const { return snapshot_calls_; }
  std::uint64_t snapshot_bytes() const { return snapshot_bytes_; }  ///< Sent, with differences.

 private:
  Task<Result<RpcReply>> AnswerLinks(RpcCall call);
  Task<Result<RpcReply>> AnswerSnapshot(RpcCall call);
  Task<Result<RpcReply>> AnswerJobs(RpcCall call);

  mutable std::mutex mutex_;
  Uuid cluster_ = Uuid::Random();
  Fence fence_{1, Uuid::Random()};
  std::uint64_t links_version_ = 1;
  proto::LinkState link_;
  std::string snapshot_;
  std::map<std::pair<std::uint64_t, std::uint64_t>, std::string> deltas_;
  std::function<void(std::string&, std::uint64_t)> change_;
  std::vector<proto::ReportJobsRequest> job_reports_;
  proto::GetLinksRequest last_link_request_;
  int lost_job_replies_ = 0;
  std::atomic<bool> count_reads_{true};
  std::atomic<std::uint64_t> link_calls_{0};
  std::atomic<std::uint64_t> snapshot_calls_{0};
  std::atomic<std::uint64_t> snapshot_bytes_{0};
  std::unique_ptr<FakeServer> server_;
};

}  // namespace forebay::fakes
