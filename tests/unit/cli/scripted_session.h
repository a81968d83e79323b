#pragma once

#include <google/protobuf/message_lite.h>

#include <deque>
#include <functional>
#include <string>
#include <vector>

#include "cli/session.h"
#include "proto/coordinator.pb.h"

namespace forebay::testing {

/// A coordinator that answers from a script, in order, and time that only passes in Pause.
class ScriptedSession final : public Session {
 public:
  ~ScriptedSession() override;

  /// The next call must be `method`; it is answered with `reply`. Answers the request as it came,
  /// filled in when the call is made.
  void Answer(Method method, const google::protobuf::MessageLite& reply);
  void Refuse(Method method, Failure failure);
  /// `n` polls of a running task.
  void AnswerTask(std::uint32_t state, std::uint64_t done, std::uint64_t total,
                  const std::string& error = "");

  /// Ctrl-C arrives in the n-th Pause from now (1 = the next).
  void InterruptAtPause(int n) { interrupt_at_ = pauses_ + n; }
  /// --timeout passes in the n-th Pause from now.
  void TimeOutAtPause(int n) { time_out_at_ = pauses_ + n; }

  template <typename Request>
  Request Asked(std::size_t i) const {
    Request request;
    request.ParseFromString(requests_.at(i));
    return request;
  }
  std::size_t calls() const { return requests_.size(); }
  Duration waited() const { return now_ - TimePoint(); }

  std::expected<RpcReply, Failure> Call(Method method,
                                        const google::protobuf::MessageLite& request) override;
  std::string Address() const override { return "127.0.0.1:7440"; }
  void CatchInterrupts() override { catching_ = true; }
  bool interrupted() const override { return interrupted_; }
  bool Pause(Duration duration) override;
  bool TimedOut() const override { return timed_out_; }
  TimePoint Now() const override { return now_; }

 private:
  struct Step {
    Method method;
    std::expected<std::string, Failure> answer;
  };
  std::deque<Step> script_;
  std::vector<std::string> requests_;
  TimePoint now_;
  int pauses_ = 0;
  int interrupt_at_ = -1;
  int time_out_at_ = -1;
  bool catching_ = false;
  bool interrupted_ = false;
  bool timed_out_ = false;
};

/// What one run of the program left behind.
struct Ran {
  int exit = -1;
  std::string out;
  std::string err;
};

/// How it is run.
struct Terminal {
  bool out = false;
  bool err = false;
  bool in = false;
  bool colour = false;
  std::string typed = {};  ///< What the user answers.
};

/// `forebay WORD…` against the script.
Ran RunForebay(ScriptedSession& session, const std::vector<std::string>& words,
               const Terminal& terminal = {}, const std::string& mount_table = "/dev/null");

/// A preload of imagenet/train, 5,000 objects of 1 KiB, as t-1; `state` as TaskState has it.
proto::TaskState SamplePreload(std::uint32_t state);

/// A background fill of "imagenet" that runs, or ended for want of room.
proto::TaskState SampleFill(std::uint32_t state);
/// A cluster of one link, two nodes and one job, the same at each call.
proto::StatsReply SampleStats();
/// The same with a background fill that runs.
proto::StatsReply SampleStatsWithFill();
/// `check` of "imagenet", of which a quarter is cached.
proto::CheckTargetReply HalfCached();

}  // namespace forebay::testing
