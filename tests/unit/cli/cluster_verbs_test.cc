// links, nodes, stats, status, version.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/cli/scripted_session.h"

namespace forebay::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

proto::Alert MakeAlert(const std::string& name, std::int64_t since) {
  proto::Alert alert;
  alert.set_name(name);
  alert.set_since_unix_s(since);
  alert.set_message("message of " + name);
  alert.set_action("action of " + name);
  return alert;
}

TEST(Links, PrintsOneRowALink) {
  ScriptedSession session;
  proto::StatsReply stats = SampleStats();
  proto::LinkStats& young = *stats.add_links();
  young.set_name("new");
  young.set_source("s3://b/new/");
  session.Answer(Method::kStats, stats);
  const Ran ran = RunForebay(session, {"links"});
  EXPECT_EQ(ran.exit, 0);
  EXPECT_EQ(ran.out,
            "NAME      SOURCE                 OBJECTS     BYTES  CACHED  GENERATION  STATE\n"
            "imagenet  s3://bucket/imagenet/    5,000  8.00 KiB  25.0 %           3  ready\n"
            "new       s3://b/new/                  -         -       -           -  listing\n");
}

TEST(Links, WideShowsMore) {
  ScriptedSession session;
  session.Answer(Method::kStats, SampleStats());
  const Ran ran = RunForebay(session, {"links", "-o", "wide"});
  EXPECT_THAT(
      ran.out,
      HasSubstr("STATE  CACHED-BYTES  PINNED  QUOTA  PRIORITY  REPLICAS  HIDDEN-KEYS  LISTED\n"));
  EXPECT_THAT(
      ran.out,
      HasSubstr(
          "2.00 KiB     0 B      -  normal    1                   2  2026-01-02T02:13:20Z\n"));
}

TEST(Links, WithoutAnySaysHowToMakeOne) {
  ScriptedSession session;
  session.Answer(Method::kStats, proto::StatsReply());
  EXPECT_THAT(RunForebay(session, {"links"}).out, HasSubstr("forebay link s3://bucket/prefix"));
}

TEST(Links, WatchPrintsAgainUntilCtrlC) {
  ScriptedSession session;
  session.Answer(Method::kStats, SampleStats());
  session.Answer(Method::kStats, SampleStats());
  session.InterruptAtPause(2);
  const Ran ran = RunForebay(session, {"links", "--watch", "2s"});
  EXPECT_EQ(ran.exit, 130);
  EXPECT_EQ(session.waited(), std::chrono::seconds(4));
  EXPECT_NE(ran.out.find("imagenet"), ran.out.rfind("imagenet  s3"));
  EXPECT_THAT(ran.out, Not(HasSubstr("\x1b")));
}

TEST(Links, WatchEndsWithTheTimeout) {
  ScriptedSession session;
  session.Answer(Method::kStats, SampleStats());
  session.TimeOutAtPause(1);
  EXPECT_EQ(RunForebay(session, {"links", "--watch", "2s", "--timeout", "1s"}).exit, 0);
}

TEST(Nodes, PrintsOneRowANode) {
  ScriptedSession session;
  proto::StatsReply stats = SampleStats();
  stats.mutable_nodes(1)->mutable_info()->set_state(3);
  session.Answer(Method::kStats, stats);
  const Ran ran = RunForebay(session, {"nodes"});
  EXPECT_EQ(ran.exit, 0);
  EXPECT_EQ(ran.out,
            "ID  ADDRESS        STATE            USED  CAPACITY  BLOCKS  HITS  MISSES  S3-GETS\n"
            "n1  10.0.0.1:7441  up           3.00 GiB  10.0 GiB   2,500   900     100      100\n"
            "n2  10.0.0.2:7441  out, silent  3.00 GiB  10.0 GiB   2,500   900     100      100\n");
}

TEST(Nodes, AWrongClockIsInItsRow) {
  ScriptedSession session;
  proto::StatsReply stats = SampleStats();
  stats.mutable_nodes(1)->set_clock_wrong_s(20);
  stats.mutable_nodes(1)->set_slow_mounts(1);
  session.Answer(Method::kStats, stats);
  EXPECT_THAT(RunForebay(session, {"nodes"}).out, HasSubstr("  up, slow, wrong clock  "));
}

TEST(Nodes, ColoursOnlyWhereTheyAreWanted) {
  ScriptedSession session;
  session.Answer(Method::kStats, SampleStats());
  session.Answer(Method::kStats, SampleStats());
  EXPECT_THAT(RunForebay(session, {"nodes"}, {.out = true, .colour = true}).out,
              HasSubstr("\x1b[32mup\x1b[0m"));
  EXPECT_THAT(RunForebay(session, {"nodes"}, {.out = true}).out, Not(HasSubstr("\x1b")));
}

