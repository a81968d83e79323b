#include "coordinator/request_budgets.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "common/wire/messages.h"

namespace forebay {
namespace {

/// A node that has said nothing for so long has no part of any budget.
constexpr std::chrono::seconds kSilent{10};
/// A node's want follows its use within a few seconds.
constexpr double kNewWeight = 0.5;
/// Beyond its use, so that a node whose use grows is not held back until the next heartbeat.
constexpr double kRoom = 1.25;
/// Each asker's least part of an equal share: its first request does not wait for a heartbeat.
constexpr double kLeastPart = 0.1;

}  // namespace

std::vector<double> FairShares(double limit, const std::vector<double>& wanted) {
  std::vector<double> shares(wanted.size(), 0);
  std::vector<std::size_t> order(wanted.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::sort(order, {}, [&](std::size_t i) { return wanted[i]; });
  double left = limit;
  std::size_t open = order.size();
  for (const std::size_t i : order) {
    shares[i] = std::min(wanted[i], left / static_cast<double>(open));
    left -= shares[i];
    --open;
  }
  for (double& share : shares) share += left / static_cast<double>(shares.size());
  return shares;
}

void RequestBudgets::Report(const proto::HeartbeatRequest& heartbeat, TimePoint now) {
  const std::scoped_lock lock(mutex_);
  Node& node = nodes_[heartbeat.node_id()];
  const bool is_known =
      node.incarnation == heartbeat.incarnation() && now - node.reported_at <= kSilent;
  node = Node{heartbeat.incarnation(), now};
  for (const proto::RequestUse& message : heartbeat.request_use()) {
    Use& use = uses_[Asker{heartbeat.node_id(), UuidFromBytes(message.link())}];
    const bool is_new = use.reported_at == TimePoint();
    if (is_new || use.incarnation != heartbeat.incarnation()) {
      use = Use{};
      use.incarnation = heartbeat.incarnation();
      // What it asked before this coordinator heard of it was not asked in the last second.
      if (!is_known) {
        use.requests_seen = message.requests();
        use.throttled_seen = message.throttled();
      }
    }
    use.requests = message.requests();
    use.throttled = message.throttled();
    use.waiting = static_cast<double>(message.waiting());
    use.reported_at = now;
  }
}

void RequestBudgets::ReportOwn(const std::vector<OwnUse>& uses, TimePoint now) {
  const std::scoped_lock lock(mutex_);
  for (const OwnUse& own : uses) {
    Use& use = own_[own.place];
    use.requests = own.requests;
    use.throttled = own.throttled;
    use.waiting = static_cast<double>(own.waiting);
    use.reported_at = now;
  }
}

void RequestBudgets::Tick(const std::vector<LinkSpec>& links, TimePoint now,
                          std::int64_t now_unix_s) {
  const std::scoped_lock lock(mutex_);
  places_.clear();
  for (const LinkSpec& link : links) places_[link.id] = S3Place::Of(link.origin);
  std::erase_if(uses_, [&](const auto& entry) {
    return now - entry.second.reported_at > kSilent || !places_.contains(entry.first.link);
  });
  std::erase_if(nodes_, [&](const auto& node) { return now - node.second.reported_at > kSilent; });
  std::map<S3Place, std::vector<Use*>> by_place;
  for (auto& [asker, use] : uses_) by_place[places_.at(asker.link)].push_back(&use);
  for (auto& [place, use] : own_) by_place[place].push_back(&use);
  std::erase_if(budgets_, [&](const auto& entry) { return !by_place.contains(entry.first); });
  for (const auto& [place, uses] : by_place) TickPlace(place, uses, now, now_unix_s);
  ticked_at_ = now;
}

void RequestBudgets::TickPlace(const S3Place& place, const std::vector<Use*>& uses, TimePoint now,
                               std::int64_t now_unix_s) {
  const Duration since =
      ticked_at_ == TimePoint() ? Duration(std::chrono::seconds(1)) : now - ticked_at_;
  const double seconds = std::max(std::chrono::duration<double>(since).count(), 0.001);
  RequestRate::Seen seen;
  std::vector<double> wanted;
  for (Use* use : uses) {
    const auto requests =
        static_cast<double>(use->requests - std::exchange(use->requests_seen, use->requests));
    const auto throttled =
        static_cast<double>(use->throttled - std::exchange(use->throttled_seen, use->throttled));
    seen.answered += std::max(0.0, requests - throttled);
    seen.throttled += throttled;
    seen.some_wait |= use->waiting > 0;
    use->wanted += kNewWeight * (requests / seconds - use->wanted);
    wanted.push_back(kRoom * use->wanted + use->waiting);
  }
  Budget& budget = budgets_[place];
  const bool was_limited = budget.rate.limit().has_value();
  budget.rate.Observe(seen, now);
  const std::optional<double> limit = budget.rate.limit();
  if (!limit) {
    budget.since_unix_s = 0;
    for (Use* use : uses) use->lease = 0;
    return;
  }
  if (!was_limited) budget.since_unix_s = now_unix_s;
  const double least = kLeastPart * *limit / static_cast<double>(uses.size());
  for (double& want : wanted) want = std::max(want, least);
  const std::vector<double> shares = FairShares(*limit, wanted);
  for (std::size_t i = 0; i < uses.size(); ++i) uses[i]->lease = shares[i];
}

std::vector<proto::RequestLease> RequestBudgets::LeasesOf(const std::string& node) const {
  std::vector<proto::RequestLease> leases;
  const std::scoped_lock lock(mutex_);
  for (auto it = uses_.lower_bound(Asker{node, Uuid{}});
       it != uses_.end() && it->first.node == node; ++it) {
    if (it->second.lease <= 0) continue;
    proto::RequestLease& lease = leases.emplace_back();
    lease.set_link(BytesOf(it->first.link));
    lease.set_requests_per_s(it->second.lease);
  }
  return leases;
}

std::map<S3Place, double> RequestBudgets::OwnLeases() const {
  std::map<S3Place, double> leases;
  const std::scoped_lock lock(mutex_);
  for (const auto& [place, use] : own_) {
    if (use.lease > 0) leases.emplace(place, use.lease);
  }
  return leases;
}

double RequestBudgets::LimitOf(const LinkOrigin& origin) const {
  const std::scoped_lock lock(mutex_);
  const auto budget = budgets_.find(S3Place::Of(origin));
  return budget == budgets_.end() ? 0 : budget->second.rate.limit().value_or(0);
}

std::vector<proto::ThrottledPlace> RequestBudgets::Throttled() const {
  std::vector<proto::ThrottledPlace> places;
  const std::scoped_lock lock(mutex_);
  for (const auto& [place, budget] : budgets_) {
    if (!budget.rate.limit()) continue;
    proto::ThrottledPlace& message = places.emplace_back();
    message.set_endpoint(place.endpoint);
    message.set_bucket(place.bucket);
    message.set_prefix(place.prefix);
    message.set_requests_per_s(*budget.rate.limit());
    message.set_since_unix_s(budget.since_unix_s);
  }
  return places;
}

}  // namespace forebay
