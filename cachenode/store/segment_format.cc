#include "cachenode/store/segment_format.h"

#include <xxhash.h>

#include <algorithm>

namespace forebay {
namespace {

class Writer {
 public:
  explicit Writer(std::vector<std::byte>& out) : out_(out) {}
  void Number(std::uint64_t value, int bytes) {
    for (int i = 0; i < bytes; ++i) out_.push_back(static_cast<std::byte>(value >> (8 * i)));
  }
  void Bytes(const auto& array) {
    for (const std::uint8_t byte : array) out_.push_back(std::byte{byte});
  }

 private:
  std::vector<std::byte>& out_;
};

/// Its caller has checked that the bytes are there.
class Reader {
 public:
  explicit Reader(ByteView in) : in_(in) {}
  std::uint64_t Number(std::size_t bytes) {
    std::uint64_t value = 0;
    for (std::size_t i = 0; i < bytes; ++i) {
      value |= std::to_integer<std::uint64_t>(in_[at_ + i]) << (8 * i);
    }
    at_ += bytes;
    return value;
  }
  template <std::size_t N>
  std::array<std::uint8_t, N> Bytes() {
    std::array<std::uint8_t, N> array;
    for (auto& byte : array) byte = std::to_integer<std::uint8_t>(in_[at_++]);
    return array;
  }

 private:
  ByteView in_;
  std::size_t at_ = 0;
};

std::unexpected<Error> Corrupt(const char* what) { return Fail(Code::kCorrupt, what); }

}  // namespace

std::uint64_t RecordSeed(const Uuid& directory) {
  return XXH3_64bits(directory.bytes.data(), directory.bytes.size());
}

std::vector<std::byte> EncodeRecordHeader(const RecordHeader& header, std::uint64_t seed) {
  const std::uint32_t size = RecordHeaderBytes(header.block.length);
  std::vector<std::byte> bytes;
  bytes.reserve(size);
  Writer writer(bytes);
  writer.Bytes(kRecordMagic);
  writer.Number(kRecordFormat, 4);
  writer.Number(size, 4);
  writer.Bytes(header.cluster.bytes);
  writer.Bytes(header.link.bytes);
  writer.Number(header.block.version.high, 8);
  writer.Number(header.block.version.low, 8);
  writer.Number(header.block.offset, 8);
  writer.Number(header.block.length, 4);
  writer.Number(header.block.cells(), 4);
  writer.Number(header.segment, 8);
  writer.Number(header.position, 8);
  for (const std::uint64_t checksum : header.checksums) writer.Number(checksum, 8);
  writer.Number(XXH3_64bits_withSeed(bytes.data(), bytes.size(), seed), 8);
  return bytes;
}

Result<RecordHeader> DecodeRecordHeader(ByteView bytes, std::uint64_t seed) {
  if (bytes.size() < RecordHeaderBytes(1)) return Corrupt("the record is shorter than a header");
  Reader reader(bytes);
  if (reader.Bytes<kRecordMagic.size()>() != kRecordMagic) return Corrupt("no record begins here");
  if (reader.Number(4) != kRecordFormat) return Corrupt("the record has an unknown format");
  const std::uint64_t size = reader.Number(4);
  RecordHeader header;
  header.cluster.bytes = reader.Bytes<16>();
  header.link.bytes = reader.Bytes<16>();
  header.block.version.high = reader.Number(8);
  header.block.version.low = reader.Number(8);
  header.block.offset = reader.Number(8);
  header.block.length = static_cast<std::uint32_t>(reader.Number(4));
  const std::uint64_t cells = reader.Number(4);
  header.segment = reader.Number(8);
  header.position = reader.Number(8);
  if (header.block.length == 0 || header.block.length > kMaxBlockBytes ||
      cells != header.block.cells() || size != RecordHeaderBytes(header.block.length) ||
      size > bytes.size()) {
    return Corrupt("the record's lengths are out of bounds");
  }
  Reader last(bytes.subspan(size - 8));
  if (XXH3_64bits_withSeed(bytes.data(), size - 8, seed) != last.Number(8)) {
    return Corrupt("the record's header does not match its checksum");
  }
  header.checksums.reserve(cells);
  for (std::uint64_t cell = 0; cell < cells; ++cell) header.checksums.push_back(reader.Number(8));
  return header;
}

}  // namespace forebay
