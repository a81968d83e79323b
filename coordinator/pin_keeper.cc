#include "coordinator/pin_keeper.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <boost/asio/this_coro.hpp>
#include <chrono>
#include <memory>
#include <optional>
#include <random>

#include "common/model/limits.h"
#include "common/wire/messages.h"
#include "coordinator/block_walk.h"
#include "coordinator/frozen_links.h"
#include "coordinator/stats.h"
#include "proto/node.pb.h"

namespace forebay {
namespace {

constexpr std::chrono::minutes kTellWithin{10};
/// Heartbeats come once a second; after this long a node that was told is asked to show it.
constexpr std::chrono::seconds kShownWithin{4};

std::uint64_t NewSync() {
  std::random_device device;
  return ((std::uint64_t{device()} << 32) | device()) | 1;
}

/// The rows of the pins of files and folders that this generation has.
std::vector<SnapshotRow> RootsOf(const LinkSpec& link, const Snapshot& snapshot) {
  std::vector<SnapshotRow> roots;
  for (std::string path : link.pins) {
    if (path.empty()) continue;
    if (path.ends_with('/')) path.pop_back();
    if (const std::optional<SnapshotRow> row = snapshot.Resolve(path)) roots.push_back(*row);
  }
  return roots;
}

}  // namespace

/// Ends on every way out, also when its coroutine is dropped.
class PinKeeper::Turn {
 public:
  Turn(PinKeeper& keeper, const Uuid& link) : keeper_(keeper), link_(link) {
    keeper_.telling_.insert(link_);
  }
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;
  ~Turn() {
    keeper_.telling_.erase(link_);
    keeper_.told_all_.NotifyAll();
  }

