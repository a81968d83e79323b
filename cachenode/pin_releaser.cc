#include "cachenode/pin_releaser.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <utility>

#include "common/model/limits.h"
#include "common/wire/bit_list.h"
#include "common/wire/messages.h"
#include "proto/node.pb.h"

namespace forebay {
namespace {

constexpr std::chrono::seconds kAskPatience{10};
/// 2,560 blocks a second at most, as of a disk that is made smaller: holes are punched at 10,000 to
/// 15,000 (DESIGN 6.6), and readers and fills want the disk, too.
constexpr std::size_t kReleasedAtOnce = 256;
constexpr std::chrono::milliseconds kBetweenReleases{100};

/// The owners that are to keep the block: fewer than the link says where there are not so many.
std::span<const std::uint16_t> KeepersOf(const RingTable& ring, const LinkSpec& link,
                                         const BlockId& block) {
  const std::span<const std::uint16_t> owners = ring.OwnersOf(PartitionOf(block));
  return owners.first(std::min<std::size_t>(owners.size(), link.replicas));
}

}  // namespace

PinReleaser::PinReleaser(PinReleaserOptions options, ClusterView& cluster, BlockStore& store)
    : options_(std::move(options)), cluster_(cluster), store_(store) {
  ClientPoolOptions pool;
  pool.credentials = options_.credentials;
  pool.silence = options_.silence;
  pool.connect_timeout = options_.silence;
  // A newer table reaches this node with its heartbeats.
  pool_ = std::make_unique<ClientPool>(
      io_.At(0), std::move(pool), [this] { return cluster_.ring_epoch(); }, [](std::uint64_t) {});
}

PinReleaser::~PinReleaser() { Stop(); }

void PinReleaser::Start() {
  io_.Start();
  Spawn(io_.At(0), Run());
}

void PinReleaser::Interrupt() {
  if (stopped_.exchange(true)) return;
  asio::post(io_.At(0), [this] { pool_->Close(); });
}

void PinReleaser::Stop() {
  Interrupt();
  io_.Stop();
  pool_.reset();
}

Task<void> PinReleaser::Run() {
  for (bool on = true; on && !stopped_;) {
    on = co_await SleepFor(options_.rules.look_every);
    if (on && !stopped_) co_await Look();
  }
}

bool PinReleaser::IsOver(const RingTable& ring) const {
  return stopped_ || cluster_.ring_epoch() != ring.epoch();
}

Task<void> PinReleaser::Look() {
  const Ring ring = cluster_.ring();
  // One that is to go, or is not known, decides nothing: its blocks are taken from it as it is.
  const NodeInfo* self = ring->Find(options_.self);
  if (self == nullptr || self->state != NodeState::kUp) co_return;
  for (const LinkPtr& link : cluster_.AllLinks()) {
    if (link->pins.empty()) continue;
    const bool looked = co_await LookAt(link, ring);
    if (!looked) co_return;
  }
}

Task<bool> PinReleaser::LookAt(LinkPtr link, Ring ring) {
  Evicted released;
  for (std::optional<SegmentPlace> at = SegmentPlace(); at && !IsOver(*ring);) {
    Result<PinnedPart> part = co_await store_.PinnedAt(link->id, *at, options_.rules.unused_for);
    // Other work waits for the disk: at the next look.
    if (!part) break;
    at = part->next;
    std::erase_if(part->blocks, [&](const BlockId& block) {
      const auto rank = ring->RankOf(PartitionOf(block), options_.self);
      return rank && *rank < link->replicas;
    });
    Blocks blocks = co_await OwnedElsewhere(link, ring, std::move(part->blocks));
    for (std::size_t from = 0; from < blocks.size() && !IsOver(*ring); from += kReleasedAtOnce) {
      const std::size_t count = std::min(kReleasedAtOnce, blocks.size() - from);
      const auto first = blocks.begin() + static_cast<std::ptrdiff_t>(from);
      Blocks some(first, first + static_cast<std::ptrdiff_t>(count));
      auto keep = [this, ring](const BlockId&) { return IsOver(*ring); };
      const Result<Evicted> gone =
          co_await store_.Release(std::move(some), options_.rules.unused_for, std::move(keep));
      if (!gone) break;
      released += *gone;
      (void)co_await SleepFor(kBetweenReleases);
    }
  }
  if (released.blocks > 0) {
    spdlog::info(
        "of link '{}' {} pinned blocks, {} bytes, are released: the nodes that own them have them",
        link->name, released.blocks, released.bytes);
  }
  co_return !IsOver(*ring);
}

Task<PinReleaser::Blocks> PinReleaser::OwnedElsewhere(LinkPtr link, Ring ring, Blocks blocks) {
  std::map<std::uint16_t, std::vector<std::uint32_t>> by_node;
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    for (const std::uint16_t node : KeepersOf(*ring, *link, blocks[i]))
      by_node[node].push_back(static_cast<std::uint32_t>(i));
  }
  std::vector<std::uint8_t> found(blocks.size(), 0);
  for (auto& [node, asked] : by_node) {
    if (IsOver(*ring)) break;
    co_await Ask(link, &ring->nodes()[node], &blocks, std::move(asked), &found);
  }
  Blocks everywhere;
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    const std::size_t keepers = KeepersOf(*ring, *link, blocks[i]).size();
    if (keepers > 0 && found[i] == keepers) everywhere.push_back(blocks[i]);
  }
  co_return everywhere;
}

Task<void> PinReleaser::Ask(LinkPtr link, const NodeInfo* node, const Blocks* blocks,
                            std::vector<std::uint32_t> asked, std::vector<std::uint8_t>* found) {
  for (std::size_t begin = 0; begin < asked.size() && !stopped_; begin += kMaxRepeatedFields) {
    const std::size_t count = std::min<std::size_t>(kMaxRepeatedFields, asked.size() - begin);
    proto::CheckBlocksRequest request;
    request.set_link(BytesOf(link->id));
    request.set_as_owner(true);
    for (std::size_t i = begin; i < begin + count; ++i)
      *request.add_blocks() = ToProto((*blocks)[asked[i]]);
    const Result<RpcReply> answer = co_await pool_->Call(node->address, Method::kCheckBlocks,
                                                         request, Deadline::After(kAskPatience));
    proto::CheckBlocksReply reply;
    // Who does not say that it has them is left with what is here; also a version that is not asked
    // by nodes yet.
    if (!answer || !ParseMessage(answer->message, reply)) co_return;
    for (std::size_t i = 0; i < count; ++i) {
      if (IsMarked(reply.present(), i)) ++(*found)[asked[begin + i]];
    }
  }
}

}  // namespace forebay
