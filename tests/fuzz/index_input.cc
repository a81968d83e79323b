#include "cachenode/store/index_format.h"
#include "tests/fuzz/fuzz_targets.h"

namespace forebay {
namespace {

std::string SeedOf(const std::string& key, const std::string& row) {
  return std::string(1, static_cast<char>(key.size())) + key + row;
}

}  // namespace

// A key and its row are taken for at most one kind of row, and only if that kind would write them.
void RunIndexRowInput(std::string_view input) {
  if (input.empty()) return;
  const auto key_bytes = static_cast<std::uint8_t>(input.front());
  const std::string_view key = input.substr(1).substr(0, key_bytes);
  const std::string_view row = input.substr(1 + key.size());
  int kinds = 0;
  if (const auto record = ReadBlockRow(key, row)) {
    ++kinds;
    Require(BlockKey(record->block) == key && BlockRow(*record) == row && !record->pinned);
  }
  if (const auto block = ReadPinRow(key, row)) {
    ++kinds;
    Require(PinKey(*block) == key && PinRow() == row);
  }
  if (const auto version = ReadPinsVersionRow(key, row)) {
    ++kinds;
    Require(PinsVersionKey(version->first) == key && PinsVersionRow(version->second) == row);
  }
  Require(kinds <= 1);
  if (const auto number = ReadNumberRow(row)) Require(NumberRow(*number) == row);
}

Seeds IndexRowSeeds() {
  const BlockId block{{1, 2}, 4ULL << 20, 4U << 20};
  const Uuid link = Uuid::Parse("10000000-0000-4000-8000-000000000002");
  return {{"block", SeedOf(BlockKey(block), BlockRow({.block = block, .segment = 3, .unit = 4}))},
          {"pin", SeedOf(PinKey(block), PinRow())},
          {"pins-version", SeedOf(PinsVersionKey(link), PinsVersionRow(5))},
          {"next-segment", SeedOf("m/next_segment", NumberRow(6))},
          {"short-row", SeedOf(BlockKey(block), "\1")},
          {"short-key", SeedOf("b", BlockRow({}))}};
}

}  // namespace forebay
