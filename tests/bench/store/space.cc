#include <boost/json/object.hpp>
#include <boost/json/value.hpp>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "common/model/record_size.h"
#include "tests/bench/store/rig.h"
#include "tests/bench/store/sections.h"

namespace forebay::store_bench {
namespace {

namespace json = boost::json;
namespace fs = std::filesystem;

constexpr std::uint64_t kBlockBytes = 4ULL << 20;
constexpr std::size_t kFills = 16;

struct Pile {
  std::vector<Samples> samples;
  std::vector<std::pair<BlockId, const Samples*>> blocks;
};

/// The blocks of `objects` objects of `bytes` each.
Pile BlocksOf(std::uint64_t bytes, std::uint64_t objects) {
  Pile pile;
  const std::uint64_t whole = bytes / kBlockBytes;
  const auto rest = static_cast<std::uint32_t>(bytes % kBlockBytes);
  pile.samples.reserve(2);
  if (whole > 0) pile.samples.emplace_back(static_cast<std::uint32_t>(kBlockBytes));
  if (rest > 0) pile.samples.emplace_back(rest);
  for (std::uint64_t object = 0; object < objects; ++object) {
    for (std::uint64_t at = 0; at < bytes; at += kBlockBytes) {
      const Samples& of = at / kBlockBytes < whole ? pile.samples.front() : pile.samples.back();
      BlockId block = of.Block(object);
      block.offset = at;
      pile.blocks.emplace_back(block, &of);
    }
  }
  return pile;
}

Task<void> AdmitOne(BlockStore& store, const Pile& pile, std::uint64_t number) {
  const auto& [block, samples] = pile.blocks[number];
  const std::uint64_t content = block.version.high;
  std::vector<std::uint64_t> checksums = samples->Checksums(content);
  Slice bytes = Slice::Of(samples->Bytes(content));
  const Status status = co_await store.Admit(BenchLink(), block, std::move(bytes),
                                             std::move(checksums), "", Room::kMayEvict);
  Must(status, "admitting a block");
}

Task<void> EvictSome(BlockStore& store, const std::vector<std::vector<BlockId>>& batches,
                     std::uint64_t number) {
  std::vector<BlockId> batch = batches[number];
  const EvictFilter every;
  const Result<Evicted> evicted = co_await store.Evict(std::move(batch), every);
  if (!evicted) Die("evicting: " + evicted.error().message);
}

std::uint64_t TablesBelow(const std::string& folder) {
  std::uint64_t bytes = 0;
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (entry.path().extension() == ".sst") bytes += entry.file_size();
  }
  return bytes;
}

std::uint64_t BytesOf(const Pile& pile) {
  std::uint64_t bytes = 0;
  for (const auto& [block, samples] : pile.blocks) bytes += block.length;
  return bytes;
}

/// Every other of the blocks, at random, in batches.
std::vector<std::vector<BlockId>> HalfOf(const Pile& pile) {
  constexpr std::size_t kBatch = 256;
  const std::vector<std::uint64_t> order = Shuffled(pile.blocks.size(), 1);
  std::vector<std::vector<BlockId>> batches;
  for (std::size_t i = 0; i < order.size() / 2; ++i) {
    if (i % kBatch == 0) batches.emplace_back();
    batches.back().push_back(pile.blocks[order[i]].first);
  }
  return batches;
}

}  // namespace

json::value Space(const std::string& folder, std::uint64_t object_bytes, std::uint64_t objects) {
  const std::string home = folder + "/space";
  const Pile pile = BlocksOf(object_bytes, objects);
  std::uint64_t counted = 0;
  std::uint64_t expected = 0;
  const std::uint64_t before = BytesWritten();
  {
    Rig rig(StoreIn(home), 2);
    rig.ForAll(pile.blocks.size(), kFills,
               [&](std::uint64_t i) { return AdmitOne(rig.store(), pile, i); });
    counted = rig.store().Disks()[0].used_bytes;
    rig.Close();
  }
  SyncAll(folder);
  for (const auto& [block, samples] : pile.blocks) expected += RecordDiskBytes(block.length);
  json::object measured{{"object_bytes", object_bytes},
                        {"objects", objects},
                        {"blocks", pile.blocks.size()},
                        {"record_bytes", expected},
                        {"counted_bytes", counted},
                        {"allocated_bytes", AllocatedBelow(home + "/segments")},
                        {"index_bytes", TablesBelow(home + "/index")},
                        {"written_bytes", BytesWritten() - before}};
  Remove(home);
  return measured;
}

json::value Churn(const std::string& folder, std::uint32_t length, std::uint64_t bytes) {
  const std::string home = folder + "/churn";
  const Pile pile = BlocksOf(length, bytes / length);
  const auto batches = HalfOf(pile);
  std::uint64_t gone = 0;
  for (const auto& batch : batches) gone += batch.size();
  const std::uint64_t before = BytesWritten();
  json::object measured{{"length", length}, {"admitted_bytes", BytesOf(pile)}};
  {
    Rig rig(StoreIn(home), 2);
    rig.ForAll(pile.blocks.size(), kFills,
               [&](std::uint64_t i) { return AdmitOne(rig.store(), pile, i); });
    SyncAll(folder);
    measured["full_bytes"] = AllocatedBelow(home + "/segments");
    const double begin = Seconds();
    rig.ForAll(batches.size(), 1,
               [&](std::uint64_t i) { return EvictSome(rig.store(), batches, i); });
    measured["evict_s"] = Seconds() - begin;
    measured["evicted_blocks"] = gone;
    SyncAll(folder);
    measured["left_bytes"] = rig.store().Disks()[0].used_bytes;
    measured["left_allocated_bytes"] = AllocatedBelow(home + "/segments");
    rig.Close();
  }
  SyncAll(folder);
  measured["written_bytes"] = BytesWritten() - before;
  Remove(home);
  return measured;
}

}  // namespace forebay::store_bench
