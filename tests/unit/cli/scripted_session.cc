#include "tests/unit/cli/scripted_session.h"

#include <gtest/gtest.h>

#include <memory>
#include <sstream>
#include <utility>

#include "cli/dispatch.h"

namespace forebay::testing {
namespace {

constexpr const char* kSampleDigest =
    "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08";

/// The program owns its session; the test keeps the script.
class Borrowed final : public Session {
 public:
  explicit Borrowed(Session& session) : session_(session) {}
  std::expected<RpcReply, Failure> Call(Method method,
                                        const google::protobuf::MessageLite& request) override {
    return session_.Call(method, request);
  }
  std::string Address() const override { return session_.Address(); }
  void CatchInterrupts() override { session_.CatchInterrupts(); }
  bool interrupted() const override { return session_.interrupted(); }
  bool Pause(Duration duration) override { return session_.Pause(duration); }
  bool TimedOut() const override { return session_.TimedOut(); }
  TimePoint Now() const override { return session_.Now(); }

 private:
  Session& session_;
};

void Fill(proto::LinkCounters& counters, std::uint64_t unit) {
  counters.set_reads(10 * unit);
  counters.set_read_bytes(10240 * unit);
  counters.set_hits(9 * unit);
  counters.set_hit_bytes(9216 * unit);
  counters.set_misses(unit);
  counters.set_s3_gets(unit);
  counters.set_s3_bytes(1024 * unit);
  counters.set_s3_retries(2);
  counters.set_s3_errors(1);
  counters.set_evicted_bytes(4096);
  counters.set_peer_fills(3);
  counters.set_cross_zone_bytes(512);
}

void AddNode(proto::StatsReply& stats, const std::string& id, std::uint32_t state) {
  proto::NodeStats& node = *stats.add_nodes();
  node.set_clock_known(true);
  node.set_clock_ahead_ms(4);
  node.mutable_info()->set_id(id);
  node.mutable_info()->set_address("10.0.0." + id.substr(1) + ":7441");
  node.mutable_info()->set_state(state);
  node.mutable_info()->set_zone("a");
  Fill(*node.mutable_total(), 100);
  proto::DiskReport& disk = *node.add_disks();
  disk.set_path("/nvme0");
  disk.set_used_bytes(3ULL << 30);
  disk.set_capacity_bytes(10ULL << 30);
  node.set_blocks(2500);
}

}  // namespace

ScriptedSession::~ScriptedSession() { EXPECT_TRUE(script_.empty()) << "calls that did not come"; }

void ScriptedSession::Answer(Method method, const google::protobuf::MessageLite& reply) {
  script_.push_back({method, reply.SerializeAsString()});
}

void ScriptedSession::Refuse(Method method, Failure failure) {
  script_.push_back({method, std::unexpected(std::move(failure))});
}

void ScriptedSession::AnswerTask(std::uint32_t state, std::uint64_t done, std::uint64_t total,
                                 const std::string& error) {
  proto::TaskState task;
  task.set_id("t-1");
  task.set_kind("link");
  task.set_state(state);
  task.set_done(done);
  task.set_total(total);
  task.set_bytes(done * 1024);
  task.set_error(error);
  Answer(Method::kGetTask, task);
}

std::expected<RpcReply, Failure> ScriptedSession::Call(
    Method method, const google::protobuf::MessageLite& request) {
  requests_.push_back(request.SerializeAsString());
  if (script_.empty()) {
    ADD_FAILURE() << "an unexpected call of method " << static_cast<int>(method);
    return std::unexpected(Failure(Error{Code::kInternal, "nothing in the script"}));
  }
  Step step = std::move(script_.front());
  script_.pop_front();
  EXPECT_EQ(static_cast<int>(method), static_cast<int>(step.method));
  if (!step.answer) return std::unexpected(std::move(step.answer.error()));
  RpcReply reply;
  reply.message = std::move(*step.answer);
  return reply;
}

bool ScriptedSession::Pause(Duration duration) {
  now_ += duration;
  ++pauses_;
  if (pauses_ == interrupt_at_) {
    EXPECT_TRUE(catching_) << "Ctrl-C would have ended the program";
    interrupted_ = true;
  }
  if (pauses_ == time_out_at_) timed_out_ = true;
  return !interrupted_;
}

Ran RunForebay(ScriptedSession& session, const std::vector<std::string>& words,
               const Terminal& terminal, const std::string& mount_table) {
  std::ostringstream out;
  std::ostringstream err;
  std::istringstream in(terminal.typed);
  Console console{.out = out, .err = err, .in = in};
  console.out_is_terminal = terminal.out;
  console.err_is_terminal = terminal.err;
  console.in_is_terminal = terminal.in;
  console.colour = terminal.colour;
  const Exit exit = Dispatch(words, {.console = console,
                                     .local = {.mount_table = mount_table},
                                     .coordinators = "",
                                     .connect = [&session](const RpcSession::Options&) {
                                       return std::make_unique<Borrowed>(session);
                                     }});
  return {.exit = static_cast<int>(exit), .out = out.str(), .err = err.str()};
}

proto::TaskState SamplePreload(std::uint32_t state) {
  proto::TaskState task;
  task.set_id("t-1");
  task.set_kind("preload");
  task.set_target("imagenet/train");
  task.set_state(state);
  task.set_started_unix_s(1'767'323'045);
  if (state != 0) task.set_ended_unix_s(1'767'323'105);
  task.set_total(5000);
  task.set_total_bytes(5'120'000);
  return task;
}

proto::TaskState SampleFill(std::uint32_t state) {
  proto::TaskState task = SamplePreload(state);
  task.set_kind("fill");
  task.set_target("imagenet");
  task.set_link("imagenet");
  task.add_jobs("job-17");
  task.set_done(2500);
  task.set_bytes(2'560'000);
  if (state == 0) {
    task.set_bytes_per_second(1'024'000);
  } else {
    task.set_no_room(true);
    task.set_not_kept(2500);
    task.set_not_kept_bytes(2'560'000);
  }
  return task;
}

proto::StatsReply SampleStats() {
  proto::StatsReply stats;
  stats.set_cluster("0123456789abcdef");
  stats.set_ring_epoch(7);
  stats.set_window_seconds(60);
  stats.set_time_unix_ms(1'767'323'045'678);
  stats.set_started_unix_s(1'767'319'445);
  stats.set_coordinator_version("0.1.0");
  proto::LinkStats& link = *stats.add_links();
  link.set_name("imagenet");
  link.set_source("s3://bucket/imagenet/");
  link.add_includes("*.jpg");
  link.set_state(1);
  link.mutable_generation()->set_generation(3);
  link.mutable_generation()->set_objects(5000);
  link.mutable_generation()->set_bytes(8192);
  link.mutable_generation()->set_hidden_keys(2);
  link.mutable_generation()->set_listed_unix_s(1'767'320'000);
  link.mutable_generation()->set_listing_digest(kSampleDigest);
  Fill(*link.mutable_total(), 1000);
  link.mutable_total()->set_cached_bytes(2048);
  Fill(*link.mutable_window(), 10);
  AddNode(stats, "n1", 0);
  AddNode(stats, "n2", 0);
  proto::JobStats& job = *stats.add_jobs();
  job.set_id("job-17");
  job.set_link("imagenet");
  job.set_generation(3);
  job.set_listing_digest(kSampleDigest);
  job.set_reads(1000);
  job.set_hits(750);
  job.set_mounts(2);
  job.set_epoch(3);
  job.set_progress(0.41);
  job.mutable_waits()->set_reads(1200);
  job.mutable_waits()->set_s3_us(12'000'000);
  job.mutable_waits()->set_detour_us(500'000);
  return stats;
}

proto::StatsReply SampleStatsWithFill() {
  proto::StatsReply stats = SampleStats();
  *stats.add_fills() = SampleFill(0);
  return stats;
}

proto::CheckTargetReply HalfCached() {
  proto::CheckTargetReply reply;
  reply.set_link("imagenet");
  reply.set_objects(5000);
  reply.set_bytes(8192);
  reply.set_blocks(5000);
  reply.set_cached_objects(1250);
  reply.set_cached_bytes(2048);
  reply.set_cached_blocks(1250);
  reply.set_hidden_keys(2);
  return reply;
}

}  // namespace forebay::testing
