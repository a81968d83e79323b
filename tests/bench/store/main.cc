// What the store does on this machine: `ops/bench store` calls it and prints the tables. Prints
// JSON. Times are measured, never judged.
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>
#include <stdlib.h>

#include <CLI/CLI.hpp>
#include <boost/json/serialize.hpp>
#include <filesystem>
#include <iostream>
#include <string>

#include "tests/bench/store/rig.h"
#include "tests/bench/store/sections.h"

namespace forebay::store_bench {
namespace {

/// A fresh folder below `where`, removed when it ends.
class Folder {
 public:
  explicit Folder(const std::string& where) : path_(where + "/forebay-store-bench-XXXXXX") {
    MustSystem(::mkdtemp(path_.data()) != nullptr, "making a folder");
  }
  ~Folder() { Remove(path_); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

int Run(int argc, char** argv) {
  CLI::App app("How fast the store is on this machine, and what it takes.");
  app.require_subcommand(1);
  std::string where = std::filesystem::temp_directory_path().string();
  app.add_option("--folder", where, "on the disk to be measured; a folder is made there");

  RatesOptions rates;
  CLI::App* rates_command = app.add_subcommand("rates", "beside files and one raw file");
  rates_command->add_option("--length", rates.length, "bytes of an object: one block");
  rates_command->add_option("--objects", rates.objects);
  rates_command->add_option("--rounds", rates.rounds);
  rates_command->add_option("--threads", rates.threads);

  CLI::App* checksums_command = app.add_subcommand("checksums", "what they cost by themselves");
  checksums_command->add_option("--length", rates.length, "bytes of an object: one block");
  checksums_command->add_option("--objects", rates.objects);

  std::uint64_t object_bytes = 40'000;
  std::uint64_t objects = 1'000;
  CLI::App* space_command = app.add_subcommand("space", "what an object takes on the disk");
  space_command->add_option("--object-bytes", object_bytes);
  space_command->add_option("--objects", objects);

  std::uint32_t length = 40'000;
  std::uint64_t bytes = 256ULL << 20;
  CLI::App* churn_command = app.add_subcommand("churn", "half of what comes is evicted");
  churn_command->add_option("--length", length);
  churn_command->add_option("--bytes", bytes);

  std::uint64_t blocks = 1'000'000;
  unsigned jobs = 1;
  CLI::App* memory_command = app.add_subcommand("memory", "what a cached block takes in memory");
  memory_command->add_option("--blocks", blocks);
  memory_command->add_option("--jobs", jobs, "that have read all of them");
  CLI::App* recovery_command = app.add_subcommand("recovery", "how long a start takes");
  recovery_command->add_option("--blocks", blocks);
  CLI11_PARSE(app, argc, argv);

  // Standard output is for the figures.
  spdlog::set_default_logger(spdlog::stderr_logger_mt("store_bench"));
  spdlog::set_level(spdlog::level::err);
  const Folder folder(where);
  rates.folder = folder.path();
  boost::json::value result;
  if (*rates_command) result = Rates(rates);
  if (*checksums_command) result = Checksums(rates.length, rates.objects);
  if (*space_command) result = Space(folder.path(), object_bytes, objects);
  if (*churn_command) result = Churn(folder.path(), length, bytes);
  if (*memory_command) result = Memory(blocks, jobs);
  if (*recovery_command) result = Recovery(folder.path(), blocks);
  std::cout << boost::json::serialize(result) << "\n";
  return 0;
}

}  // namespace
}  // namespace forebay::store_bench

int main(int argc, char** argv) { return forebay::store_bench::Run(argc, argv); }
