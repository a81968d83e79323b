#include "cachenode/store/index_format.h"

#include <algorithm>

namespace forebay {
namespace {

constexpr char kRowFormat = 1;
constexpr char kPinFormat = 1;
constexpr std::size_t kBlockKeyBytes = 1 + 8 + 8 + 8 + 4;
constexpr std::size_t kBlockRowBytes = 1 + 4 + 4;
constexpr std::size_t kPinsVersionKeyBytes = 1 + 16;

void AppendBig(std::string& out, std::uint64_t value, int bytes) {
  for (int i = bytes - 1; i >= 0; --i) out.push_back(static_cast<char>(value >> (8 * i)));
}

std::string Little(std::uint64_t value, int bytes) {
  std::string out;
  for (int i = 0; i < bytes; ++i) out.push_back(static_cast<char>(value >> (8 * i)));
  return out;
}

std::uint64_t ReadBig(std::string_view bytes) {
  std::uint64_t value = 0;
  for (const char byte : bytes) value = value << 8 | static_cast<std::uint8_t>(byte);
  return value;
}

std::uint64_t ReadLittle(std::string_view bytes) {
  std::uint64_t value = 0;
  for (std::size_t i = bytes.size(); i-- > 0;)
    value = value << 8 | static_cast<std::uint8_t>(bytes[i]);
  return value;
}

std::string KeyOf(std::string_view rows, const BlockId& block) {
  std::string key(rows);
  key.reserve(kBlockKeyBytes);
  AppendBig(key, block.version.high, 8);
  AppendBig(key, block.version.low, 8);
  AppendBig(key, block.offset, 8);
  AppendBig(key, block.length, 4);
  return key;
}

std::optional<BlockId> BlockOf(std::string_view rows, std::string_view key) {
  if (key.size() != kBlockKeyBytes || !key.starts_with(rows)) return std::nullopt;
  return BlockId{{ReadBig(key.substr(1, 8)), ReadBig(key.substr(9, 8))},
                 ReadBig(key.substr(17, 8)),
                 static_cast<std::uint32_t>(ReadBig(key.substr(25, 4)))};
}

}  // namespace

std::string BlockKey(const BlockId& block) { return KeyOf(kBlockRows, block); }

std::string BlockRow(const IndexedRecord& record) {
  return kRowFormat + Little(record.segment, 4) + Little(record.unit, 4);
}

std::optional<IndexedRecord> ReadBlockRow(std::string_view key, std::string_view row) {
  const std::optional<BlockId> block = BlockOf(kBlockRows, key);
  if (!block || row.size() != kBlockRowBytes || row.front() != kRowFormat) return std::nullopt;
  return IndexedRecord{*block, static_cast<std::uint32_t>(ReadLittle(row.substr(1, 4))),
                       static_cast<std::uint32_t>(ReadLittle(row.substr(5, 4)))};
}

std::string PinKey(const BlockId& block) { return KeyOf(kPinRows, block); }

std::string PinRow() { return {kPinFormat}; }

std::optional<BlockId> ReadPinRow(std::string_view key, std::string_view row) {
  return row == PinRow() ? BlockOf(kPinRows, key) : std::nullopt;
}

std::string PinsVersionKey(const Uuid& link) {
  std::string key(kPinsVersionRows);
  return key.append(link.bytes.begin(), link.bytes.end());
}

std::string PinsVersionRow(std::uint64_t version) { return Little(version, 8); }

std::optional<std::pair<Uuid, std::uint64_t>> ReadPinsVersionRow(std::string_view key,
                                                                 std::string_view row) {
  if (key.size() != kPinsVersionKeyBytes || !key.starts_with(kPinsVersionRows) || row.size() != 8)
    return std::nullopt;
  Uuid link;
  std::ranges::transform(key.substr(1), link.bytes.begin(),
                         [](char byte) { return static_cast<std::uint8_t>(byte); });
  return std::pair(link, ReadLittle(row));
}

std::string NumberRow(std::uint32_t number) { return Little(number, 4); }

std::optional<std::uint32_t> ReadNumberRow(std::string_view row) {
  if (row.size() != 4) return std::nullopt;
  return static_cast<std::uint32_t>(ReadLittle(row));
}

}  // namespace forebay
