#include "coordinator/copy_keeper.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "common/base/wall_clock.h"
#include "coordinator/preload_plan.h"

namespace forebay {
namespace {

constexpr std::chrono::minutes kEvery{10};
constexpr std::chrono::seconds kFirstPause{2};

}  // namespace

std::vector<Link> CopyKeeper::Replicated() const {
  std::vector<Link> links = parts_.links.All();
  std::erase_if(links, [](const Link& link) { return link.spec.replicas < 2 || !link.generation; });
  return links;
}

CopyKeeper::Facts CopyKeeper::Now() const {
  Facts facts;
  facts.epoch = parts_.membership.epoch();
  for (const NodeInfo& node : parts_.membership.UpNodes()) facts.up.push_back(node.id);
  for (const Link& link : Replicated())
    facts.links.emplace_back(link.spec.id, link.spec.replicas, link.generation->generation());
  std::ranges::sort(facts.up);
  std::ranges::sort(facts.links);
  return facts;
}

Task<void> CopyKeeper::Tick() {
  Facts now = Now();
  const bool due = !looked_ || now != seen_ || Clock::now() >= next_;
  if (!due || stopped_) co_return;
  if (now != seen_) pause_ = kFirstPause;
  seen_ = std::move(now);
  looked_ = true;
  bool complete = true;
  const std::vector<Link> links = Replicated();
  for (const Link& link : links) {
    const bool good = co_await LookAt(link);
    complete = complete && good;
    if (stopped_) co_return;
  }
  {
    const std::scoped_lock lock(mutex_);
    std::erase_if(states_, [&](const auto& state) {
      return std::ranges::none_of(links,
                                  [&](const Link& one) { return one.spec.id == state.first; });
    });
  }
  next_ = Clock::now() + (complete ? Duration(kEvery) : pause_);
  pause_ = std::min<Duration>(2 * pause_, kEvery);
}

Result<std::shared_ptr<const PreloadPlan>> CopyKeeper::PlanOf(const Link& link) const {
  const auto generation = parts_.index.Find(link.spec.id, link.generation->generation());
  if (!generation) return Fail(Code::kNotFound, "its listing is not here");
  const std::optional<SnapshotRow> root = generation->snapshot()->Resolve("");
  if (!root) return Fail(Code::kCorrupt, "its listing is damaged");
  Result<PreloadPlan> plan = MakePreloadPlan(generation->snapshot(), *root, NameFiles());
  if (!plan) return Fail(plan.error());
  return std::make_shared<const PreloadPlan>(std::move(*plan));
}

Task<bool> CopyKeeper::LookAt(Link link) {
  using PlanPtr = std::shared_ptr<const PreloadPlan>;
  auto make = [this, link]() -> Result<PlanPtr> { return PlanOf(link); };
  Result<PlanPtr> plan = co_await parts_.offload.Run(std::move(make));
  Result<CopyCounts> counts = plan ? CopyCounts() : Result<CopyCounts>(Fail(plan.error()));
  if (plan) {
    std::function<bool()> stopped = [this] { return stopped_.load(); };
    counts = co_await Look(link.spec, std::move(*plan), std::move(stopped));
  }
  if (stopped_) co_return false;
  if (!counts) {
    spdlog::warn("the copies of link '{}' cannot be looked at: {}", link.spec.name,
                 counts.error().message);
    co_return false;
  }
  State state;
  state.looked_unix_s = UnixSeconds();
  state.missing = counts->left();
  state.why = counts->why;
  Note(link.spec.id, std::move(state));
  if (counts->missing > 0 || counts->failed > 0) {
    spdlog::info(
        "link '{}': of {} cached blocks {} copies were missing, {} are made, {} found no "
        "room{}{}",
        link.spec.name, counts->blocks, counts->missing, counts->copied, counts->no_room,
        counts->failed > 0 ? ", others failed: " : "", counts->why);
  }
  co_return counts->failed == 0;
}

Task<Result<CopyCounts>> CopyKeeper::Look(LinkSpec link, std::shared_ptr<const PreloadPlan> plan,
                                          std::function<bool()> stopped) {
  CopyRun::Parts parts{.call = parts_.call,
                       .offload = parts_.offload,
                       .roster = [this] { return parts_.membership.CurrentRoster(); },
                       .stopped = std::move(stopped)};
  const auto run = std::make_shared<CopyRun>(std::move(parts), std::move(link), std::move(plan));
  Result<CopyCounts> counts = co_await run->Run();
  co_return counts;
}

void CopyKeeper::Note(const Uuid& link, State state) {
  const std::scoped_lock lock(mutex_);
  states_[link] = std::move(state);
}

std::optional<CopyKeeper::State> CopyKeeper::StateOf(const Uuid& link) const {
  const std::scoped_lock lock(mutex_);
  const auto found = states_.find(link);
  if (found == states_.end()) return std::nullopt;
  return found->second;
}

}  // namespace forebay
