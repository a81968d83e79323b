// How fast a snapshot is built, opened and read: 2 million rows named as ImageNet's.
#include <benchmark/benchmark.h>

#include <cstdio>
#include <filesystem>
#include <memory>
#include <random>
#include <string>

#include "common/snapshot/snapshot.h"
#include "common/snapshot/snapshot_builder.h"

namespace forebay {
namespace {

constexpr int kDirectories = 1'500;
constexpr int kFilesEach = 1'333;
constexpr std::int64_t kFiles = std::int64_t{kDirectories} * kFilesEach;

std::string NameOf(int directory, int file) {
  char text[48];
  std::snprintf(text, sizeof text, "n%08d_%d.JPEG", 1'440'764 + directory * 7'919, file * 11);
  return text;
}

std::string PathOfFile(int directory, int file) {
  const std::string name = NameOf(directory, file);
  return name.substr(0, 9) + "/" + name;
}

std::string FilePath() {
  return (std::filesystem::temp_directory_path() / "forebay-snapshot-bench").string();
}

double BuildFile() {
  SnapshotBuilder builder({.id = {.link = Uuid::Random(), .generation = 1},
                           .domain = Uuid::Random(),
                           .endpoint = "http://127.0.0.1:7480",
                           .bucket = "bucket",
                           .prefix = "train/",
                           .block_bytes = 4 << 20,
                           .previous = nullptr},
                          FilePath());
  for (int d = 0; d < kDirectories; ++d) {
    for (int f = 0; f < kFilesEach; ++f) {
      const Status added = builder.Add({.key = "train/" + PathOfFile(d, f),
                                        .size = 40'000,
                                        .etag = "d41d8cd98f00b204e9800998ecf8427e",
                                        .mtime_unix_s = 1'700'000'000});
      if (!added) return 0;
    }
  }
  const auto built = builder.Finish();
  return built ? static_cast<double>(built->file_bytes) / static_cast<double>(kFiles) : 0;
}

const Snapshot& Shared() {
  static const std::shared_ptr<const Snapshot> snapshot = *Snapshot::Open(FilePath());
  return *snapshot;
}

void BuildRows(benchmark::State& state) {
  double bytes = 0;
  while (state.KeepRunning()) bytes = BuildFile();
  state.SetItemsProcessed(state.iterations() * kFiles);
  state.counters["bytes_per_object"] = bytes;
}
BENCHMARK(BuildRows)->Iterations(1)->Unit(benchmark::kMillisecond);

void OpenFile(benchmark::State& state) {
  while (state.KeepRunning()) benchmark::DoNotOptimize(Snapshot::Open(FilePath()));
}
BENCHMARK(OpenFile);

void VerifyFile(benchmark::State& state) {
  while (state.KeepRunning()) benchmark::DoNotOptimize(Shared().VerifyAll().has_value());
  state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(Shared().file_bytes()));
}
BENCHMARK(VerifyFile)->Unit(benchmark::kMillisecond);

// Names of random files, made before the clock runs.
std::vector<std::pair<std::uint32_t, std::string>> RandomNames() {
  std::mt19937_64 random(1);
  std::vector<std::pair<std::uint32_t, std::string>> names;
  for (int i = 0; i < 1 << 18; ++i) {
    const int d = static_cast<int>(random() % kDirectories);
    const std::string name = NameOf(d, static_cast<int>(random() % kFilesEach));
    names.emplace_back(Shared().Resolve(name.substr(0, 9))->directory, name);
  }
  return names;
}

void LookupName(benchmark::State& state) {
  const auto names = RandomNames();
  std::size_t i = 0;
  while (state.KeepRunning()) {
    const auto& [directory, name] = names[i++ % names.size()];
    auto row = Shared().Lookup(directory, name);
    if (!row) state.SkipWithError("not found");
    benchmark::DoNotOptimize(row);
  }
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK(LookupName);

void LookupAbsentName(benchmark::State& state) {
  const auto names = RandomNames();
  std::size_t i = 0;
  while (state.KeepRunning()) {
    const auto& [directory, name] = names[i++ % names.size()];
    auto row = Shared().Lookup((directory + 1) % kDirectories, name);
    if (row) state.SkipWithError("found");
    benchmark::DoNotOptimize(row);
  }
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK(LookupAbsentName);

std::vector<std::uint64_t> RandomNodeids() {
  std::mt19937_64 random(2);
  std::vector<std::uint64_t> nodeids(1 << 18);
  for (auto& nodeid : nodeids) {
    nodeid = Shared().RowAt(static_cast<std::uint32_t>(random() % Shared().rows()))->nodeid;
  }
  return nodeids;
}

void FindNodeid(benchmark::State& state) {
  const auto nodeids = RandomNodeids();
  std::size_t i = 0;
  while (state.KeepRunning())
    benchmark::DoNotOptimize(Shared().FindNodeid(nodeids[i++ % nodeids.size()]));
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK(FindNodeid);

// What a READ needs before it asks an owner.
void NodeidToVersion(benchmark::State& state) {
  const auto nodeids = RandomNodeids();
  std::size_t i = 0;
  while (state.KeepRunning()) {
    const auto row = Shared().FindNodeid(nodeids[i++ % nodeids.size()]);
    if (!row->is_directory()) benchmark::DoNotOptimize(Shared().VersionOf(*row));
  }
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK(NodeidToVersion);

void WalkAll(benchmark::State& state) {
  std::int64_t files = 0;
  while (state.KeepRunning()) {
    const Status walked =
        Shared().ForEachFile(kRootDirectory, [&](const SnapshotRow& row, std::string_view) {
          std::uint32_t index = row.index;
          benchmark::DoNotOptimize(index);
          ++files;
          return true;
        });
    if (!walked) state.SkipWithError("damaged");
  }
  state.SetItemsProcessed(files);
}
BENCHMARK(WalkAll)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace forebay

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  if (forebay::BuildFile() == 0) return 1;  // the others read it, whatever --benchmark_filter says
  benchmark::RunSpecifiedBenchmarks();
  std::filesystem::remove(forebay::FilePath());
}