 private:
  PinKeeper& keeper_;
  const Uuid link_;
};

Task<std::vector<std::string>> PinKeeper::Tell(Uuid link, std::vector<NodeInfo> nodes,
                                               Deadline deadline) {
  const asio::any_io_executor executor = co_await asio::this_coro::executor;
  std::vector<std::string> failed;
  for (bool in_time = true; telling_.contains(link);) {
    Notifier::Ticket ticket = told_all_.Enlist(executor);
    if (in_time && telling_.contains(link)) in_time = co_await ticket.Wait(deadline);
    if (in_time) continue;
    for (const NodeInfo& node : nodes) failed.push_back(node.id);
    co_return failed;
  }
  const Turn turn(*this, link);
  const std::optional<Link> known = parts_.links.FindById(link);
  std::shared_ptr<BlockWalk> walk;
  std::shared_ptr<const PublishedGeneration> generation;
  if (known && known->generation)
    generation = parts_.index.Find(link, known->generation->generation());
  if (generation) {
    std::vector<SnapshotRow> roots = RootsOf(known->spec, *generation->snapshot());
    walk = std::make_shared<BlockWalk>(generation->snapshot(), std::move(roots));
  }
  // Without its blocks the nodes would be told of none: they keep the pins that they have.
  if (known && IsListingLost(*known) && known->spec.pins_version != 0) {
    for (const NodeInfo& node : nodes) failed.push_back(node.id);
    co_return failed;
  }
  const std::uint64_t version = known ? known->spec.pins_version : 0;
  const std::uint64_t sync = NewSync();
  for (bool first = true, last = false; !last && !nodes.empty(); first = false) {
    std::vector<WalkedBlock> blocks;
    if (walk) {
      auto step = [walk] { return walk->Next(kMaxRepeatedFields); };
      Result<std::vector<WalkedBlock>> next = co_await parts_.offload.Run(std::move(step));
      // A damaged listing is made anew; until then the nodes keep the pins that they have.
      if (!next) break;
      blocks = std::move(*next);
    }
    last = blocks.empty();
    auto request = std::make_shared<proto::PinBlocksRequest>();
    request->set_link(BytesOf(link));
    request->set_sync(sync);
    request->set_version(version);
    request->set_begin(first);
    request->set_end(last);
    request->set_links_version(parts_.links.version());
    for (const WalkedBlock& block : blocks) *request->add_blocks() = ToProto(block.id);
    std::vector<Result<RpcReply>> answers =
        co_await AskAll(parts_.call, nodes, Method::kPinBlocks, std::move(request), deadline);
    std::vector<NodeInfo> good;
    for (std::size_t i = 0; i < nodes.size(); ++i) {
      if (answers[i]) {
        good.push_back(nodes[i]);
      } else {
        failed.push_back(nodes[i].id);
      }
    }
    nodes = std::move(good);
  }
  for (const NodeInfo& node : nodes) told_[{node.id, link}] = {version, parts_.now()};
  co_return failed;
}

bool PinKeeper::IsOver(const proto::PinRecord& pin) const {
  if (pin.until_unix_s() != 0 && pin.until_unix_s() <= parts_.unix_s()) return true;
  // After a restart nobody knows yet who reads: as long as that takes to show, a job goes on.
  if (pin.job().empty() || parts_.now() - started_ < kJobEnds) return false;
  return parts_.job_idle(pin.job()).value_or(Duration::max()) >= kJobEnds;
}

Task<void> PinKeeper::EndPins() {
  for (const proto::PinRecord& pin : parts_.pins.All()) {
    if (!IsOver(pin)) continue;
    const Uuid link = UuidFromBytes(pin.link());
    auto remove = [this, link, path = pin.path()] { return parts_.pins.Remove(link, path); };
    Result<bool> removed = co_await parts_.offload.Run(std::move(remove));
    if (removed) {
      spdlog::info("the pin of '{}' has ended: its {} over", pin.path(),
                   pin.job().empty() ? "time is" : "job is");
    } else {
      spdlog::error("a pin whose time is over stays: {}", removed.error().message);
    }
  }
}

/// Which nodes have other pins than they should, by link.
std::vector<PinKeeper::Work> PinKeeper::Behind() {
  std::map<Uuid, std::uint64_t> wanted;
  for (const Link& link : parts_.links.All()) {
    // One that is being listed keeps its nodes' pins until its blocks are known.
    const bool known = link.generation && !IsListingLost(link);
    if (known || link.spec.pins_version == 0) wanted[link.spec.id] = link.spec.pins_version;
  }
  std::map<Uuid, std::vector<NodeInfo>> behind;
  const TimePoint now = parts_.now();
  for (const NodeInfo& node : parts_.up_nodes()) {
    std::map<Uuid, std::uint64_t> has = parts_.node_pins(node.id);
    for (const auto& [link, version] : wanted) has.try_emplace(link, 0);
    for (const auto& [link, version] : has) {
      const auto want = wanted.find(link);
      const bool listing = want == wanted.end() && parts_.links.FindById(link).has_value();
      const std::uint64_t right = want == wanted.end() ? 0 : want->second;
      const auto told = told_.find({node.id, link});
      const bool just_told = told != told_.end() && told->second.first == right &&
                             now - told->second.second < kShownWithin;
      if (version != right && !listing && !just_told) behind[link].push_back(node);
    }
  }
  std::vector<Work> work;
  work.reserve(behind.size());
  for (auto& [link, nodes] : behind) work.push_back({link, std::move(nodes)});
  return work;
}

/// How much the link's pins keep in the generation of now.
Task<void> PinKeeper::Measure(Uuid link) {
  const std::optional<Link> known = parts_.links.FindById(link);
  if (!known || !known->generation) co_return;
  const auto generation = parts_.index.Find(link, known->generation->generation());
  if (!generation) co_return;
  for (const proto::PinRecord& pin : parts_.pins.All()) {
    if (UuidFromBytes(pin.link()) != link) continue;
    auto measure = [snapshot = generation->snapshot(), path = pin.path()] {
      return MeasureTarget(snapshot, path);
    };
    Result<CacheTally> tally = co_await parts_.offload.Run(std::move(measure));
    if (tally) parts_.pins.Measure(link, pin.path(), tally->objects, tally->bytes);
  }
}

Task<void> PinKeeper::Tick() {
  co_await EndPins();
  const std::vector<Work> behind = Behind();
  for (const Work& work : behind) {
    const std::vector<std::string> failed =
        co_await Tell(work.link, work.nodes, Deadline::After(kTellWithin));
    co_await Measure(work.link);
    if (failed.size() < work.nodes.size()) {
      spdlog::info("{} nodes have taken over the pins of link {}",
                   work.nodes.size() - failed.size(), work.link.ToString());
    }
  }
}

}  // namespace forebay
