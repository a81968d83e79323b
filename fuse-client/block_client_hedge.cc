#include <boost/asio/io_context.hpp>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "common/base/executors.h"
#include "common/wire/block_messages.h"
#include "common/wire/client_pool.h"
#include "fuse-client/block_client.h"
#include "fuse-client/block_client_parts.h"

namespace forebay {
namespace {

/// How often questions under way are looked at: half of the shortest wait before a hedge.
constexpr Duration kLookEvery = NodePace::kHedgeAtLeast / 2;

}  // namespace

BlockClient::Places BlockClient::HedgeOrderOf(const Directory& directory,
                                              std::span<const std::uint16_t> owners) const {
  Places order = OrderOf(directory, owners);
  const std::span all = std::span(order).first(owners.size());
  SortByDistance(directory, owners, all.subspan(CopiesAmong(owners.size())));
  return order;
}

// The owners that are neither silent nor slow, but for `node`.
BlockClient::Routes BlockClient::OthersFor(const Directory& directory, const BlockId& block,
                                           const std::string& node) {
  Routes others;
  const auto owners = directory.table->OwnersOf(PartitionOf(block));
  const Places order = HedgeOrderOf(directory, owners);
  for (const std::uint8_t place : std::span(order).first(owners.size())) {
    const std::uint16_t index = owners[place];
    const NodeInfo& other = directory.table->nodes()[index];
    if (other.id == node || parts_.health.IsSilent(other.id) || parts_.pace.IsSlow(other.id))
      continue;
    others.Add(Route{.node = &other,
                     .address = &directory.addresses[index],
                     .same_host = IsHere(other),
                     .cross_zone = IsInAnotherZone(other)});
  }
  return others;
}

void BlockClient::WatchRaces() {
  if (std::exchange(watches_races_, true)) return;
  Spawn(parts_.context, LookAtRaces());
}

// Not a timer for each question: nearly all are answered before the first look.
Task<void> BlockClient::LookAtRaces() {
  const InFlight counted(in_flight_);
  while (!stopped_ && !races_.empty()) {
    co_await SleepFor(kLookEvery);
    HedgeOverdue();
  }
  watches_races_ = false;
}

void BlockClient::HedgeOverdue() {
  const TimePoint now = Clock::now();
  for (auto& [number, race] : races_) {
    if (race->hedged || stopped_ || now - race->asked < NodePace::kHedgeAtLeast) continue;
    const std::optional<Duration> after = parts_.pace.HedgeAfter(*race->node);
    if (!after || now - race->asked < *after || !parts_.pace.TakeHedge(*race->node)) continue;
    race->hedged = true;
    BlockRequest request = race->question->request;
    request.peer_only = true;
    Spawn(parts_.context, Hedge(number, std::move(request), CurrentDirectory(), *race->node));
  }
}

// The node goes on working on its answer until another one is here. Who lacks the block says so.
Task<void> BlockClient::Hedge(std::uint64_t number, BlockRequest request,
                              std::shared_ptr<const Directory> directory, std::string instead_of) {
  const InFlight counted(in_flight_);
  const Routes others = OthersFor(*directory, request.block, instead_of);
  if (others.count == 0) co_return;
  parts_.stats.CountHedge();
  proto::ReadBlockRequest message = ToProto(request);
  for (std::size_t i = 0; i < others.count; ++i) {
    const Route& route = others.list[i];
    message.set_cross_zone(route.cross_zone);
    const TimePoint asked = Clock::now();
    Result<RpcReply> reply = co_await parts_.pool.Call(*route.address, Method::kReadBlock, message,
                                                       Deadline::After(kSilence));
    // Also of an answer that comes too late.
    if (reply && IsPaced(route)) options_.bandwidth->Charge(reply->payload.bytes.size());
    const auto found = races_.find(number);
    if (found == races_.end()) co_return;
    if (!reply) continue;
    Result<Cells> cells = CellsOf(request, route, std::move(*reply));
    if (!cells) continue;
    cells->node = route.node->id;
    cells->took = Clock::now() - asked;
    cells->detour = asked - found->second->question->began;
    parts_.stats.CountHedgeWon();
    found->second->won = std::move(*cells);
    found->second->call.GiveUp();
    co_return;
  }
}

}  // namespace forebay
