#include <xxhash.h>

#include <cstdint>
#include <cstring>
#include <set>
#include <string>
#include <utility>

#include "common/ring/ring.h"
#include "tests/fuzz/fuzz_targets.h"

namespace forebay {
namespace {

constexpr std::string_view kHead{"FBRING\0\0\1\0\0\0", 12};  // with its format
/// Bytes of a row: for every partition once, they shall stay far below what a fuzzer may allocate.
constexpr std::size_t kRow = 64;
/// Of more the next table is not made: it would take most of the time.
constexpr std::size_t kNodesForNext = 64;
constexpr std::int64_t kNow = 1'700'000'000;

/// The next piece of the input, behind its length (u16, little endian).
std::string_view TakePiece(std::string_view& input) {
  std::uint16_t length = 0;
  if (input.size() < sizeof length) return std::exchange(input, {});
  std::memcpy(&length, input.data(), sizeof length);
  const std::string_view piece = input.substr(sizeof length).substr(0, length);
  input.remove_prefix(sizeof length + piece.size());
  return piece;
}

std::string Piece(std::string_view bytes) {
  const auto length = static_cast<std::uint16_t>(bytes.size());
  return std::string(reinterpret_cast<const char*>(&length), sizeof length).append(bytes);
}

void AppendRows(std::string& table, std::string_view row) {
  for (std::uint32_t p = 0; p < kPartitions; ++p) table.append(row.substr(0, kRow));
}

void AppendChecksum(std::string& table) {
  const std::uint64_t checksum = XXH3_64bits(table.data(), table.size());
  table.append(reinterpret_cast<const char*>(&checksum), sizeof checksum);
}

/// All partitions alike, so that what is small can say it.
std::string TableOf(std::string_view input) {
  std::string table(kHead);
  table.append(TakePiece(input));
  AppendRows(table, TakePiece(input));
  table.append(TakePiece(input));
  AppendRows(table, TakePiece(input));
  AppendChecksum(table);
  return table;
}

void CheckOwners(const RingTable& table, std::uint32_t partition) {
  std::set<std::uint16_t> owners;
  for (const std::uint16_t owner : table.OwnersOf(partition)) {
    Require(owner < table.nodes().size() && owners.insert(owner).second);
    Require(table.RankOf(partition, table.nodes()[owner].id).has_value());
  }
  Require(!owners.empty());
  Require(table.PreviousOwnersOf(partition).size() <= kPreviousOwners);
  for (const PreviousOwner& owner : table.PreviousOwnersOf(partition))
    Require(!owner.node_id.empty());
}

}  // namespace

// What is taken for a table can be asked for everything, is what would be written of it, and is a
// base for the next one.
void RunRingInput(std::string_view input) {
  if (input.empty()) return;
  const bool mended = (input.front() & 1) != 0;
  input.remove_prefix(1);
  const std::string bytes = mended ? TableOf(input) : std::string(input);
  const auto table = RingTable::Parse(bytes);
  if (!table) {
    Require(table.error().code == Code::kCorrupt);
    return;
  }
  for (const NodeInfo& node : table->nodes()) Require(table->Find(node.id) == &node);
  for (std::uint32_t p = 0; !table->empty() && p < kPartitions; p += 97) CheckOwners(*table, p);
  Require(table->Serialize() == bytes);
  if (table->nodes().size() > kNodesForNext) return;
  const RingTable next = RingTable::Next(*table, table->nodes(), kNow);
  for (std::uint32_t p = 0; !next.empty() && p < kPartitions; p += 97) CheckOwners(next, p);
  Require(RingTable::Parse(next.Serialize()).has_value());
}

Seeds RingSeeds() {
  const auto node = [](const std::string& id, std::uint64_t capacity) {
    NodeInfo info;
    info.id = id;
    info.address = id + ":7441";
    info.capacity_bytes = capacity;
    return info;
  };
  const RingTable first = RingTable::Next({}, {node("a", 1), node("b", 2), node("c", 4)}, kNow);
  const RingTable second = RingTable::Next(first, {node("a", 1), node("b", 2)}, kNow);
  const auto number = [](auto value) {
    return std::string(reinterpret_cast<const char*>(&value), sizeof value);
  };
  const auto text = [&](std::string_view bytes) {
    return number(static_cast<std::uint16_t>(bytes.size())).append(bytes);
  };
  const auto member = [&](const std::string& id) {
    return text(id) + text(id + ":7441") + text("") + text("host") + text("zone") +
           number(std::uint64_t{1} << 40) + number(std::uint8_t{0});
  };
  const std::string nodes = number(std::uint64_t{7}) + number(std::uint32_t{2}) + member("a") +
                            member("b") + number(std::uint8_t{1});
  const std::string row =
      number(std::uint16_t{1}) + number(std::uint16_t{0}) + number(std::uint16_t{0xFFFF});
  const std::string departed = text("c") + number(std::uint64_t{6}) + number(kNow);
  const std::string was_owner = number(std::uint8_t{1}) + number(std::uint32_t{0});
  const std::string none = number(std::uint32_t{0});
  const std::string nobody =
      number(std::uint64_t{1}) + number(std::uint32_t{0}) + number(std::uint8_t{0});
  return {{"table", std::string(1, '\0') + second.Serialize()},
          {"empty", "\1" + Piece(nobody) + Piece("") + Piece(none)},
          {"owners", "\1" + Piece(nodes) + Piece(row) + Piece(none)},
          {"history", "\1" + Piece(nodes) + Piece(row) +
                          Piece(number(std::uint32_t{1}) + departed) + Piece(was_owner)}};
}

}  // namespace forebay
