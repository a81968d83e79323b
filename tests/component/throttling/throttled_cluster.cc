#include "tests/component/throttling/throttled_cluster.h"

#include <fmt/format.h>

#include <algorithm>

#include "common/wire/messages.h"

namespace forebay {
namespace {

constexpr std::chrono::milliseconds kStep{5};
constexpr std::chrono::seconds kBeatEvery{1};

}  // namespace

ThrottledCluster::ThrottledCluster(Options options) : options_(options), random_(options.seed) {
  link_.id = Uuid::Random();
  link_.origin.bucket = "bucket";
  link_.origin.endpoint = "http://s3";
  for (std::size_t i = 0; i < options_.nodes; ++i) {
    auto node = std::make_unique<Node>();
    node->id = fmt::format("n{}", i);
    node->slots.resize(options_.connections);
    node->beat_at = now_ + std::chrono::duration_cast<Duration>(kBeatEvery * Random());
    nodes_.push_back(std::move(node));
  }
}

void ThrottledCluster::LimitOrigin(double requests_per_s) {
  origin_per_s_ = requests_per_s;
  origin_tokens_ = 0;
}

bool ThrottledCluster::Accepts() {
  ++requests_;
  if (refuses_half_) return requests_ % 2 == 0;
  if (origin_per_s_ <= 0) return true;
  if (origin_tokens_ < 1) return false;
  origin_tokens_ -= 1;
  return true;
}

void ThrottledCluster::Step(Node& node) {
  const double seconds = std::chrono::duration<double>(kStep).count();
  node.wanted = std::min(node.wanted + node.wanted_per_s * seconds, 1e6);
  node.bucket.SetRate(node.pace.Limit(now_), now_);
  node.waiting = 0;
  for (Request& slot : node.slots) {
    if (slot.state == Request::State::kAsked && now_ >= slot.until) {
      if (slot.accepted) {
        ++node.answered;
        node.pace.Answered(now_);
        slot.schedule->Succeeded();
        slot.state = Request::State::kIdle;
      } else {
        ++node.throttled;
        if (node.pace.Throttled(now_)) node.beat_at = now_;
        slot.state = Request::State::kWaits;
        slot.until = now_ + *slot.schedule->Next(RetryReason::kThrottled, now_);
      }
    }
    if (slot.state == Request::State::kIdle && node.wanted >= 1) {
      node.wanted -= 1;
      slot.schedule = std::make_unique<RetrySchedule>(RetryTiming(), node.tokens,
                                                      Deadline(now_ + std::chrono::hours(1)),
                                                      [this] { return Random(); });
      slot.state = Request::State::kWaits;
      slot.until = now_;
    }
    if (slot.state != Request::State::kWaits || now_ < slot.until) continue;
    if (node.bucket.Wait(now_) > Duration::zero()) {
      ++node.waiting;
      continue;
    }
    node.bucket.Take(1, now_);
    ++node.requests;
    slot.accepted = Accepts();
    slot.state = Request::State::kAsked;
    slot.until = now_ + options_.latency;
  }
}

void ThrottledCluster::Beat(Node& node) {
  node.beat_at = now_ + kBeatEvery;
  if (coordinator_away_) return;
  proto::HeartbeatRequest heartbeat;
  heartbeat.set_node_id(node.id);
  heartbeat.set_incarnation(1);
  proto::RequestUse& use = *heartbeat.add_request_use();
  use.set_link(BytesOf(link_.id));
  use.set_requests(node.requests);
  use.set_throttled(node.throttled);
  use.set_waiting(node.waiting);
  budgets_.Report(heartbeat, now_);
  const std::vector<proto::RequestLease> leases = budgets_.LeasesOf(node.id);
  std::optional<double> lease;
  if (!leases.empty()) lease = leases.front().requests_per_s();
  node.pace.Lease(lease, now_);
}

void ThrottledCluster::Run(std::chrono::milliseconds time) {
  for (const TimePoint end = now_ + time; now_ < end; now_ += kStep) {
    const double seconds = std::chrono::duration<double>(kStep).count();
    origin_tokens_ = std::min(origin_tokens_ + origin_per_s_ * seconds, origin_per_s_ * 0.1 + 1);
    std::ranges::shuffle(nodes_, random_);  // nobody is always the first
    for (const auto& node : nodes_) Step(*node);
    for (const auto& node : nodes_) {
      if (now_ >= node->beat_at) Beat(*node);
    }
    if (now_ < tick_at_ || coordinator_away_) continue;
    tick_at_ = now_ + std::chrono::seconds(1);
    budgets_.Tick({link_}, now_, 1);
  }
  std::ranges::sort(nodes_, {}, [](const auto& node) { return std::stoi(node->id.substr(1)); });
}

std::uint64_t ThrottledCluster::answered() const {
  std::uint64_t sum = 0;
  for (const auto& node : nodes_) sum += node->answered;
  return sum;
}

std::optional<double> ThrottledCluster::limit() const {
  const std::vector<proto::ThrottledPlace> places = budgets_.Throttled();
  if (places.empty()) return std::nullopt;
  return places.front().requests_per_s();
}

double ThrottledCluster::RateOver(std::chrono::milliseconds time) {
  const std::uint64_t before = answered();
  Run(time);
  return static_cast<double>(answered() - before) / std::chrono::duration<double>(time).count();
}

}  // namespace forebay
