#include "tests/sim/sim_mount.h"

#include <algorithm>
#include <atomic>
#include <boost/asio/io_context.hpp>
#include <cstring>

#include "common/base/executors.h"
#include "common/wire/messages.h"
#include "fuse-client/block_spans.h"
#include "tests/sim/kept_listing.h"

namespace forebay::sim {
namespace {

/// As kS3Patience of a mount, less what nobody here would wait for.
constexpr std::chrono::seconds kReadPatience{120};
constexpr std::chrono::seconds kMountPatience{60};
/// As the CLI's (docs/CLI.md): an answer within 5 s, whatever it is.
constexpr std::chrono::seconds kAdminPatience{5};

/// The blocks of all files that `snapshot` shows, as a mount asks for them.
std::vector<BlockRequest> BlocksOf(const Snapshot& snapshot, const Uuid& link) {
  std::vector<BlockRequest> blocks;
  for (std::uint32_t i = 0; i < snapshot.rows(); ++i) {
    const std::optional<SnapshotRow> row = snapshot.RowAt(i);
    if (!row || row->size == 0) continue;
    BlockRequest request;
    request.link = link;
    request.object = ObjectRef{snapshot.KeyOf(*row), snapshot.EtagOf(*row), row->size};
    request.job = "job";
    for (const BlockSpan& span :
         CutSpans(snapshot.VersionOf(*row), row->size, snapshot.block_bytes(), 0, row->size)) {
      request.block = span.block;
      request.range = span.range;
      blocks.push_back(request);
    }
  }
  return blocks;
}

}  // namespace

SimMount::SimMount(World& world, Network& network, const Dataset& data, Options options,
                   ReadTally& tally)
    : Program(world, network, "mount", options.machine),
      options_(std::move(options)),
      data_(data),
      tally_(tally) {
  world_.SetBuilder(nullptr);
  asio::io_context& context = io_.At(0);
  ClientPoolOptions pool;
  pool.silence = options_.silence;
  pool_ = std::make_unique<ClientPool>(
      context, std::move(pool), [this] { return ring_.epoch(); },
      [this](std::uint64_t epoch) { refresher_->Notice(epoch); });
  refresher_ = std::make_unique<RingRefresher>(context, *pool_, ring_,
                                               std::vector<std::string>{kCoordinatorAddress});
  BlockClientOptions client;
  if (options_.knows_zone) client.zone = options_.zone;
  client.replicas = std::make_shared<const std::atomic<std::uint32_t>>(data_.link().replicas);
  client_ = std::make_unique<BlockClient>(
      BlockClient::Parts{context, *pool_, ring_, *refresher_, health_, pace_, stats_},
      std::move(client));
  if (options_.state_dir.empty()) return;
  (void)ring_.KeepIn(options_.state_dir + "/" + ClusterId().ToString() + "/ring.bin");
  offload_ = std::make_unique<Offload>(1, 1);
  NamespaceOptions names;
  names.state_dir = options_.state_dir;
  names.coordinators = {kCoordinatorAddress};
  source_ = std::make_unique<NamespaceSource>(
      SnapshotFetcher::Parts{.pool = *pool_, .offload = *offload_, .counts = snapshots_},
      std::move(names));
  Spawn(io_.At(0), Mount());
  process_.RunReady();
}

SimMount::~SimMount() { Die(); }

Task<void> SimMount::Mount() {
  Result<MountedNamespace> found =
      co_await source_->Obtain(data_.link().name, Deadline::After(kMountPatience));
  if (!found) {
    mount_error_ = found.error().message;
    co_return;
  }
  from_disk_ = found->from_disk;
  shown_ = found->link;
  listed_ = BlocksOf(*found->snapshot, UuidFromBytes(found->link.spec().id()));
}

void SimMount::Look(bool* same) {
  Spawn(io_.At(0), RunLook(same));
  process_.RunReady();
}

Task<void> SimMount::RunLook(bool* same) {
  const Result<KnownLinks> known = co_await source_->Links(data_.link().name);
  if (!known || known->links.size() != 1) co_return;
  const proto::LinkState& now = known->links.front();
  *same = now.has_generation() && !IsLater(now, shown_) && !IsLater(shown_, now);
}

BlockRequest SimMount::RequestFor(const Wanted& wanted) const {
  const bool lists = !options_.state_dir.empty();
  BlockRequest request = lists ? listed_.at(wanted.number) : data_.RequestFor(wanted.number);
  if (wanted.range.size() > 0) request.range = wanted.range;
  return request;
}

void SimMount::Read(Reading reading) {
  ++readers_;
  Spawn(io_.At(0), RunReader(std::move(reading)));
  process_.RunReady();
}

Task<void> SimMount::RunReader(Reading reading) {
  while (!options_.state_dir.empty() && listed_.empty())
    co_await SleepFor(std::chrono::milliseconds(100));
  for (std::size_t i = 0; i < reading.count; ++i) {
    co_await SleepFor(world_.Between(Duration::zero(), reading.pause));
    const BlockRequest request = RequestFor(reading.next());
    const bool impatient = reading.patience > Duration::zero();
    const Duration patience =
        impatient ? world_.Between(Duration(1), reading.patience) : Duration(kReadPatience);
    const TimePoint began = Clock::now();
    const Result<Cells> cells = co_await client_->Read(request, Deadline::After(patience));
    Note(request, cells, began, impatient);
  }
  --readers_;
}

// True: it came from another zone, and need not.
bool SimMount::IsFar(const BlockRequest& request, const std::string& node) const {
  const std::shared_ptr<const RingTable> table = ring_.table();
  const NodeInfo* from = table->Find(node);
  if (from == nullptr || from->zone == options_.zone) return false;
  const std::span<const std::uint16_t> owners = table->OwnersOf(PartitionOf(request.block));
  const auto copies = owners.first(std::min<std::size_t>(owners.size(), data_.link().replicas));
  return std::ranges::any_of(
      copies, [&](std::uint16_t owner) { return table->nodes()[owner].zone == options_.zone; });
}

void SimMount::Note(const BlockRequest& request, const Result<Cells>& cells, TimePoint began,
                    bool impatient) {
  ++tally_.reads;
  if (!cells) {
    if (impatient && cells.error().code == Code::kTimeout) {
      ++tally_.given_up;
    } else if (options_.excuses && options_.excuses(began)) {
      ++tally_.excused;
    } else {
      ++tally_.failed;
      if (tally_.first_failure.empty()) tally_.first_failure = cells.error().message;
    }
    return;
  }
  tally_.longest = std::max<Duration>(tally_.longest, Clock::now() - began);
  const ByteView right = data_.BytesOf(
      request.object.key, request.block.offset + request.range.begin, request.range.size());
  const ByteView read = cells->Part(request.range);
  if (read.size() != right.size() || std::memcmp(read.data(), right.data(), right.size()) != 0)
    ++tally_.wrong;
  if (judges_zones_ && !options_.zone.empty() && IsFar(request, cells->node)) ++tally_.far;
}

SimAdmin::SimAdmin(World& world, Network& network) : Program(world, network, "admin", "10.0.4.1") {
  world_.SetBuilder(nullptr);
  ClientPoolOptions options;
  pool_ = std::make_unique<ClientPool>(
      io_.At(0), std::move(options), [] { return std::uint64_t{0}; }, [](std::uint64_t) {});
  coordinators_ =
      std::make_unique<Coordinators>(*pool_, std::vector<std::string>{kCoordinatorAddress});
}

SimAdmin::~SimAdmin() { Die(); }

void SimAdmin::Ask(Verb verb, Answer* answer) {
  Spawn(io_.At(0), Run(std::move(verb), answer));
  process_.RunReady();
}

Task<void> SimAdmin::Run(Verb verb, Answer* answer) {
  proto::ChangeNodeRequest request;
  request.set_node(verb.node);
  request.set_change(static_cast<std::uint32_t>(verb.change));
  const TimePoint began = Clock::now();
  const Result<RpcReply> reply =
      co_await coordinators_->Ask(Method::kChangeNode, request, kAdminPatience);
  answer->status = reply ? Status() : Fail(reply.error());
  answer->took = Clock::now() - began;
  answer->done = true;
}

}  // namespace forebay::sim