TEST(Nodes, BeforeItsFirstHeartbeatANodeShowsWhatItWillHold) {
  ScriptedSession session;
  proto::StatsReply stats;
  proto::NodeStats& node = *stats.add_nodes();
  node.mutable_info()->set_id("n1");
  node.mutable_info()->set_capacity_bytes(1ULL << 40);
  session.Answer(Method::kStats, stats);
  EXPECT_THAT(RunForebay(session, {"nodes"}).out, HasSubstr("0 B  1.00 TiB"));
}

TEST(Stats, ShowsLinksNodesAndJobs) {
  ScriptedSession session;
  session.Answer(Method::kStats, SampleStats());
  const Ran ran = RunForebay(session, {"stats"});
  EXPECT_EQ(ran.exit, 0);
  EXPECT_THAT(
      ran.out,
      HasSubstr("LINK       READS      READ  HIT-RATIO  MISSES  S3-GETS  S3-BYTES  CROSS-ZONE  "
                "READS 60s  HIT-RATIO 60s  S3-GETS 60s\n"
                "imagenet  10,000  9.77 MiB     90.0 %   1,000    1,000  1000 KiB       512 B  "
                "      100         90.0 %           10\n"));
  EXPECT_THAT(ran.out, HasSubstr("\nID  ADDRESS"));
  EXPECT_THAT(
      ran.out,
      HasSubstr(
          "\nJOB     LINK      GENERATION  MOUNTS  EPOCH  PROGRESS  READS  HIT-RATIO  STALLED\n"
          "job-17  imagenet           3       2      3    41.0 %  1,000     75.0 %   12.5 s\n"));
  EXPECT_EQ(session.Asked<proto::StatsRequest>(0).window_seconds(), 0u);
}

TEST(Status, OfALinkWithReplicasAllCopiesAreAllOfIt) {
  ScriptedSession session;
  proto::StatsReply stats = SampleStats();
  proto::LinkStats& link = *stats.mutable_links(0);
  link.set_replicas(2);
  link.mutable_total()->set_cached_bytes(link.generation().bytes());
  for (int i = 0; i < 2; ++i) session.Answer(Method::kStats, stats);
  EXPECT_THAT(RunForebay(session, {"status"}).out, HasSubstr("50.0 % cached"));
  EXPECT_THAT(RunForebay(session, {"links"}).out, HasSubstr("50.0 %")) << "as links has it";
}

TEST(Stats, WithoutZonesThereIsNoColumnOfThem) {
  ScriptedSession session;
  proto::StatsReply stats = SampleStats();
  stats.mutable_links(0)->mutable_total()->clear_cross_zone_bytes();
  session.Answer(Method::kStats, stats);
  EXPECT_THAT(RunForebay(session, {"stats", "--links"}).out, Not(HasSubstr("CROSS-ZONE")));
}

TEST(Status, SaysWhatWentFromZoneToZoneWhereThereAreSeveral) {
  ScriptedSession session;
  proto::StatsReply stats = SampleStats();
  session.Answer(Method::kStats, stats);
  EXPECT_THAT(RunForebay(session, {"status"}).out, Not(HasSubstr("zones")));
  stats.mutable_nodes(1)->mutable_info()->set_zone("b");
  session.Answer(Method::kStats, stats);
  EXPECT_THAT(RunForebay(session, {"status"}).out,
              HasSubstr("\nzones        2, 512 B sent from one to another\n"));
}

TEST(Stats, SelectsSections) {
  ScriptedSession session;
  for (int i = 0; i < 3; ++i) session.Answer(Method::kStats, SampleStats());
  EXPECT_TRUE(RunForebay(session, {"stats", "--links"}).out.starts_with("LINK"));
  EXPECT_TRUE(RunForebay(session, {"stats", "--nodes"}).out.starts_with("ID"));
  EXPECT_TRUE(RunForebay(session, {"stats", "--jobs"}).out.starts_with("JOB"));
}

TEST(Stats, SinceIsTheWindow) {
  ScriptedSession session;
  session.Answer(Method::kStats, SampleStats());
  RunForebay(session, {"stats", "--since", "5m"});
  EXPECT_EQ(session.Asked<proto::StatsRequest>(0).window_seconds(), 300u);
  for (const char* wrong : {"5", "0", "10ms", "2000d"}) {
    EXPECT_EQ(RunForebay(session, {"stats", "--since", wrong}).exit, 2) << wrong;
  }
}

