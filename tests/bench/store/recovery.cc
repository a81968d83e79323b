#include <boost/json/object.hpp>
#include <boost/json/value.hpp>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "tests/bench/store/rig.h"
#include "tests/bench/store/sections.h"

namespace forebay::store_bench {
namespace {

namespace json = boost::json;

constexpr std::uint32_t kLength = 500;
constexpr std::size_t kFills = 32;

Task<void> AdmitOne(BlockStore& store, const Samples& samples, std::uint64_t number) {
  std::vector<std::uint64_t> checksums = samples.Checksums(number);
  Slice bytes = Slice::Of(samples.Bytes(number));
  const Status status = co_await store.Admit(BenchLink(), samples.Block(number), std::move(bytes),
                                             std::move(checksums), "", Room::kMayEvict);
  Must(status, "admitting a block");
}

/// Seconds until a store with all its blocks is open.
double OpenSeconds(const std::string& home, std::uint64_t blocks, bool drop_pages) {
  if (drop_pages) DropPages(home);
  const double begin = Seconds();
  Rig rig(StoreIn(home), 1);
  const double seconds = Seconds() - begin;
  if (rig.store().BlockCount() != blocks) Die("not every block was recovered");
  rig.Close();
  return seconds;
}

}  // namespace

json::value Recovery(const std::string& folder, std::uint64_t blocks) {
  const std::string home = folder + "/recovery";
  const Samples samples(kLength);
  const double begin = Seconds();
  {
    Rig rig(StoreIn(home), 2);
    rig.ForAll(blocks, kFills, [&](std::uint64_t i) { return AdmitOne(rig.store(), samples, i); });
    rig.Close();
  }
  const double filled = Seconds() - begin;
  const double by_index = OpenSeconds(home, blocks, true);
  std::filesystem::remove_all(home + "/index");
  const double by_headers = OpenSeconds(home, blocks, true);
  Remove(home);
  return json::object{{"blocks", blocks},
                      {"fill_s", filled},
                      {"by_index_s", by_index},
                      {"by_headers_s", by_headers}};
}

}  // namespace forebay::store_bench
