#include "tests/eviction/whole_node.h"

#include <atomic>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/use_future.hpp>
#include <chrono>
#include <future>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "cachenode/block_reader.h"
#include "cachenode/changed_objects.h"
#include "cachenode/filler.h"
#include "cachenode/node_counters.h"
#include "cachenode/origin.h"
#include "cachenode/store/block_store.h"
#include "common/base/executors.h"
#include "common/base/offload.h"
#include "tests/eviction/choice_alone.h"
#include "tests/eviction/recent.h"
#include "tests/eviction/trace_blocks.h"
#include "tests/fakes/scripted_object_store.h"
#include "tests/fakes/scripted_peers.h"
#include "tests/fakes/temp_dir.h"

namespace forebay::testing {
namespace {

constexpr std::chrono::milliseconds kReadEvery{1};
constexpr std::chrono::seconds kPatience{60};
constexpr std::uint32_t kLinks = 2;

}  // namespace

struct WholeNode::Parts {
  explicit Parts(std::uint64_t capacity_bytes) {
    BlockStoreOptions options;
    options.dirs = {{.path = dir / "disk", .capacity_bytes = capacity_bytes}};
    options.segment_bytes = 1ULL << 20;
    options.now = [this] { return now.load(); };
    Result<std::unique_ptr<BlockStore>> opened =
        BlockStore::Open(std::move(options), Uuid::Random(), offload);
    if (!opened) throw std::runtime_error(opened.error().message);
    store = std::move(*opened);
    filler =
        std::make_unique<Filler>(FillerOptions(), pool, *store, peers, origin, counters, history);
    reader = std::make_unique<BlockReader>(*store, *filler, replies, counters, history);
    for (std::uint32_t link = 0; link < kLinks; ++link)
      links.push_back(std::make_shared<const LinkSpec>(LinkOf(link)));
    pool.Start();
  }

  fakes::TempDir dir;
  std::atomic<TimePoint> now{Clock::now()};
  Offload offload{1, 64};
  fakes::ScriptedPeers peers;
  fakes::ScriptedObjectStore s3;
  NodeCounters counters;
  BlockHistory history;
  ChangedObjects changed;
  Origin origin{s3, changed, [] {}};
  ReplyRoom replies{1ULL << 30};
  std::unique_ptr<BlockStore> store;
  std::unique_ptr<Filler> filler;
  std::unique_ptr<BlockReader> reader;
  std::vector<std::shared_ptr<const LinkSpec>> links;
  IoPool pool{"node", 1};
};

WholeNode::WholeNode(std::uint64_t capacity_bytes)
    : parts_(std::make_unique<Parts>(capacity_bytes)) {}

WholeNode::~WholeNode() {
  parts_->filler->Stop(Deadline::After(kPatience));
  parts_->pool.Stop();
}

std::size_t WholeNode::PlacesIn(std::uint64_t capacity_bytes) {
  WholeNode node(capacity_bytes);
  for (std::uint32_t block = 0;; ++block) {
    node.Read({.job = 0, .link = 0, .block = block});
    if (node.blocks() <= block) return node.blocks();
  }
}

void WholeNode::SetQuota(std::uint32_t link, std::size_t places) {
  parts_->store->SetRules(
      {{.link = LinkIdOf(link), .max_bytes = std::uint64_t{places} * kTraceBlockBytes}});
}

WholeNode::Step WholeNode::Read(const BlockRead& read) {
  const BlockStore::Counters& counters = parts_->store->counters();
  const std::uint64_t gets_before = gets();
  const std::uint64_t evicted_before = counters.evicted_blocks;
  const std::uint64_t admitted_before = counters.admitted_blocks;
  parts_->now = parts_->now.load() + kReadEvery;
  CheckedRead question;
  question.link = parts_->links.at(read.link);
  question.request.link = question.link->id;
  question.request.object = ObjectOf(read.block);
  question.request.block = IdOf(read.block);
  question.request.range = {0, kTraceBlockBytes};
  question.request.job = std::to_string(read.job);
  const Deadline deadline = Deadline::After(kPatience);
  const Result<Cells> cells =
      asio::co_spawn(parts_->pool.Next(), parts_->reader->Read(std::move(question), deadline),
                     asio::use_future)
          .get();
  if (!cells) throw std::runtime_error(cells.error().message);
  // The answer goes out before the block is kept.
  while (parts_->filler->in_flight() > 0 && !deadline.Expired()) std::this_thread::yield();
  return {.hit = gets() == gets_before,
          .evicted = counters.evicted_blocks - evicted_before,
          .admitted = counters.admitted_blocks - admitted_before};
}

WholeNode::Outcomes WholeNode::Run(const Trace& trace) {
  Outcomes outcomes;
  Recent recent;
  ChoiceAlone choice;
  for (std::size_t at = 0; at < trace.reads.size(); ++at) {
    const BlockRead& read = trace.reads[at];
    const BlockId block = IdOf(read.block);
    const bool again = recent.Has(read.block);
    // What the node remembers in memory is as much as the other caches have.
    if (const auto left = recent.Left()) {
      parts_->filler->recent().Remove(IdOf(*left));
      choice.Forget(IdOf(*left));
    }
    const Step step = Read(read);
    const auto has_room = [&step](std::size_t gone) {
      return step.admitted > 0 && gone == step.evicted;
    };
    const ChoiceAlone::Answer alone = choice.Read(read, block, has_room);
    if (again || at < trace.measured_from) continue;
    ++outcomes.whole.reads;
    outcomes.whole.hits += step.hit ? 1 : 0;
    outcomes.whole.admitted += step.admitted;
    ++outcomes.alone.reads;
    outcomes.alone.hits += alone.hit ? 1 : 0;
    outcomes.alone.admitted += alone.admitted ? 1 : 0;
  }
  return outcomes;
}

std::uint64_t WholeNode::gets() const { return parts_->s3.gets(); }

std::size_t WholeNode::blocks() const { return parts_->store->BlockCount(); }

std::uint64_t WholeNode::counted_misses() {
  std::uint64_t misses = 0;
  for (const auto& link : parts_->links) misses += parts_->counters.OfLink(link->id)->misses;
  return misses;
}

std::uint64_t WholeNode::counted_reads() {
  std::uint64_t reads = 0;
  for (const auto& link : parts_->links) reads += parts_->counters.OfLink(link->id)->reads;
  return reads;
}

}  // namespace forebay::testing
