#include <xxhash.h>

#include <algorithm>
#include <vector>

#include "cachenode/store/segment_format.h"
#include "tests/fuzz/fuzz_targets.h"

namespace forebay {
namespace {

constexpr std::uint64_t kSeed = 0x5EED;

void PutLittle(std::vector<std::byte>& bytes, std::size_t at, std::uint64_t value, int count) {
  for (int i = 0; i < count; ++i)
    bytes[at + static_cast<std::size_t>(i)] = static_cast<std::byte>(value >> (8 * i));
}

std::uint32_t LengthOf(const std::vector<std::byte>& bytes) {
  std::uint32_t length = 0;
  for (std::size_t i = 4; i-- > 0;) length = length << 8 | std::to_integer<unsigned>(bytes[72 + i]);
  return length;
}

std::vector<std::byte> Repaired(std::string_view input, unsigned flags) {
  std::vector<std::byte> bytes(input.size());
  std::ranges::transform(input, bytes.begin(), [](char c) { return static_cast<std::byte>(c); });
  if (bytes.size() < RecordHeaderBytes(1)) return bytes;
  const std::uint32_t length = LengthOf(bytes);
  const std::uint64_t cells = (std::uint64_t{length} + kCellBytes - 1) / kCellBytes;
  if ((flags & 1) != 0) {
    std::ranges::transform(kRecordMagic, bytes.begin(),
                           [](std::uint8_t c) { return static_cast<std::byte>(c); });
    PutLittle(bytes, 8, kRecordFormat, 4);
    PutLittle(bytes, 12, 104 + 8 * cells, 4);
    PutLittle(bytes, 76, cells, 4);
  }
  if ((flags & 2) != 0) {
    // Lengths that are out of bounds get a checksum at the end of what is there.
    const std::size_t size = std::min<std::size_t>(104 + 8 * cells, bytes.size());
    PutLittle(bytes, size - 8, XXH3_64bits_withSeed(bytes.data(), size - 8, kSeed), 8);
  }
  return bytes;
}

std::string SeedOf(unsigned flags, std::uint32_t length) {
  RecordHeader header{.cluster = Uuid::Parse("c0000000-0000-4000-8000-000000000001"),
                      .link = Uuid::Parse("10000000-0000-4000-8000-000000000002"),
                      .block = {{length, 7}, 4ULL << 20, length},
                      .segment = 3,
                      .position = 8192};
  header.checksums.assign(header.block.cells(), 0x1122334455667788ULL);
  const auto bytes = EncodeRecordHeader(header, kSeed);
  std::string seed(1, static_cast<char>(flags));
  return seed.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
}

}  // namespace

// What was read is written back byte by byte, and says nothing that is out of bounds.
void RunRecordHeaderInput(std::string_view input) {
  if (input.empty()) return;
  const auto flags = static_cast<std::uint8_t>(input.front());
  const std::vector<std::byte> bytes = Repaired(input.substr(1), flags);
  const Result<RecordHeader> header = DecodeRecordHeader(bytes, kSeed);
  if (!header) {
    Require(header.error().code == Code::kCorrupt);
    return;
  }
  Require(header->block.length > 0 && header->block.length <= kMaxBlockBytes);
  Require(header->checksums.size() == header->block.cells());
  const std::vector<std::byte> written = EncodeRecordHeader(*header, kSeed);
  Require(written.size() <= bytes.size());
  Require(std::equal(written.begin(), written.end(), bytes.begin()));
}

Seeds RecordHeaderSeeds() {
  Seeds seeds;
  // The last one is longer than a block may be.
  for (const std::uint32_t length : {1U, 65'536U, 65'537U, 4U << 20, 16U << 20, (16U << 20) + 1}) {
    for (const unsigned flags : {0U, 2U, 3U})
      seeds[std::to_string(flags) + "-" + std::to_string(length)] = SeedOf(flags, length);
  }
  return seeds;
}

}  // namespace forebay
