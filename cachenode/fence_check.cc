#include "cachenode/fence_check.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <utility>

namespace forebay {

Status FenceCheck::operator()(const PeerIdentity& peer) {
  const Fence& said = peer.fence;
  // Administrators ask nodes themselves, and a coordinator of the release before says no epoch.
  if (peer.role != proto::ROLE_COORDINATOR || said.epoch == 0) return {};
  if (cluster_.Believe(said)) return {};
  refused_.fetch_add(1, std::memory_order_relaxed);
  Error why{Code::kDenied, fmt::format("this coordinator is an old one ({}; this node knows of {})",
                                       DescribeFence(said), DescribeFence(cluster_.fence()))};
  const std::scoped_lock lock(mutex_);
  // Once for each: it may ask for thousands of blocks.
  if (std::exchange(told_of_, said) != said) {
    spdlog::warn(
        "refused: requests of the coordinator at {}: {}: stop it, or restore a backup the way "
        "docs/DEPLOY.md says",
        peer.address, why.message);
  }
  return Fail(std::move(why));
}

}  // namespace forebay
