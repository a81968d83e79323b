#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <set>
#include <stop_token>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include "tests/component/coordinator/cluster_fixture.h"

namespace forebay {

// TaskState.state
inline constexpr std::uint32_t kRunning = 0;
inline constexpr std::uint32_t kDone = 1;
inline constexpr std::uint32_t kFailed = 2;
inline constexpr std::uint32_t kCancelled = 3;

inline proto::FillResult Outcome(FillOutcome outcome, Code code = Code::kInternal,
                                 const std::string& message = "") {
  proto::FillResult result;
  result.set_outcome(static_cast<std::uint32_t>(outcome));
  result.set_code(static_cast<std::uint32_t>(code));
  result.set_message(message);
  return result;
}

/// A coordinator with three made-up nodes that report to it and are told to fill blocks.
class FillingCluster : public ClusterTest {
 protected:
  FillingCluster() {
    times.restart_grace = std::chrono::milliseconds(200);
    times.suspect_after = std::chrono::seconds(3);
  }
  ~FillingCluster() override {
    reporter_.request_stop();
    if (reporter_.joinable()) reporter_.join();
  }

  /// `prepare` is called for each before it is heard of.
  void StartNodes(const std::function<void(FakeNode&)>& prepare = nullptr) {
    for (const char* id : {"n1", "n2", "n3"}) {
      nodes_.push_back(std::make_unique<FakeNode>(id, secret));
      if (prepare) prepare(*nodes_.back());
      EXPECT_TRUE(nodes_.back()->Register(address()).has_value());
    }
    reporter_ = std::jthread([this](const std::stop_token& stop) { Report(stop); });
  }
  /// The nodes that live report to whatever coordinator there is.
  void Report(const std::stop_token& stop) {
    while (!stop.stop_requested()) {
      {
        const std::scoped_lock lock(mutex_);
        for (const auto& node : nodes_) {
          if (!coordinator || dead_.contains(node->id)) continue;
          const auto reply = node->Heartbeat(address());
          if (reply && reply->register_again()) std::ignore = node->Register(address());
        }
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
  }
  void KillNode(std::size_t i) {
    const std::scoped_lock lock(mutex_);
    dead_.insert(nodes_[i]->id);
    nodes_[i]->Kill();
  }
  /// It lives, and reports nothing, until it speaks again.
  void SetSilent(std::size_t i, bool silent) {
    const std::scoped_lock lock(mutex_);
    if (silent) dead_.insert(nodes_[i]->id);
    if (!silent) dead_.erase(nodes_[i]->id);
  }
  void RestartCoordinator(const std::function<void()>& while_down = nullptr) {
    const std::scoped_lock lock(mutex_);
    StopCoordinator();
    if (while_down) while_down();
    StartCoordinator();
  }
  Result<proto::ChangeTaskReply> Change(Method method, const std::string& id) {
    proto::ChangeTaskRequest request;
    request.set_id(id);
    return admin.Ask<proto::ChangeTaskReply>(address(), method, request);
  }
  proto::TaskState Get(const std::string& id) {
    proto::GetTaskRequest request;
    request.set_id(id);
    request.set_with_failures(true);
    const auto task = admin.Ask<proto::TaskState>(address(), Method::kGetTask, request);
    EXPECT_TRUE(task.has_value()) << task.error().message;
    return task.value_or(proto::TaskState());
  }
  void OnFill(const FakeNode::Fill& fill) {
    for (const auto& node : nodes_) node->OnFill(fill);
  }
  /// From now on fills wait for Open().
  void Close() {
    open_ = false;
    for (const auto& node : nodes_) {
      FakeNode* const self = node.get();
      self->OnFill([this, self](const proto::FillObject&, const BlockId& block) {
        ++waiting_;
        while (!open_) std::this_thread::sleep_for(std::chrono::milliseconds(1));
        return self->Keep(block);
      });
    }
  }
  void Open() { open_ = true; }
  void WaitForFills() {
    const Deadline deadline = Deadline::After(std::chrono::seconds(20));
    while (waiting_ == 0 && !deadline.Expired())
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    ASSERT_GT(waiting_, 0);
  }
  std::size_t Kept() const {
    std::set<BlockId> all;
    for (const auto& node : nodes_) all.merge(node->kept());
    return all.size();
  }
  std::uint64_t Fills() const {
    std::uint64_t sum = 0;
    for (const auto& node : nodes_) sum += node->fills();
    return sum;
  }

  std::vector<std::unique_ptr<FakeNode>> nodes_;

 private:
  std::mutex mutex_;  // over the coordinator's end and beginning
  std::set<std::string> dead_;
  std::atomic<bool> open_{true};
  std::atomic<int> waiting_{0};
  std::jthread reporter_;
};

}  // namespace forebay
