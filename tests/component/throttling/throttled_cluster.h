#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "cachenode/request_pace.h"
#include "common/base/token_bucket.h"
#include "common/s3/retry.h"
#include "coordinator/request_budgets.h"

namespace forebay {

/// Nodes, a coordinator and an origin that throttles, in a time of their own: the parts that decide
/// are the real ones, what lies between them is a model. Requests take `latency`, and are made anew
/// after the back-off of the S3 client.
class ThrottledCluster {
 public:
  struct Options {
    std::size_t nodes = 16;
    std::size_t connections = 64;  ///< Of each node.
    std::chrono::milliseconds latency{100};
    std::uint64_t seed = 1;
  };
  explicit ThrottledCluster(Options options);

  // The origin: either answers so many a second and refuses the rest, or refuses every second one.
  void LimitOrigin(double requests_per_s);  ///< 0 = takes all.
  void RefuseHalf(bool half) { refuses_half_ = half; }

  void SetCoordinatorAway(bool away) { coordinator_away_ = away; }
  /// How many objects a second this node may want at most; by default as many as it can get.
  void SetWanted(std::size_t node, double per_s) { nodes_[node]->wanted_per_s = per_s; }

  void Run(std::chrono::milliseconds time);

  std::uint64_t requests() const { return requests_; }
  std::uint64_t answered() const;
  std::uint64_t answered(std::size_t node) const { return nodes_[node]->answered; }
  std::optional<double> limit() const;

  /// Answered per second over the next `time`.
  double RateOver(std::chrono::milliseconds time);

 private:
  struct Request {
    enum class State : std::uint8_t { kIdle, kWaits, kAsked };
    State state = State::kIdle;
    TimePoint until;
    bool accepted = false;
    std::unique_ptr<RetrySchedule> schedule;
  };
  struct Node {
    std::string id;
    RequestPace pace;
    TokenBucket bucket;
    RetryTokens tokens;
    std::vector<Request> slots;
    double wanted_per_s = 1e9;
    double wanted = 0;
    std::uint64_t answered = 0;
    std::uint64_t requests = 0;
    std::uint64_t throttled = 0;
    std::uint64_t waiting = 0;
    TimePoint beat_at;
  };

  void Step(Node& node);
  bool Accepts();
  void Beat(Node& node);
  double Random() { return std::uniform_real_distribution<double>(0, 1)(random_); }

  const Options options_;
  LinkSpec link_;
  TimePoint now_ = TimePoint() + std::chrono::hours(1);
  std::mt19937_64 random_;
  std::vector<std::unique_ptr<Node>> nodes_;
  RequestBudgets budgets_;
  TimePoint tick_at_ = now_;
  bool coordinator_away_ = false;
  double origin_per_s_ = 0;
  double origin_tokens_ = 0;
  bool refuses_half_ = false;
  std::uint64_t requests_ = 0;
};

}  // namespace forebay
