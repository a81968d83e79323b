#include "fuse-client/stats.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <boost/json/parse.hpp>
#include <boost/json/value.hpp>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <numeric>
#include <string>

#include "common/base/metric_names.h"
#include "common/base/metrics.h"
#include "fuse-client/kept_stats.h"
#include "fuse-client/mount_metrics.h"
#include "proto/handover.pb.h"

namespace forebay {
namespace {

using std::chrono::microseconds;

TEST(MountStats, TheHistogramHasTheBucketsOfTheMetric) {
  EXPECT_TRUE(std::equal(kReadSecondsBounds.begin(), kReadSecondsBounds.end(),
                         metric::kReadDuration.buckets.begin(),
                         metric::kReadDuration.buckets.end()));
}

TEST(MountStats, SumsOverWorkers) {
  MountStats stats(3);
  for (std::size_t i = 0; i < 3; ++i) {
    stats.Worker(i).CountOp(FuseOp::kRead, 0);
    stats.Worker(i).CountOp(FuseOp::kLookup, ENOENT);
    stats.Worker(i).CountBytes(Tier::kPeer, 100);
  }
  stats.Worker(0).CountOp(FuseOp::kLookup, 12345);  // an errno without a slot of its own
  const StatsSnapshot sum = stats.Sum();
  EXPECT_EQ(sum.OpTotal(FuseOp::kRead), 3u);
  EXPECT_EQ(sum.OpTotal(FuseOp::kLookup), 4u);
  EXPECT_EQ(sum.read_bytes[static_cast<std::size_t>(Tier::kPeer)], 300u);
}

TEST(MountStats, QuantilesAreBucketBounds) {
  MountStats stats(1);
  EXPECT_EQ(stats.Sum().ReadSecondsQuantile(0.5), 0);
  for (int i = 0; i < 99; ++i) stats.Worker(0).CountRead(microseconds(150));
  stats.Worker(0).CountRead(std::chrono::seconds(4));
  EXPECT_DOUBLE_EQ(stats.Sum().ReadSecondsQuantile(0.5), 0.0002);
  EXPECT_DOUBLE_EQ(stats.Sum().ReadSecondsQuantile(0.99), 0.0002);
  EXPECT_DOUBLE_EQ(stats.Sum().ReadSecondsQuantile(0.999), 5);
}

TEST(MountStats, TheControlFileIsJsonWithWhatHappened) {
  MountStats stats(2);
  stats.Worker(1).CountOp(FuseOp::kRead, EIO);
  stats.Worker(1).CountFailedRead(Code::kTimeout);
  stats.Worker(0).CountBytes(Tier::kS3, 7);
  stats.Worker(0).CountStall(std::chrono::milliseconds(1500));
  stats.Worker(1).CountPlacedRead(PlacedRead::kRead);
  stats.Worker(0).CountWait(Tier::kPeer, std::chrono::milliseconds(250),
                            std::chrono::milliseconds(500));
  const std::string text = stats.ToJson({boost::json::value("a job")});
  EXPECT_EQ(text.back(), '\n');
  const boost::json::value json = boost::json::parse(text);
  EXPECT_EQ(json.at("fuse_ops").at("read").at("EIO").to_number<int>(), 1);
  EXPECT_EQ(json.at("failed_reads").at("Timeout").to_number<int>(), 1);
  EXPECT_EQ(json.at("read_bytes").at("s3").to_number<int>(), 7);
  EXPECT_EQ(json.at("stall_seconds").to_number<double>(), 1.5);
  EXPECT_EQ(json.at("placed_reads").at("read").to_number<int>(), 1);
  EXPECT_EQ(json.at("placed_reads").at("gone").to_number<int>(), 0);
  EXPECT_EQ(json.at("wait_seconds").at("peer").to_number<double>(), 0.25);
  EXPECT_EQ(json.at("wait_seconds").at("detour").to_number<double>(), 0.5);
  EXPECT_EQ(stats.Sum().TiersText(),
            "0 B from local in 0.0 s, 0 B from peer in 0.2 s, 7 B from s3 in 0.0 s, 0.5 s for "
            "nodes that did not answer");
  EXPECT_EQ(json.at("jobs").at(0).as_string(), "a job");
}

TEST(MountStats, AreScrapedUnderTheirPublishedNames) {
  MountStats stats(1);
  Metrics metrics;
  MountMetrics mounts(metrics);
  mounts.Add(stats, "imagenet");
  stats.Worker(0).CountOp(FuseOp::kLookup, ENOENT);
  stats.Worker(0).CountBytes(Tier::kLocal, 42);
  stats.Worker(0).CountFailedRead(Code::kCorrupt);
  stats.Worker(0).CountFailedRead(Code::kStale);
  stats.Worker(0).CountStall(std::chrono::milliseconds(2500));
  stats.Worker(0).CountRead(microseconds(150));
  const std::string once = metrics.Render();
  const std::string twice = metrics.Render();
  EXPECT_NE(once.find(R"(forebay_fuse_ops_total{errno="ENOENT",op="lookup"} 1)"), std::string::npos)
      << once;
  EXPECT_NE(once.find(R"(forebay_read_bytes_total{link="imagenet",tier="local"} 42)"),
            std::string::npos);
  EXPECT_NE(once.find(R"(forebay_eio_total{reason="Corrupt"} 1)"), std::string::npos);
  EXPECT_NE(once.find(R"(forebay_job_stall_seconds_total{link="imagenet"} 2.5)"),
            std::string::npos);
  EXPECT_EQ(once.find(R"(reason="Stale")"), std::string::npos);
  EXPECT_NE(twice.find("forebay_read_duration_seconds_count 1"), std::string::npos) << twice;
}

TEST(MountStats, LinksComeAndGoAndNoCounterGoesBack) {
  Metrics metrics;
  MountMetrics mounts(metrics);
  const auto has = [&metrics](const std::string& line) {
    return metrics.Render().find(line + "\n") != std::string::npos;
  };
  MountStats other(1);
  mounts.Add(other, "b");
  other.Worker(0).CountOp(FuseOp::kRead, 0);
  {
    MountStats stats(1);
    mounts.Add(stats, "a");
    stats.Worker(0).CountOp(FuseOp::kRead, 0);
    stats.Worker(0).CountBytes(Tier::kS3, 5);
    stats.Worker(0).CountRead(microseconds(150));
    EXPECT_TRUE(has(R"(forebay_fuse_ops_total{errno="OK",op="read"} 2)")) << metrics.Render();
    EXPECT_TRUE(has(R"(forebay_read_bytes_total{link="a",tier="s3"} 5)"));
    EXPECT_TRUE(has(R"(forebay_read_bytes_total{link="b",tier="s3"} 0)"));
    mounts.Remove(stats);
    mounts.Remove(stats);
  }
  EXPECT_TRUE(has(R"(forebay_fuse_ops_total{errno="OK",op="read"} 2)"));
  EXPECT_TRUE(has(R"(forebay_read_bytes_total{link="a",tier="s3"} 5)"));
  EXPECT_TRUE(has("forebay_read_duration_seconds_count 1"));
  MountStats again(1);
  mounts.Add(again, "a");
  again.Worker(0).CountBytes(Tier::kS3, 2);
  EXPECT_TRUE(has(R"(forebay_read_bytes_total{link="a",tier="s3"} 7)"));
  mounts.Remove(again);
  mounts.Remove(other);
}

TEST(MountStats, ASuccessorGoesOnCounting) {
  MountStats before(2);
  before.Worker(0).CountOp(FuseOp::kRead, 0);
  before.Worker(1).CountOp(FuseOp::kRead, EIO);
  before.Worker(1).CountBytes(Tier::kPeer, 5);
  before.Worker(1).CountRead(microseconds(150));
  MountStats after(1);
  after.Restore(before.Save());
  EXPECT_EQ(after.Save(), before.Save());
  after.Worker(0).CountBytes(Tier::kPeer, 2);
  EXPECT_EQ(after.Sum().read_bytes[static_cast<std::size_t>(Tier::kPeer)], 7U);
  EXPECT_EQ(after.Sum().OpTotal(FuseOp::kRead), 2U);
  EXPECT_EQ(after.Sum().Reads(), before.Sum().Reads());
  MountStats other(1);
  other.Restore("nonsense");
  EXPECT_EQ(other.Save(), MountStats(1).Save());
}

TEST(MountStats, EveryCounterIsSavedByANameOfItsOwn) {
  using Numbers = std::array<std::uint64_t, sizeof(StatsSnapshot) / sizeof(std::uint64_t)>;
  Numbers numbers{};
  std::iota(numbers.begin(), numbers.end(), 1);
  const auto sum = std::bit_cast<StatsSnapshot>(numbers);
  EXPECT_EQ(std::bit_cast<Numbers>(CountersOf(SaveCounters(sum))), numbers);
}

// Whoever goes on with a mount may know other counters, in another order.
TEST(MountStats, ASuccessorOfAnotherReleaseGoesOnWithWhatItKnows) {
  proto::KeptStats kept;
  const auto add = [&kept](const std::string& name, std::uint64_t value) {
    kept.add_counters()->set_name(name);
    kept.mutable_counters()->rbegin()->set_value(value);
  };
  add("of_a_later_release", 77);
  add("stall_nanoseconds", 5);
  add("fuse_ops/read/EIO", 3);
  add("read_bytes/tape", 9);
  add("read_bytes/s3", 4);
  const StatsSnapshot sum = CountersOf(kept.SerializeAsString());
  EXPECT_EQ(sum.OpTotal(FuseOp::kRead), 3U);
  EXPECT_EQ(sum.stall_nanoseconds, 5U);
  EXPECT_EQ(sum.read_bytes[static_cast<std::size_t>(Tier::kS3)], 4U);
  EXPECT_EQ(sum.prefetches, 0U);
}

TEST(MountStats, WhatBecameOfPrefetchesIsCountedApart) {
  MountStats stats(1);
  stats.Worker(0).CountPrefetch({});
  stats.Worker(0).CountPrefetch(Fail(Code::kOverloaded, "busy"));
  stats.Worker(0).CountPrefetch(Fail(Code::kOverloaded, "busy"));
  stats.Worker(0).CountPrefetch(Fail(Code::kUnavailable, "silent"));
  stats.Worker(0).CountPrefetch(Fail(Code::kDenied, "no"));
  stats.Worker(0).CountPrefetch({});
  stats.Worker(0).CountPrefetch({});
  const boost::json::value json = boost::json::parse(stats.ToJson());
  EXPECT_EQ(json.at("prefetches").to_number<int>(), 3);
  EXPECT_EQ(json.at("prefetches_refused").to_number<int>(), 2);
  EXPECT_EQ(json.at("prefetches_failed").to_number<int>(), 2);
  EXPECT_EQ(json.at("hinted").at("refused").to_number<int>(), 0);
}

}  // namespace
}  // namespace forebay
