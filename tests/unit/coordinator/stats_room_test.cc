#include <gtest/gtest.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <chrono>
#include <utility>
#include <vector>

#include "common/base/executors.h"
#include "coordinator/stats.h"
#include "tests/unit/coordinator/testing.h"

namespace forebay {
namespace {

Task<void> Wait(ClusterStats& stats, std::vector<proto::NodeEvicted> evicted, bool& waited) {
  co_await stats.WaitForRoom(std::move(evicted), Deadline::After(std::chrono::seconds(20)));
  waited = true;
}

// "0 B is free", said a preload right after everything was evicted.
TEST(ClusterStats, AfterAnEvictionTheFiguresAreOfAfterIt) {
  MemoryStateStore store;
  Offload offload{1, 16};
  ClusterStats stats(store, *store.Claim(), offload);
  proto::HeartbeatRequest heartbeat;
  heartbeat.set_node_id("n1");
  heartbeat.set_room_version(3);
  stats.Report(heartbeat);

  std::vector<proto::NodeEvicted> evicted(2);
  evicted[0].set_node_id("n1");
  evicted[0].set_room_version(4);
  evicted[1].set_node_id("n2");  // of the release before, or silent: nothing to wait for
  bool waited = false;
  asio::io_context context;
  Spawn(context.get_executor(), Wait(stats, evicted, waited));
  context.poll();
  EXPECT_FALSE(waited) << "the node has freed it and not said so yet";
  stats.Report(heartbeat);
  context.restart();
  context.poll();
  EXPECT_FALSE(waited) << "a heartbeat from before";
  heartbeat.set_room_version(5);
  stats.Report(heartbeat);
  context.restart();
  context.run_for(std::chrono::seconds(10));
  EXPECT_TRUE(waited);
}

}  // namespace
}  // namespace forebay
