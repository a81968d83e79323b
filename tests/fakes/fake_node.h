#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "common/base/result.h"
#include "common/model/membership.h"
#include "common/ring/ring.h"
#include "common/wire/server.h"
#include "proto/node.pb.h"
#include "tests/fakes/fake_server.h"

namespace forebay::fakes {

/// A cache node without a cache: it answers every block of any SampleLink with the right bytes, or
/// does what a test's script says. Real connections on a port of its own.
class FakeNode {
 public:
  /// What a script says to one read: the answer, and how long the node works on it.
  struct Answer {
    Result<RpcReply> reply;
    Duration after = {};
  };
  using Read = std::function<Answer(proto::ReadBlockRequest)>;

  /// `secret` is what its callers must know. `listen` may be a UNIX socket too.
  FakeNode(std::string id, std::string secret, std::string listen = "127.0.0.1:0");
  ~FakeNode();

  /// The right answer to `request`, as from a store (Tier::kLocal).
  static RpcReply RightAnswer(const proto::ReadBlockRequest& request);

  /// Replaces the script; it runs on the node's own thread.
  void OnRead(Read script);
  /// What it says to a prefetch from now on: that it has begun, or with true that it refuses it.
  /// Before, that it has the block. Runs on the node's own thread.
  void OnPrefetch(std::function<bool(const proto::ReadBlockRequest&)> refuses);
  void SetRing(RingTable table) { server_->SetRing(std::move(table)); }

  /// Says that it holds every block that it is asked about, or none (as it begins).
  void SayItHolds(bool all) { holds_all_ = all; }

  /// As SIGSTOP and SIGCONT do: the node's thread answers nothing, not even `pending`.
  void Freeze();
  void Thaw();
  /// Closes its port and connections.
  void Stop();

  NodeInfo Info() const;
  std::uint64_t reads() const { return reads_; }
  std::uint64_t ring_questions() const { return server_->ring_questions(); }
  std::vector<proto::ReadBlockRequest> prefetches() const;
  std::uint64_t checks() const { return checks_; }

 private:
  Task<Result<RpcReply>> AnswerRead(RpcCall call);
  Task<Result<RpcReply>> AnswerPrefetch(RpcCall call);
  Task<Result<RpcReply>> AnswerCheck(RpcCall call);

  std::string id_;
  mutable std::mutex mutex_;
  std::condition_variable thawed_;
  bool frozen_ = false;
  Read script_;
  std::function<bool(const proto::ReadBlockRequest&)> refuses_;
  std::vector<proto::ReadBlockRequest> prefetches_;
  std::atomic<bool> holds_all_{false};
  std::atomic<std::uint64_t> checks_{0};
  std::atomic<std::uint64_t> reads_{0};
  std::unique_ptr<FakeServer> server_;
};

}  // namespace forebay::fakes
