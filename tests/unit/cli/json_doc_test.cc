// docs/JSON.md is the golden file: what it shows is what the program prints for the sample cluster.
#include "tests/unit/cli/json_doc.h"

#include <gtest/gtest.h>

#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>
#include <fstream>
#include <map>
#include <set>
#include <sstream>

#include "cli/completion.h"
#include "cli/json.h"
#include "cli/verb_table.h"
#include "common/base/version.h"
#include "common/model/block_loss.h"
#include "common/model/key_rules.h"
#include "tests/unit/cli/scripted_session.h"

namespace forebay::testing {
namespace {

proto::NodeEvicted FreedAt(const std::string& node) {
  proto::NodeEvicted freed;
  freed.set_node_id(node);
  freed.set_blocks(2);
  freed.set_bytes(2048);
  return freed;
}

TEST_F(JsonDoc, EveryVerbIsDescribed) {
  std::set<std::string> described;
  for (const auto& [heading, text] : examples_)
    described.insert(heading.substr(0, heading.find(' ')));
  for (const VerbRow& row : VerbTable()) EXPECT_TRUE(described.contains(row.name)) << row.name;
}

TEST_F(JsonDoc, Stats) {
  proto::StatsReply stats = SampleStats();
  proto::Alert& alert = *stats.add_alerts();
  alert.set_name("node_suspect");
  alert.set_since_unix_s(1'767'323'035);
  alert.set_message("node n2 at 10.0.0.2:7441 has been silent for 10 s; readers pass it over");
  alert.set_action("look whether forebay-node runs on it and reaches the coordinator");
  stats.mutable_nodes(1)->mutable_info()->set_state(1);
  session_.Answer(Method::kStats, stats);
  session_.Answer(Method::kCheckTarget, HalfCached());
  EXPECT_EQ(Run("stats", {"stats"}).exit, 0);
}

TEST_F(JsonDoc, Status) {
  proto::StatsReply stats = SampleStatsWithFill();
  stats.clear_nodes();
  session_.Answer(Method::kStats, stats);
  EXPECT_EQ(Run("status", {"status"}).exit, 3);
}

proto::PinState SamplePin() {
  proto::PinState pin;
  pin.set_target("imagenet/train");
  pin.set_link("imagenet");
  pin.set_objects(4);
  pin.set_bytes(4096);
  pin.set_cached_bytes(1024);
  pin.set_since_unix_s(1'767'323'035);
  return pin;
}

TEST_F(JsonDoc, Pins) {
  proto::PinReply pinned;
  pinned.set_changed(true);
  *pinned.mutable_pin() = SamplePin();
  pinned.mutable_pin()->set_until_unix_s(1'767'409'435);
  session_.Answer(Method::kPin, pinned);
  Run("pin", {"pin", "imagenet/train", "--ttl", "1d"});
  proto::UnpinReply unpinned;
  unpinned.set_removed(true);
  session_.Answer(Method::kUnpin, unpinned);
  Run("unpin", {"unpin", "imagenet/train"});
  proto::ListPinsReply pins;
  *pins.add_pins() = SamplePin();
  pins.mutable_pins(0)->set_job("job-17");
  session_.Answer(Method::kListPins, pins);
  Run("pins", {"pins"});
}

TEST_F(JsonDoc, Quota) {
  proto::SetQuotaReply reply;
  reply.set_changed(true);
  reply.set_quota_bytes(1 << 20);
  session_.Answer(Method::kSetQuota, reply);
  Run("quota", {"quota", "imagenet", "1MiB"});
}

TEST_F(JsonDoc, Priority) {
  proto::SetPriorityReply reply;
  reply.set_changed(true);
  session_.Answer(Method::kSetPriority, reply);
  Run("priority", {"priority", "imagenet", "high"});
}

TEST_F(JsonDoc, Replicas) {
  proto::SetReplicasReply reply;
  reply.set_changed(true);
  reply.set_replicas(2);
  session_.Answer(Method::kSetReplicas, reply);
  Run("replicas", {"replicas", "imagenet", "2"});
}

TEST_F(JsonDoc, Brakes) {
  proto::SetFillLimitsReply reply;
  reply.set_changed(true);
  reply.mutable_limits()->set_bytes_per_s(500'000'000);
  session_.Answer(Method::kSetFillLimits, reply);
  Run("limit", {"limit", "s3", "500MB/s"});
  reply.mutable_limits()->set_paused_since_unix_s(1'767'323'035);
  reply.add_not_told("n2");
  session_.Answer(Method::kSetFillLimits, reply);
  EXPECT_EQ(Run("pause", {"pause", "fills"}).exit, 3);
  reply.clear_not_told();
  reply.mutable_limits()->set_paused_since_unix_s(0);
  session_.Answer(Method::kSetFillLimits, reply);
  Run("resume", {"resume", "fills"});
}

TEST_F(JsonDoc, Links) {
  session_.Answer(Method::kStats, SampleStats());
  Run("links", {"links"});
}

TEST_F(JsonDoc, LinksWithASet) {
  proto::StatsReply stats;
  proto::LinkStats& images = *stats.add_links();
  images.set_name("clip.images");
  images.set_source("s3://pics/images/");
  images.set_set("clip");
  images.set_state(1);
  images.mutable_generation()->set_generation(1);
  images.mutable_generation()->set_objects(3);
  images.mutable_generation()->set_bytes(3000);
  images.mutable_generation()->set_listed_unix_s(1'767'320'000);
  images.mutable_generation()->set_listing_digest(
      SampleStats().links(0).generation().listing_digest());
  images.mutable_total()->set_cached_bytes(1500);
  proto::LinkStats& labels = *stats.add_links();
  labels.set_name("clip.labels");
  labels.set_source("s3://text/labels/");
  labels.set_set("clip");
  session_.Answer(Method::kStats, stats);
  Run("links, with a set", {"links"});
}

TEST_F(JsonDoc, Nodes) {
  proto::StatsReply stats = SampleStats();
  stats.mutable_nodes()->RemoveLast();
  session_.Answer(Method::kStats, stats);
  Run("nodes", {"nodes"});
}

TEST_F(JsonDoc, Link) {
  proto::LinkReply started;
  started.set_name("imagenet");
  started.set_task_id("t-1");
  session_.Answer(Method::kLink, started);
  session_.AnswerTask(1, 5000, 5000);
  Run("link", {"link", "s3://bucket/imagenet/"});
}

TEST_F(JsonDoc, LinkOfASet) {
  proto::LinkReply started;
  started.set_name("clip");
  started.set_task_id("t-1+t-2");
  session_.Answer(Method::kLink, started);
  session_.AnswerTask(1, 5000, 5000);
  Run("link of a set", {"link", "s3://pics/images", "text=s3://text/labels/", "--as", "clip"});
}

TEST_F(JsonDoc, LinkThatIsThereAlready) {
  proto::LinkReply already;
  already.set_name("imagenet");
  session_.Answer(Method::kLink, already);
  Run("link, repeated", {"link", "s3://bucket/imagenet/"});
}

TEST_F(JsonDoc, Refresh) {
  proto::RefreshReply started;
  started.set_link("imagenet");
  started.set_task_id("t-1");
  started.set_started(true);
  session_.Answer(Method::kRefresh, started);
  proto::TaskState task;
  task.set_state(1);
  task.set_added(3);
  task.set_removed(2);
  task.set_changed(1);
  session_.Answer(Method::kGetTask, task);
  Run("refresh", {"refresh", "imagenet/train"});
}

TEST_F(JsonDoc, LinkDetached) {
  proto::LinkReply started;
  started.set_name("imagenet");
  started.set_task_id("t-1");
  session_.Answer(Method::kLink, started);
  Run("link --detach", {"link", "--detach", "s3://bucket/imagenet/"});
}

TEST_F(JsonDoc, LinkLeftByCtrlC) {
  proto::LinkReply started;
  started.set_name("imagenet");
  started.set_task_id("t-1");
  session_.Answer(Method::kLink, started);
  session_.AnswerTask(0, 5, 0);
  session_.InterruptAtPause(1);
  const Ran ran = RunForebay(session_, {"-o", "json", "link", "s3://bucket/imagenet/"});
  EXPECT_EQ(ran.out, "");
  Expect("Ctrl-C", ran.err);
}

TEST_F(JsonDoc, Progress) {
  proto::LinkReply started;
  started.set_name("imagenet");
  started.set_task_id("t-1");
  session_.Answer(Method::kLink, started);
  // Polls after 0, 50, 150, 350, 750 and 1250 ms.
  for (int i = 0; i < 5; ++i) session_.AnswerTask(0, 0, 0);
  session_.AnswerTask(0, 1250, 5000);
  session_.AnswerTask(1, 5000, 5000);
  Expect("Progress", RunForebay(session_, {"-o", "json", "link", "s3://bucket/imagenet/"}).err);
}

TEST_F(JsonDoc, Errors) {
  session_.Refuse(Method::kCheckTarget,
                  Error{Code::kNotFound, "no link 'imagnet'; the nearest is 'imagenet'"});
  Expect("Errors", RunForebay(session_, {"-o", "json", "check", "imagnet"}).err);
}

proto::PreloadReply PreloadStarted() {
  proto::PreloadReply reply;
  reply.set_link("imagenet");
  reply.set_task_id("t-1");
  reply.set_objects(5000);
  reply.set_bytes(5'120'000);
  reply.set_blocks(5000);
  reply.set_capacity_bytes(10ULL << 30);
  reply.set_needed_bytes(41'920'000);
  reply.set_room_bytes(10'670'000'000);
  return reply;
}

TEST_F(JsonDoc, Preload) {
  session_.Answer(Method::kPreload, PreloadStarted());
  session_.Answer(Method::kPreload, PreloadStarted());
  proto::TaskState task = SamplePreload(1);
  task.set_done(4990);
  task.set_not_kept(10);
  task.set_bytes(5'109'760);
  task.set_not_kept_bytes(10'240);
  task.set_fetched_blocks(1000);
  task.set_fetched_bytes(1'024'000);
  session_.Answer(Method::kGetTask, task);
  EXPECT_EQ(Run("preload", {"preload", "imagenet/train"}).exit, 3);
  session_.Answer(Method::kPreload, PreloadStarted());
  session_.Answer(Method::kPreload, PreloadStarted());
  Run("preload --detach", {"preload", "imagenet/train", "--detach"});
  proto::PreloadReply reply = PreloadStarted();
  session_.Answer(Method::kPreload, reply);
  Run("preload --dry-run", {"preload", "imagenet/train", "--dry-run"});
  reply.set_room_bytes(1 << 20);
  session_.Answer(Method::kPreload, reply);
  session_.Answer(Method::kPreload, reply);
  Expect("preload of more than fits",
         RunForebay(session_, {"-o", "json", "preload", "imagenet/train", "--detach"}).err);
}

TEST_F(JsonDoc, Tasks) {
  proto::ListTasksReply reply;
  proto::TaskState& running = *reply.add_tasks();
  running = SamplePreload(0);
  running.set_done(2499);
  running.set_failed(1);
  running.set_bytes(2'558'976);
  running.set_failed_bytes(1024);
  running.set_fetched_blocks(1000);
  running.set_fetched_bytes(1'024'000);
  running.set_bytes_per_second(1'024'000);
  *reply.add_tasks() = SampleFill(1);
  session_.Answer(Method::kListTasks, reply);
  Run("tasks", {"tasks"});
}

TEST_F(JsonDoc, TaskShowAndCancel) {
  proto::TaskState failed = SamplePreload(2);
  failed.set_done(4999);
  failed.set_failed(1);
  failed.set_bytes(5'118'976);
  failed.set_failed_bytes(1024);
  failed.set_fetched_blocks(1000);
  failed.set_fetched_bytes(1'024'000);
  failed.set_error("1 of 5000 objects could not be fetched");
  proto::TaskFailure& failure = *failed.add_failures();
  failure.set_key("train/a.jpg");
  failure.set_reason("S3 answered 412");
  session_.Answer(Method::kGetTask, failed);
  Run("task show", {"task", "show", "t-1"});
  proto::ChangeTaskReply cancelled;
  *cancelled.mutable_task() = SamplePreload(3);
  cancelled.mutable_task()->set_error("it was cancelled");
  cancelled.set_changed(true);
  session_.Answer(Method::kCancelTask, cancelled);
  Run("task cancel", {"task", "cancel", "t-1"});
}

TEST_F(JsonDoc, Unlink) {
  proto::UnlinkReply reply;
  *reply.add_evicted() = FreedAt("n1");
  session_.Answer(Method::kUnlink, reply);
  Run("unlink", {"unlink", "imagenet", "--evict"});
}

TEST_F(JsonDoc, Check) {
  proto::CheckTargetReply reply = HalfCached();
  reply.set_unknown_blocks(3);
  reply.set_unknown_bytes(300);
  proto::UnknownNode& silent = *reply.add_unknown();
  silent.set_node_id("n2");
  silent.set_reason("suspect: it is silent and was not asked");
  silent.set_blocks(3);
  reply.set_changed_objects(1);
  proto::ChangedFile& changed = *reply.add_changed();
  changed.set_path("train/n01/0001.jpg");
  changed.set_since_unix_s(1'767'323'045);
  session_.Answer(Method::kCheckTarget, reply);
  EXPECT_EQ(Run("check", {"check", "imagenet"}).exit, 3);
}

TEST_F(JsonDoc, ExplainFile) {
  proto::ExplainReply reply;
  reply.set_link("imagenet");
  reply.set_path("train/a.jpg");
  reply.set_bucket("bucket");
  reply.set_key("imagenet/train/a.jpg");
  reply.set_generation(3);
  reply.set_listed_unix_s(1'767'315'845);
  reply.set_size(4096);
  reply.set_etag("abc");
  reply.mutable_now()->set_size(4096);
  reply.mutable_now()->set_etag("abc");
  proto::ExplainedPin& pin = *reply.add_pins();
  pin.set_target("imagenet/train");
  pin.set_job("job-17");
  reply.set_blocks(1);
  reply.set_ring_epoch(7);
  proto::UnknownNode& silent = *reply.add_silent();
  silent.set_node_id("n3");
  silent.set_reason("suspect: it is silent and was not asked");
  proto::ExplainedBlock& block = *reply.add_described();
  block.set_length(4096);
  block.add_owners("n1");
  block.add_owners("n2");
  proto::EarlierOwner& earlier = *block.add_earlier();
  earlier.set_node_id("n3");
  earlier.set_until_epoch(6);
  earlier.set_left_unix_s(1'767'319'445);
  proto::BlockAtNode& owner = *block.add_nodes();
  owner.set_node_id("n1");
  owner.set_cached(true);
  owner.set_since_unix_s(1'767'315'845);
  owner.set_read_unix_s(1'767'322'985);
  owner.set_job("job-17");
  proto::BlockAtNode& other = *block.add_nodes();
  other.set_node_id("n2");
  other.set_since_unix_s(1'767'315'845);
  other.set_lost_unix_s(1'767'319'445);
  other.set_loss(static_cast<std::uint32_t>(BlockLoss::kReplaced));
  session_.Answer(Method::kExplain, reply);
  EXPECT_EQ(Run("explain", {"explain", "imagenet/train/a.jpg"}).exit, 3);
}

TEST_F(JsonDoc, ExplainJob) {
  proto::DescribeJobReply reply;
  reply.set_active(true);
  reply.set_mounts(2);
  reply.set_processes(16);
  *reply.add_links() = SampleStats().jobs(0);
  proto::JobWaits& waits = *reply.mutable_waits();
  waits.set_reads(1200);
  waits.set_local_us(2'000'000);
  waits.set_peer_us(1'500'000);
  waits.set_s3_us(12'000'000);
  waits.set_detour_us(500'000);
  waits.set_busy_us(4'000'000);
  proto::NodeAnswers& node = *reply.add_nodes();
  node.set_node("n1");
  node.set_reads(500);
  node.set_wait_us(500'000);
  session_.Answer(Method::kDescribeJob, reply);
  session_.Answer(Method::kStats, SampleStatsWithFill());
  EXPECT_EQ(Run("explain --job", {"explain", "--job", "job-17"}).exit, 0);
}

TEST_F(JsonDoc, Evict) {
  proto::EvictTargetReply reply;
  reply.set_link("imagenet");
  reply.set_objects(2);
  reply.set_cached_bytes(4096);
  *reply.add_nodes() = FreedAt("n1");
  proto::NodeEvicted& silent = *reply.add_nodes();
  silent.set_node_id("n2");
  silent.set_error("10.0.0.2:7441: nobody answers: Connection refused");
  session_.Answer(Method::kEvictTarget, reply);
  EXPECT_EQ(Run("evict", {"evict", "imagenet/train", "--yes"}).exit, 3);
}

TEST_F(JsonDoc, EvictDryRunHasTheSameMembers) {
  proto::EvictTargetReply reply;
  reply.set_cached_bytes(4096);
  session_.Answer(Method::kEvictTarget, reply);
  const Ran ran = RunForebay(session_, {"-o", "json", "evict", "imagenet", "--dry-run"});
  const boost::json::value printed = boost::json::parse(ran.out);
  const boost::json::value documented = boost::json::parse(examples_.at("evict"));
  EXPECT_TRUE(printed.at("dry_run").as_bool());
  for (const auto& [key, value] : documented.as_object()) {
    EXPECT_TRUE(printed.as_object().contains(key)) << key;
  }
}

proto::ListTargetReply OnePage(std::uint64_t next, const std::string& name) {
  proto::ListTargetReply page;
  page.set_link("imagenet");
  page.set_next_cursor(next);
  proto::ListedEntry& entry = *page.add_entries();
  entry.set_name(name);
  if (next != 0) {
    entry.set_kind(1);
    return page;
  }
  entry.set_size(39'000);
  entry.set_mtime_s(1'767'323'045);
  entry.set_etag("d41d8cd98f00b204e9800998ecf8427e");
  return page;
}

TEST_F(JsonDoc, LsOverSeveralPages) {
  session_.Answer(Method::kListTarget, OnePage(1, "val"));
  session_.Answer(Method::kListTarget, OnePage(0, "caf\xE9.jpg"));
  Run("ls", {"ls", "imagenet/train"});
}

TEST_F(JsonDoc, LsCached) {
  proto::ListTargetReply page = OnePage(0, "a.jpg");
  page.mutable_entries(0)->set_cached_bytes(39'000);
  session_.Answer(Method::kListTarget, page);
  Run("ls --cached", {"ls", "imagenet/train", "--cached"});
}

TEST_F(JsonDoc, LsHidden) {
  proto::ListTargetReply page;
  page.set_link("imagenet");
  proto::ListedEntry& entry = *page.add_entries();
  entry.set_name("train//a.jpg");
  entry.set_reason(std::string(HiddenReasonText(HiddenReason::kEmptyComponent)));
  session_.Answer(Method::kListTarget, page);
  Run("ls --hidden", {"ls", "imagenet", "--hidden"});
}

TEST_F(JsonDoc, AnInterruptedListIsNoValidDocument) {
  session_.Answer(Method::kListTarget, OnePage(1, "val"));
  session_.Refuse(Method::kListTarget, Error{Code::kUnavailable, "gone"});
  const Ran ran = RunForebay(session_, {"-o", "json", "ls", "imagenet"});
  EXPECT_EQ(ran.exit, 1);
  boost::system::error_code error;
  boost::json::parse(ran.out, error);
  EXPECT_TRUE(error);
}

TEST_F(JsonDoc, Completion) {
  auto printed = boost::json::parse(RunForebay(session_, {"-o", "json", "completion", "fish"}).out);
  EXPECT_EQ(printed.at("script").as_string(), CompletionScript("fish"));
  printed.at("script") = "…";
  Expect("completion", JsonText(printed) + "\n");
}

TEST_F(JsonDoc, Version) {
  const Ran ran = RunForebay(session_, {"-o", "json", "version"});
  const boost::json::value printed = boost::json::parse(ran.out);
  const boost::json::value documented = boost::json::parse(examples_.at("version"));
  EXPECT_EQ(printed.at("version").as_string(), Version());
  EXPECT_EQ(printed.at("commit").as_string(), Commit());
  EXPECT_EQ(printed.as_object().size(), documented.as_object().size());
  for (const auto& [key, value] : documented.as_object())
    EXPECT_TRUE(printed.as_object().contains(key)) << key;
}

}  // namespace
}  // namespace forebay::testing
