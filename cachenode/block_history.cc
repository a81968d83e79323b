#include "cachenode/block_history.h"

#include <utility>

#include "cachenode/store/block_hash.h"
#include "common/model/limits.h"

namespace forebay {
namespace {

constexpr std::size_t kStripes = 64;
constexpr std::size_t kPlacesPerStripe = BlockHistory::kPlaces / kStripes;

}  // namespace

BlockHistory::BlockHistory(std::function<std::int64_t()> now_unix_s)
    : now_unix_s_(std::move(now_unix_s)), stripes_(kStripes) {
  static_assert(sizeof(Place) == 56);
  Place nobodys;
  nobodys.since_unix_s = static_cast<std::uint32_t>(now_unix_s_());
  for (Stripe& stripe : stripes_) stripe.places.resize(kPlacesPerStripe, nobodys);
  jobs_.names.resize(kJobs);
}

BlockHistory::Spot BlockHistory::SpotOf(const BlockId& block) {
  const std::uint64_t mixed = MixedHash(block);
  return {.stripe = mixed % kStripes, .place = mixed / kStripes % kPlacesPerStripe};
}

/// Under the stripe's lock.
BlockHistory::Place& BlockHistory::Take(Place& place, const BlockId& block, std::uint32_t now) {
  if (place.block == block) return place;
  place = Place{.block = block, .since_unix_s = place.block.length == 0 ? place.since_unix_s : now};
  return place;
}

void BlockHistory::NoteRead(const BlockId& block, const std::string& job) {
  const auto now = static_cast<std::uint32_t>(now_unix_s_());
  const std::optional<std::uint32_t> number = NumberOf(job);
  if (!number) return;
  const Spot spot = SpotOf(block);
  Stripe& stripe = stripes_[spot.stripe];
  const std::unique_lock lock(stripe.mutex, std::try_to_lock);
  if (!lock.owns_lock()) return;
  Place& place = Take(stripe.places[spot.place], block, now);
  place.read_unix_s = now;
  place.job = *number;
}

void BlockHistory::NoteLoss(const BlockId& block, BlockLoss loss) {
  const auto now = static_cast<std::uint32_t>(now_unix_s_());
  const Spot spot = SpotOf(block);
  Stripe& stripe = stripes_[spot.stripe];
  const std::scoped_lock lock(stripe.mutex);
  Place& place = Take(stripe.places[spot.place], block, now);
  place.lost_unix_s = now;
  place.loss = loss;
}

BlockEvents BlockHistory::Find(const BlockId& block) const {
  const Spot spot = SpotOf(block);
  const Stripe& stripe = stripes_[spot.stripe];
  Place place;
  {
    const std::scoped_lock lock(stripe.mutex);
    place = stripe.places[spot.place];
  }
  // What another block displaced was before that one came.
  BlockEvents events{.since_unix_s = place.since_unix_s};
  if (place.block != block) return events;
  events.read_unix_s = place.read_unix_s;
  events.job = NameOf(place.job);
  events.lost_unix_s = place.lost_unix_s;
  events.loss = place.loss;
  return events;
}

std::optional<std::uint32_t> BlockHistory::NumberOf(const std::string& job) {
  if (job.empty() || job.size() > kMaxJobIdBytes) return 0;
  {
    const std::shared_lock lock(jobs_mutex_, std::try_to_lock);
    if (!lock.owns_lock()) return std::nullopt;
    const auto known = jobs_.numbers.find(job);
    if (known != jobs_.numbers.end()) return known->second;
  }
  const std::unique_lock lock(jobs_mutex_, std::try_to_lock);
  if (!lock.owns_lock()) return std::nullopt;
  const auto [entry, is_new] = jobs_.numbers.try_emplace(job, jobs_.newest + 1);
  if (!is_new) return entry->second;
  const std::uint32_t number = ++jobs_.newest;
  std::string& name = jobs_.names[number % kJobs];
  if (!name.empty()) jobs_.numbers.erase(name);
  name = job;
  return number;
}

std::string BlockHistory::NameOf(std::uint32_t job) const {
  const std::shared_lock lock(jobs_mutex_);
  const bool forgotten = job == 0 || jobs_.newest - job >= kJobs;
  return forgotten ? std::string() : jobs_.names[job % kJobs];
}

}  // namespace forebay
