#include "coordinator/coordinator.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <fstream>
#include <thread>

#include "common/ring/ring.h"
#include "common/snapshot/snapshot.h"
#include "common/wire/messages.h"
#include "tests/component/coordinator/cluster_fixture.h"

namespace forebay {
namespace {

class CoordinatorTest : public ClusterTest {
 protected:
  CoordinatorTest() {
    for (int i = 0; i < 500; ++i) {
      store.Put("data/train/" + std::to_string(1000 + i), static_cast<std::uint64_t>(i));
    }
    store.Put("data/val/a.jpg", 10'000'000);
    store.Put("single", 5);
    StartCoordinator();
  }

  /// The published snapshot, read over the wire as a mount does.
  std::string Fetch(const proto::LinkState& link) {
    std::string file;
    while (file.size() < link.generation().snapshot_bytes()) {
      proto::ReadSnapshotRequest request;
      request.set_link(link.spec().id());
      request.set_generation(link.generation().generation());
      request.set_offset(file.size());
      const std::uint64_t rest = link.generation().snapshot_bytes() - file.size();
      request.set_length(static_cast<std::uint32_t>(std::min<std::uint64_t>(rest, 10'000)));
      std::string bytes;
      const auto reply =
          client.Ask<proto::ReadSnapshotReply>(address(), Method::kReadSnapshot, request, &bytes);
      if (!reply || bytes.size() != request.length()) {
        ADD_FAILURE() << (reply ? "short" : reply.error().message);
        return {};
      }
      file += bytes;
    }
    return file;
  }

  Result<proto::CheckTargetReply> Check(const std::string& target) {
    proto::CheckTargetRequest request;
    request.mutable_target()->set_text(target);
    return admin.Ask<proto::CheckTargetReply>(address(), Method::kCheckTarget, request);
  }
  proto::StatsReply Stats() {
    return *admin.Ask<proto::StatsReply>(address(), Method::kStats, proto::StatsRequest());
  }
  Error LinkError(const proto::LinkRequest& request) {
    const auto reply = admin.Ask<proto::LinkReply>(address(), Method::kLink, request);
    return reply ? Error{Code::kInternal, "it was linked"} : reply.error();
  }
};

TEST_F(CoordinatorTest, AMountReadsBackWhatWasListed) {
  MakeLink("data", "data/");
  const Result<proto::LinkState> link = GetLink("data");
  ASSERT_TRUE(link.has_value());
  EXPECT_EQ(link->state(), static_cast<std::uint32_t>(LinkPhase::kReady));
  EXPECT_EQ(link->generation().objects(), 501u);
  std::ofstream(dir / "copy", std::ios::binary) << Fetch(*link);
  const auto snapshot =
      Snapshot::Open(dir / "copy", SnapshotId{.link = UuidFromBytes(link->spec().id()),
                                              .generation = link->generation().generation()});
  ASSERT_TRUE(snapshot.has_value()) << snapshot.error().message;
  EXPECT_TRUE((*snapshot)->VerifyAll().has_value());
  EXPECT_EQ((*snapshot)->Digest().high, link->generation().digest_high());
  EXPECT_EQ((*snapshot)->Resolve("train/1499")->size, 499u);
  EXPECT_EQ((*snapshot)->Resolve("val/a.jpg")->size, 10'000'000u);
}

TEST_F(CoordinatorTest, NodesJoinARingAndLearnTheLinks) {
  MakeLink("data", "data/");
  FakeNode n1("n1", secret), n2("n2", secret), n3("n3", secret);
  std::string table;
  ASSERT_TRUE(n1.Register(address()).has_value());
  ASSERT_TRUE(n2.Register(address()).has_value());
  const auto joined = n3.Register(address(), &table);
  ASSERT_TRUE(joined.has_value()) << joined.error().message;
  EXPECT_EQ(joined->links_size(), 1);
  const Result<RingTable> ring = RingTable::Parse(table);
  ASSERT_TRUE(ring.has_value());
  EXPECT_EQ(ring->epoch(), 3u);
  EXPECT_EQ(ring->nodes().size(), 3u);
  EXPECT_EQ(coordinator->ring_epoch(), 3u);

  const auto quiet = n1.Heartbeat(address());
  ASSERT_TRUE(quiet.has_value());
  EXPECT_FALSE(quiet->register_again());
  EXPECT_EQ(quiet->links_size(), 0) << "nothing changed since it registered";
  MakeLink("single", "single");
  const auto changed = n1.Heartbeat(address());
  EXPECT_EQ(changed->links_size(), 2);
  EXPECT_GT(changed->links_version(), joined->links_version());

  proto::GetRingRequest up_to_date;
  up_to_date.set_have_epoch(3);
  std::string nothing;
  const auto same =
      client.Ask<proto::GetRingReply>(address(), Method::kGetRing, up_to_date, &nothing);
  EXPECT_EQ(same->epoch(), 3u);
  EXPECT_TRUE(nothing.empty());
}

TEST_F(CoordinatorTest, ARestartKeepsEpochLinksAndGenerations) {
  MakeLink("data", "data/");
  FakeNode n1("n1", secret), n2("n2", secret), n3("n3", secret);
  for (FakeNode* node : {&n1, &n2, &n3}) ASSERT_TRUE(node->Register(address()).has_value());
  const proto::LinkState before = *GetLink("data");
  const std::string file = Fetch(before);
  const Uuid cluster = coordinator->cluster();
  const std::uint64_t lists = store.lists();

  StopCoordinator();
  StartCoordinator();
  EXPECT_EQ(coordinator->ring_epoch(), 3u);
  EXPECT_EQ(coordinator->cluster(), cluster);
  const Result<proto::LinkState> after = GetLink("data");
  ASSERT_TRUE(after.has_value());
  EXPECT_EQ(after->SerializeAsString(), before.SerializeAsString());
  EXPECT_EQ(Fetch(*after), file);
  EXPECT_EQ(store.lists(), lists) << "nothing is listed again";
  EXPECT_FALSE(n1.Heartbeat(address())->register_again()) << "the same process is still a member";
  EXPECT_EQ(Stats().nodes_size(), 3);
}

TEST_F(CoordinatorTest, ASilentNodeIsSuspectThenOutAndAnAlert) {
  FakeNode silent("n1", secret), lively("n2", secret);
  // With a coordinator of these times, until there is such an alert of the silent one.
  const auto wait_for = [&](const std::string& wanted) {
    StopCoordinator();
    StartCoordinator();
    std::jthread beating([&](const std::stop_token& stop) {
      while (!stop.stop_requested()) {
        const auto reply = lively.Heartbeat(address());
        if (reply && reply->register_again()) EXPECT_TRUE(lively.Register(address()).has_value());
      }
    });
    const auto is_there = [&] {
      const proto::StatsReply stats = Stats();
      return std::ranges::any_of(stats.alerts(), [&](const proto::Alert& alert) {
        return alert.name() == wanted && alert.message().find("n1") != std::string::npos;
      });
    };
    const Deadline deadline = Deadline::After(std::chrono::seconds(20));
    while (!is_there()) {
      if (deadline.Expired()) return false;
    }
    return true;
  };
  ASSERT_TRUE(silent.Register(address()).has_value());
  ASSERT_TRUE(lively.Register(address()).has_value());
  const std::uint64_t epoch = coordinator->ring_epoch();
  times.restart_grace = std::chrono::milliseconds(200);
  times.suspect_after = std::chrono::milliseconds(200);
  times.out_after = std::chrono::hours(1);
  EXPECT_TRUE(wait_for("node_suspect"));
  EXPECT_EQ(coordinator->ring_epoch(), epoch) << "suspect moves nothing";
  times.out_after = std::chrono::milliseconds(1500);
  EXPECT_TRUE(wait_for("node_out"));
  EXPECT_GT(coordinator->ring_epoch(), epoch) << "out does";
  EXPECT_TRUE(silent.Heartbeat(address())->register_again());
}

TEST_F(CoordinatorTest, ADiskThatIsLostAndOneThatIsBackChangeTheNodesShareOfTheRing) {
  StopCoordinator();
  times.less_room_after = std::chrono::milliseconds(200);
  times.more_room_after = std::chrono::milliseconds(200);
  StartCoordinator();
  FakeNode whole("n1", secret), hurt("n2", secret);
  whole.disks = 2;
  hurt.disks = 2;
  std::string bytes;
  ASSERT_TRUE(whole.Register(address()).has_value());
  ASSERT_TRUE(hurt.Register(address(), &bytes).has_value());
  const RingTable before = *RingTable::Parse(bytes);
  const auto wait_for = [&](std::uint64_t epoch) {
    const Deadline deadline = Deadline::After(std::chrono::seconds(20));
    while (coordinator->ring_epoch() < epoch && !deadline.Expired()) {
      EXPECT_FALSE(whole.Heartbeat(address())->register_again());
      EXPECT_FALSE(hurt.Heartbeat(address())->register_again());
    }
    EXPECT_TRUE(whole.Register(address(), &bytes).has_value());
    RingTable table = *RingTable::Parse(bytes);
    EXPECT_EQ(table.epoch(), epoch);
    return table;
  };
  const auto share = [](const RingTable& table, const std::string& id) {
    std::uint32_t held = 0;
    for (std::uint32_t p = 0; p < kPartitions; ++p)
      if (table.nodes()[table.OwnersOf(p)[0]].id == id) ++held;
    return static_cast<double>(held) / kPartitions;
  };
  EXPECT_NEAR(share(before, "n2"), 0.5, 0.01);

  hurt.disks = 1;
  const RingTable less = wait_for(before.epoch() + 1);
  EXPECT_NEAR(share(less, "n2"), 1.0 / 3, 0.01);
  for (std::uint32_t p = 0; p < kPartitions; ++p) {
    const bool moved =
        less.nodes()[less.OwnersOf(p)[0]].id != before.nodes()[before.OwnersOf(p)[0]].id;
    if (!moved) continue;
    ASSERT_EQ(before.nodes()[before.OwnersOf(p)[0]].id, "n2") << "its surplus alone moves";
    ASSERT_EQ(less.PreviousOwnersOf(p)[0].node_id, "n2") << "it is asked before S3";
  }
  hurt.disks = 2;
  const RingTable again = wait_for(before.epoch() + 2);
  EXPECT_NEAR(share(again, "n2"), 0.5, 0.01);
  std::uint32_t differ = 0;
  for (std::uint32_t p = 0; p < kPartitions; ++p)
    if (again.OwnersOf(p)[0] != before.OwnersOf(p)[0]) ++differ;
  EXPECT_EQ(differ, 0u) << "it gets its own back";
}

TEST_F(CoordinatorTest, LinkFailsAtOnceAndChangesNothing) {
  proto::LinkRequest request = LinkRequestFor("x", "nothing/here/");
  EXPECT_EQ(LinkError(request),
            (Error{Code::kInvalid, "no objects under s3://bucket/nothing/here/"}));
  request.set_bucket("no-such-bucket");
  EXPECT_EQ(LinkError(request).code, Code::kNotFound);
  store.SetListFault([](const ListRequest&) {
    return std::optional(Error{Code::kDenied, "the secret is wrong"});
  });
  EXPECT_EQ(LinkError(LinkRequestFor("x", "data/")), (Error{Code::kDenied, "the secret is wrong"}));
  EXPECT_EQ(GetLink("x").error().code, Code::kNotFound);
  const auto all =
      client.Ask<proto::GetLinksReply>(address(), Method::kGetLinks, proto::GetLinksRequest());
  EXPECT_EQ(all->links_size(), 0);
}

TEST_F(CoordinatorTest, TheSameLinkAgainHasNothingToWaitFor) {
  MakeLink("data", "data");
  const auto again =
      admin.Ask<proto::LinkReply>(address(), Method::kLink, LinkRequestFor("data", "data/"));
  ASSERT_TRUE(again.has_value()) << again.error().message;
  EXPECT_EQ(again->task_id(), "");
  proto::LinkRequest other = LinkRequestFor("data", "data/");
  other.set_block_bytes(1 << 20);
  const Error refused = LinkError(other);
  EXPECT_EQ(refused.code, Code::kInvalid);
  EXPECT_NE(refused.message.find("block size"), std::string::npos);
}

TEST_F(CoordinatorTest, AListingThatFailsLaterRemovesTheLinkAndSaysWhy) {
  std::atomic<int> calls{0};
  store.SetListFault([&calls](const ListRequest&) -> std::optional<Error> {
    if (++calls < 5) return std::nullopt;
    return Error{Code::kDenied, "the token expired"};
  });
  const auto linked =
      admin.Ask<proto::LinkReply>(address(), Method::kLink, LinkRequestFor("data", "data/"));
  ASSERT_TRUE(linked.has_value());
  const proto::TaskState task = WaitForTask(linked->task_id());
  EXPECT_EQ(task.state(), 2u);
  EXPECT_EQ(task.error(), "the token expired");
  EXPECT_EQ(GetLink("data").error().code, Code::kNotFound);
  EXPECT_EQ(Stats().alerts_size(), 0) << "its task says it: no link is in a bad state";
}

TEST_F(CoordinatorTest, AnInterruptedListingGoesOnUnderItsTaskAndIsNeverHalfVisible) {
  store.HangAfter(20);
  const auto linked =
      admin.Ask<proto::LinkReply>(address(), Method::kLink, LinkRequestFor("data", "data/"));
  ASSERT_TRUE(linked.has_value());
  ASSERT_TRUE(store.WaitUntilHanging());
  EXPECT_FALSE(GetLink("data")->has_generation());
  proto::GetTaskRequest request;
  request.set_id(linked->task_id());
  const auto task = admin.Ask<proto::TaskState>(address(), Method::kGetTask, request);
  EXPECT_GT(task->done(), 0u) << "progress shows while it lists";
  StopCoordinator();

  StartCoordinator();
  EXPECT_EQ(WaitForTask(linked->task_id()).state(), 1u);
  EXPECT_EQ(GetLink("data")->generation().objects(), 501u);
}

TEST_F(CoordinatorTest, ADamagedSnapshotIsFoundAndListedAgain) {
  MakeLink("data", "data/");
  const proto::LinkState before = *GetLink("data");
  StopCoordinator();
  const std::filesystem::path file =
      dir / "state" / "snapshots" / UuidFromBytes(before.spec().id()).ToString() / "1.fbs";
  ASSERT_TRUE(std::filesystem::exists(file));
  {
    std::fstream bytes(file, std::ios::in | std::ios::out | std::ios::binary);
    bytes.seekp(static_cast<std::streamoff>(std::filesystem::file_size(file) / 2));
    bytes.put('\x5a');
    bytes.put('\xa5');
  }
  StartCoordinator();
  const Deadline deadline = Deadline::After(std::chrono::seconds(20));
  // Behind the start: links are served before their files were read. A mount compares what it
  // fetches with the announced digest.
  while (GetLink("data")->generation().generation() != 2 && !deadline.Expired()) {
  }
  const proto::LinkState after = *GetLink("data");
  EXPECT_EQ(after.generation().generation(), 2u);
  EXPECT_EQ(after.generation().objects(), 501u);
  EXPECT_EQ(after.spec().SerializeAsString(), before.spec().SerializeAsString());
}

TEST_F(CoordinatorTest, ALinkToOneObjectShowsThatObjectAlone) {
  store.Put("single2", 7);
  MakeLink("one", "single");
  const Result<proto::LinkState> link = GetLink("one");
  EXPECT_EQ(link->generation().objects(), 1u);
  EXPECT_EQ(link->generation().bytes(), 5u);
}

TEST_F(CoordinatorTest, CheckAndEvictAskTheNodes) {
  MakeLink("data", "data/");
  FakeNode n1("n1", secret), n2("n2", secret);
  ASSERT_TRUE(n1.Register(address()).has_value());
  ASSERT_TRUE(n2.Register(address()).has_value());
  const auto cold = Check("data");
  ASSERT_TRUE(cold.has_value()) << cold.error().message;
  EXPECT_EQ(cold->objects(), 501u);
  EXPECT_EQ(cold->cached_objects(), 1u) << "the empty object has nothing to cache";
  n2.holds_everything = true;
  const auto warm = Check("s3://bucket/data/val");
  ASSERT_TRUE(warm.has_value());
  EXPECT_EQ(warm->objects(), 1u);
  EXPECT_EQ(warm->blocks(), 3u);
  EXPECT_EQ(warm->cached_bytes(), 10'000'000u);
  EXPECT_EQ(Check("data/vla").error().code, Code::kNotFound);

  proto::EvictTargetRequest evict;
  evict.mutable_target()->set_text("data/val/");
  evict.set_dry_run(true);
  const auto dry = admin.Ask<proto::EvictTargetReply>(address(), Method::kEvictTarget, evict);
  EXPECT_EQ(dry->cached_bytes(), 10'000'000u);
  EXPECT_EQ(n2.freed_bytes, 0u);
  evict.set_dry_run(false);
  const auto done = admin.Ask<proto::EvictTargetReply>(address(), Method::kEvictTarget, evict);
  ASSERT_EQ(done->nodes_size(), 2);
  EXPECT_EQ(done->nodes(1).node_id(), "n2");
  EXPECT_EQ(done->nodes(1).bytes(), 30u) << "as the node says";
}

TEST_F(CoordinatorTest, UnlinkRemovesTheLinkAndEvictsWhenAsked) {
  MakeLink("data", "data/");
  FakeNode n1("n1", secret);
  ASSERT_TRUE(n1.Register(address()).has_value());
  n1.holds_everything = true;
  proto::UnlinkRequest request;
  request.set_name("data");
  request.set_evict(true);
  const auto gone = admin.Ask<proto::UnlinkReply>(address(), Method::kUnlink, request);
  ASSERT_TRUE(gone.has_value()) << gone.error().message;
  ASSERT_EQ(gone->evicted_size(), 1);
  EXPECT_EQ(gone->evicted(0).blocks(), 1000u);
  EXPECT_EQ(GetLink("data").error().code, Code::kNotFound);
  const auto told = n1.Heartbeat(address());
  EXPECT_EQ(told->links_size(), 0);
  EXPECT_GT(told->links_version(), n1.links_version);
}

TEST_F(CoordinatorTest, ALinkThatAJobReadsIsRemovedByForceAlone) {
  MakeLink("data", "data/");
  proto::ReportJobsRequest report;
  report.set_incarnation(7);
  for (const char* job : {"resnet", "vit"}) {
    proto::MountJob& row = *report.add_jobs();
    row.set_job(job);
    row.set_link(GetLink("data")->spec().id());
    row.set_serial(1);
    row.mutable_waits()->set_reads(1);
  }
  const auto tell = [&] {
    return client.Ask<proto::ReportJobsReply>(address(), Method::kReportJobs, report).has_value();
  };
  proto::UnlinkRequest request;
  request.set_name("data");
  const auto unlink = [&] {
    return admin.Ask<proto::UnlinkReply>(address(), Method::kUnlink, request);
  };
  ASSERT_TRUE(tell());
  const auto refused = unlink();
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code, Code::kInvalid);
  EXPECT_NE(refused.error().message.find("the jobs 'resnet', 'vit'"), std::string::npos)
      << refused.error().message;
  EXPECT_NE(refused.error().message.find("--force"), std::string::npos);
  EXPECT_TRUE(GetLink("data").has_value());
  request.set_force(true);
  EXPECT_TRUE(unlink().has_value());

  MakeLink("data", "data/");
  for (proto::MountJob& row : *report.mutable_jobs()) {
    row.set_link(GetLink("data")->spec().id());
    row.set_ended(true);
  }
  ASSERT_TRUE(tell());
  request.set_force(false);
  EXPECT_TRUE(unlink().has_value()) << "its mounts have said that they are over";
}

TEST_F(CoordinatorTest, ListShowsAFolderInParts) {
  MakeLink("data", "data/");
  proto::ListTargetRequest request;
  request.mutable_target()->set_text("data/train");
  request.set_limit(200);
  std::size_t entries = 0;
  int parts = 0;
  do {
    const auto page = admin.Ask<proto::ListTargetReply>(address(), Method::kListTarget, request);
    ASSERT_TRUE(page.has_value()) << page.error().message;
    entries += static_cast<std::size_t>(page->entries_size());
    request.set_cursor(page->next_cursor());
    ++parts;
  } while (request.cursor() != 0 && parts < 10);
  EXPECT_EQ(entries, 500u);
  EXPECT_EQ(parts, 3);
}

TEST_F(CoordinatorTest, CountersSurviveNodesAndCoordinators) {
  MakeLink("data", "data/");
  FakeNode n1("n1", secret);
  ASSERT_TRUE(n1.Register(address()).has_value());
  n1.counters.set_link(GetLink("data")->spec().id());
  n1.counters.set_reads(100);
  ASSERT_TRUE(n1.Heartbeat(address()).has_value());
  EXPECT_EQ(Stats().links(0).total().reads(), 100u);
  n1.Restart();
  ASSERT_TRUE(n1.Register(address()).has_value());
  n1.counters.set_link(GetLink("data")->spec().id());
  n1.counters.set_reads(5);
  ASSERT_TRUE(n1.Heartbeat(address()).has_value());
  EXPECT_EQ(Stats().links(0).total().reads(), 105u);
  StopCoordinator();
  StartCoordinator();
  const proto::StatsReply stats = Stats();
  EXPECT_EQ(stats.links(0).total().reads(), 105u);
  EXPECT_EQ(stats.nodes(0).total().reads(), 105u);
  EXPECT_EQ(stats.links(0).name(), "data");
}

TEST_F(CoordinatorTest, WhatStatsHaveShownOutlivesAKill) {
  MakeLink("data", "data/");
  FakeNode n1("n1", secret);
  ASSERT_TRUE(n1.Register(address()).has_value());
  n1.counters.set_link(GetLink("data")->spec().id());
  n1.counters.set_reads(100);
  ASSERT_TRUE(n1.Heartbeat(address()).has_value());
  EXPECT_EQ(Stats().links(0).total().reads(), 100u);
  // What lies on the disk at this moment is what a killed process leaves.
  const std::filesystem::path at_kill = dir.string() + ".killed";
  std::filesystem::copy(dir, at_kill, std::filesystem::copy_options::recursive);
  StopCoordinator();
  std::filesystem::remove_all(dir);
  std::filesystem::rename(at_kill, dir);
  n1.Restart();
  StartCoordinator();
  ASSERT_TRUE(n1.Register(address()).has_value());
  ASSERT_TRUE(n1.Heartbeat(address()).has_value());
  EXPECT_EQ(Stats().links(0).total().reads(), 100u);
}

}  // namespace
}  // namespace forebay
