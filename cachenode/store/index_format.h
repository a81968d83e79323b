#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "common/model/block_id.h"
#include "common/model/object_version.h"

// The keys and values of the durable index, as docs/STORE_FORMAT.md describes them. Pure. What is
// read here comes from a disk: every function that reads answers nothing for what it does not know
// or what is not exactly as long as it should be.
namespace forebay {

inline constexpr std::string_view kBlockRows = "b";
inline constexpr std::string_view kPinRows = "p";
inline constexpr std::string_view kPinsVersionRows = "v";

/// A row of the durable index.
struct IndexedRecord {
  BlockId block;
  std::uint32_t segment = 0;
  std::uint32_t unit = 0;  ///< Position in the segment / kRecordAlignment.
  bool pinned = false;     ///< Only for IndexDb::Put: pins are read apart.
};

std::string BlockKey(const BlockId& block);
std::string BlockRow(const IndexedRecord& record);
std::optional<IndexedRecord> ReadBlockRow(std::string_view key, std::string_view row);

std::string PinKey(const BlockId& block);
std::string PinRow();
std::optional<BlockId> ReadPinRow(std::string_view key, std::string_view row);

std::string PinsVersionKey(const Uuid& link);
std::string PinsVersionRow(std::uint64_t version);
std::optional<std::pair<Uuid, std::uint64_t>> ReadPinsVersionRow(std::string_view key,
                                                                 std::string_view row);

std::string NumberRow(std::uint32_t number);
std::optional<std::uint32_t> ReadNumberRow(std::string_view row);

}  // namespace forebay
