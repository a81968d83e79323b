// What ops/bench namespace measures in one process, as JSON:
//   namespace_bench list ENDPOINT BUCKET   a listing of everything, one page after the other
//   namespace_bench snapshot FILE          opening a snapshot, and finding names in it and, the
//                                          same names, in RocksDB
//   namespace_bench walk FILE              every entry of a snapshot, as find meets them
#include <fmt/format.h>
#include <rocksdb/db.h>
#include <rocksdb/sst_file_writer.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/use_future.hpp>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "common/base/asio.h"
#include "common/s3/s3_client.h"
#include "common/snapshot/snapshot.h"
#include "tests/fakes/temp_dir.h"

namespace forebay {
namespace {

using Seconds = std::chrono::duration<double>;

double SecondsSince(TimePoint begin) { return Seconds(Clock::now() - begin).count(); }

Task<Result<std::uint64_t>> CountKeys(S3Client& s3, LinkOrigin origin) {
  std::uint64_t keys = 0;
  ListRequest request;
  request.origin = std::move(origin);
  do {
    Result<ListPage> page = co_await s3.List(request, Deadline::After(std::chrono::seconds(60)));
    if (!page) co_return Fail(page.error());
    keys += page->objects.size();
    request.continuation = page->next;
  } while (!request.continuation.empty());
  co_return keys;
}

int List(const std::string& endpoint, const std::string& bucket) {
  S3Client s3({}, CredentialChain(CredentialChain::Providers{}));
  s3.Start();
  LinkOrigin origin;
  origin.bucket = bucket;
  origin.endpoint = endpoint;
  origin.region = "us-east-1";
  origin.path_style = true;
  origin.sign = false;
  asio::io_context context;
  const TimePoint begin = Clock::now();
  auto counted = asio::co_spawn(context, CountKeys(s3, std::move(origin)), asio::use_future);
  context.run();
  const Result<std::uint64_t> keys = counted.get();
  const double seconds = SecondsSince(begin);
  if (!keys) {
    fmt::print(stderr, "namespace_bench: {}\n", keys.error().message);
    return 1;
  }
  fmt::print("{{\"keys\": {}, \"seconds\": {:.6f}}}\n", *keys, seconds);
  return 0;
}

struct Name {
  std::uint32_t directory = 0;
  std::string name;
  std::string key;  // of RocksDB: the directory, big endian, and the name
};

std::string RocksKey(std::uint32_t directory, std::string_view name) {
  std::string key;
  for (int shift = 24; shift >= 0; shift -= 8) key += static_cast<char>(directory >> shift);
  return key.append(name);
}

std::vector<Name> RandomNames(const Snapshot& snapshot) {
  std::mt19937_64 random(1);
  std::vector<Name> names(1 << 18);
  for (Name& name : names) {
    const auto row = snapshot.RowAt(static_cast<std::uint32_t>(random() % snapshot.rows()));
    name.directory = snapshot.ParentOf(*row);
    name.name = snapshot.NameOf(*row);
    name.key = RocksKey(name.directory, name.name);
  }
  return names;
}

/// A table of the same rows: 36 bytes by directory and name.
std::unique_ptr<rocksdb::DB> MakeRocks(const Snapshot& snapshot, const std::string& folder) {
  rocksdb::Options options;
  options.create_if_missing = true;
  rocksdb::DB* db = nullptr;
  if (!rocksdb::DB::Open(options, folder + "/db", &db).ok()) return nullptr;
  std::unique_ptr<rocksdb::DB> owned(db);
  rocksdb::SstFileWriter table(rocksdb::EnvOptions(), options);
  bool good = table.Open(folder + "/rows.sst").ok();
  const std::string value(36, 'v');
  for (std::uint32_t d = 0; good && d < snapshot.directories(); ++d) {
    DirectoryCursor cursor = snapshot.ReadDirectory(d);
    while (good && cursor.Next()) good = table.Put(RocksKey(d, cursor.name()), value).ok();
  }
  good = good && table.Finish().ok() &&
         db->IngestExternalFile({folder + "/rows.sst"}, rocksdb::IngestExternalFileOptions()).ok();
  return good ? std::move(owned) : nullptr;
}

double Median(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

double LookupsPerSecond(const Snapshot& snapshot, const std::vector<Name>& names) {
  const TimePoint begin = Clock::now();
  for (const Name& name : names) {
    if (name.name.empty()) continue;  // the root
    if (!snapshot.Lookup(name.directory, name.name)) return 0;
  }
  return static_cast<double>(names.size()) / SecondsSince(begin);
}

double RocksLookupsPerSecond(rocksdb::DB& db, const std::vector<Name>& names) {
  rocksdb::PinnableSlice value;
  const TimePoint begin = Clock::now();
  for (const Name& name : names) {
    value.Reset();
    if (name.name.empty()) continue;
    const auto found = db.Get(rocksdb::ReadOptions(), db.DefaultColumnFamily(), name.key, &value);
    if (!found.ok()) return 0;
  }
  return static_cast<double>(names.size()) / SecondsSince(begin);
}

int Measure(const std::string& path) {
  constexpr int kOpens = 101;
  constexpr int kRounds = 5;
  std::vector<double> opens;
  for (int i = 0; i < kOpens; ++i) {
    const TimePoint begin = Clock::now();
    const auto opened = Snapshot::Open(path);
    if (!opened) {
      fmt::print(stderr, "namespace_bench: {}\n", opened.error().message);
      return 1;
    }
    opens.push_back(SecondsSince(begin));
  }
  const std::shared_ptr<const Snapshot> snapshot = *Snapshot::Open(path);
  const std::vector<Name> names = RandomNames(*snapshot);
  const fakes::TempDir folder;
  const auto rocks = MakeRocks(*snapshot, folder.path());
  if (!rocks) {
    fmt::print(stderr, "namespace_bench: RocksDB cannot take the rows\n");
    return 1;
  }
  std::vector<double> lookups;
  std::vector<double> rocks_lookups;
  LookupsPerSecond(*snapshot, names);
  RocksLookupsPerSecond(*rocks, names);
  for (int round = 0; round < kRounds; ++round) {
    lookups.push_back(LookupsPerSecond(*snapshot, names));
    rocks_lookups.push_back(RocksLookupsPerSecond(*rocks, names));
  }
  fmt::print(
      "{{\"objects\": {}, \"bytes\": {}, \"open_seconds\": {:.9f}, \"lookups_per_second\": {:.0f}, "
      "\"rocksdb_lookups_per_second\": {:.0f}}}\n",
      snapshot->totals().objects, snapshot->file_bytes(), Median(opens), Median(lookups),
      Median(rocks_lookups));
  return 0;
}

int Walk(const std::string& path) {
  const auto opened = Snapshot::Open(path);
  if (!opened) {
    fmt::print(stderr, "namespace_bench: {}\n", opened.error().message);
    return 1;
  }
  const Snapshot& snapshot = **opened;
  std::uint64_t files = 0;
  std::uint64_t name_bytes = 0;
  const TimePoint begin = Clock::now();
  for (std::uint32_t d = 0; d < snapshot.directories(); ++d) {
    DirectoryCursor cursor = snapshot.ReadDirectory(d);
    while (cursor.Next()) {
      name_bytes += cursor.name().size();
      if (!cursor.row().is_directory()) ++files;
    }
  }
  fmt::print("{{\"files\": {}, \"name_bytes\": {}, \"seconds\": {:.9f}}}\n", files, name_bytes,
             SecondsSince(begin));
  return 0;
}

}  // namespace
}  // namespace forebay

int main(int argc, char** argv) {
  CLI::App app("Measures a listing, or a snapshot.");
  std::string endpoint;
  std::string bucket;
  std::string file;
  app.require_subcommand(1);
  auto* const list = app.add_subcommand("list", "one page after the other");
  list->add_option("ENDPOINT", endpoint)->required();
  list->add_option("BUCKET", bucket)->required();
  auto* const snapshot = app.add_subcommand("snapshot", "opening and lookups");
  snapshot->add_option("FILE", file)->required();
  auto* const walk = app.add_subcommand("walk", "every entry");
  walk->add_option("FILE", file)->required();
  CLI11_PARSE(app, argc, argv);
  if (*walk) return forebay::Walk(file);
  return *list ? forebay::List(endpoint, bucket) : forebay::Measure(file);
}