TEST(Stats, CachedObjectsOfLinksThatAreTooLargeAreNotCounted) {
  ScriptedSession session;
  proto::StatsReply stats = SampleStats();
  stats.mutable_links(0)->mutable_generation()->set_objects(1'000'001);
  session.Answer(Method::kStats, stats);
  EXPECT_THAT(RunForebay(session, {"stats", "-o", "json"}).out,
              HasSubstr("\"cached_objects\":null"));
}

TEST(Stats, CachedObjectsAreNullWhenANodeDoesNotSay) {
  ScriptedSession session;
  session.Answer(Method::kStats, SampleStats());
  session.Refuse(Method::kCheckTarget, Error{Code::kUnavailable, "n2 is silent"});
  const Ran ran = RunForebay(session, {"stats", "-o", "json"});
  EXPECT_EQ(ran.exit, 0);
  EXPECT_THAT(ran.out, HasSubstr("\"cached_objects\":null"));
}

TEST(Status, HealthyIsExitZero) {
  ScriptedSession session;
  session.Answer(Method::kStats, SampleStats());
  const Ran ran = RunForebay(session, {"status"});
  EXPECT_EQ(ran.exit, 0);
  EXPECT_EQ(ran.out,
            "healthy\n\n"
            "coordinator  127.0.0.1:7440, version 0.1.0, up 1 h 0 min\n"
            "ring         epoch 7, nodes: 2 up\n"
            "capacity     6.00 GiB of 20.0 GiB used\n"
            "links        imagenet: 5,000 objects, 8.00 KiB, 25.0 % cached\n");
}

TEST(Status, TheAlertThatMattersMostComesFirst) {
  ScriptedSession session;
  proto::StatsReply stats = SampleStats();
  *stats.add_alerts() = MakeAlert("link_failed", 1'767'320'000);
  *stats.add_alerts() = MakeAlert("node_suspect", 1'767'323'000);
  *stats.add_alerts() = MakeAlert("disk_quarantined", 1'767'322'795);
  *stats.add_alerts() = MakeAlert("of_a_newer_version", 1'767'322'000);
  session.Answer(Method::kStats, stats);
  const Ran ran = RunForebay(session, {"status"});
  EXPECT_EQ(ran.exit, 3);
  EXPECT_TRUE(
      ran.out.starts_with("degraded: message of disk_quarantined\n"
                          "  since    2026-01-02T02:59:55Z (4 min 10 s)\n"
                          "  do       action of disk_quarantined\n"
                          "  and      message of node_suspect\n"
                          "  and      message of of_a_newer_version\n"
                          "  and      message of link_failed\n"))
      << ran.out;
}

TEST(Status, AClusterWithoutANodeIsDegraded) {
  ScriptedSession session;
  proto::StatsReply stats = SampleStats();
  for (proto::NodeStats& node : *stats.mutable_nodes()) node.mutable_info()->set_state(1);
  *stats.add_alerts() = MakeAlert("disk_quarantined", 1);
  session.Answer(Method::kStats, stats);
  const Ran ran = RunForebay(session, {"status"});
  EXPECT_EQ(ran.exit, 3);
  EXPECT_TRUE(ran.out.starts_with("degraded: no cache node is up")) << ran.out;
  EXPECT_THAT(ran.out, HasSubstr("nodes: 0 up, 2 suspect\n"));
}

TEST(Status, QuietOnlySetsTheExitCode) {
  ScriptedSession session;
  session.Answer(Method::kStats, SampleStats());
  session.Answer(Method::kStats, proto::StatsReply());
  const Ran healthy = RunForebay(session, {"status", "--quiet"});
  EXPECT_EQ(healthy.exit, 0);
  EXPECT_EQ(healthy.out + healthy.err, "");
  const Ran degraded = RunForebay(session, {"status", "--quiet"});
  EXPECT_EQ(degraded.exit, 3);
  EXPECT_EQ(degraded.out + degraded.err, "");
}

TEST(Version, AsksNobody) {
  ScriptedSession session;
  const Ran verb = RunForebay(session, {"version"});
  EXPECT_EQ(verb.exit, 0);
  EXPECT_TRUE(verb.out.starts_with("forebay ")) << verb.out;
  EXPECT_EQ(RunForebay(session, {"--version"}).out, verb.out);
}

}  // namespace
}  // namespace forebay::testing
