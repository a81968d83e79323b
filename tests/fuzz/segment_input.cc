#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <memory>

#include "cachenode/store/record_reader.h"
#include "cachenode/store/recovery.h"
#include "tests/fakes/temp_dir.h"
#include "tests/fuzz/fuzz_targets.h"

namespace forebay {
namespace {

constexpr std::uint32_t kSegment = 17;
constexpr const char* kCluster = "c0000000-0000-4000-8000-000000000001";
constexpr const char* kDirectory = "d0000000-1111-4222-8333-444444444444";

const Uuid& Link() {
  static const Uuid link = Uuid::Parse("10000000-0000-4000-8000-000000000002");
  return link;
}

std::uint64_t Seed() {
  static const std::uint64_t seed = RecordSeed(Uuid::Parse(kDirectory));
  return seed;
}

/// A cache directory with one segment, which every input writes anew.
class OneSegment {
 public:
  OneSegment() {
    std::ofstream(dir_ / "FOREBAY") << "forebay cache directory\nformat 1\ncluster " << kCluster
                                    << "\ndirectory " << kDirectory << "\n";
    Result<CacheDirectory> opened = CacheDirectory::Open(dir_.path(), Uuid::Parse(kCluster));
    Require(opened.has_value());
    directory_ = std::make_unique<CacheDirectory>(std::move(*opened));
    fd_ = directory_->CreateSegment(Link(), kSegment);
    Require(static_cast<bool>(fd_));
  }

  void Clear() { Require(::ftruncate(fd_.get(), 0) == 0); }
  void Write(std::uint64_t position, std::string_view bytes) {
    Require(::pwrite(fd_.get(), bytes.data(), bytes.size(), static_cast<off_t>(position)) ==
            static_cast<ssize_t>(bytes.size()));
  }
  std::vector<IndexedRecord> Scan(std::uint64_t size) {
    const SegmentOnDisk on_disk{
        .link = Link(), .number = kSegment, .size = size, .allocated = size};
    Result<std::vector<IndexedRecord>> records = ScanSegment(*directory_, on_disk);
    Require(records.has_value());
    return *std::move(records);
  }
  int fd() const { return fd_.get(); }

 private:
  fakes::TempDir dir_;
  std::unique_ptr<CacheDirectory> directory_;
  FileDescriptor fd_;
};

std::uint32_t LengthIn(std::string_view header) {
  std::uint32_t length = 0;
  std::memcpy(&length, header.data() + 72, sizeof length);  // both sides are little endian
  return length;
}

/// The piece with a header that is right for this place, as far as its bytes reach.
std::string Repaired(std::string_view piece, std::uint64_t position, bool cells_too) {
  if (piece.size() < RecordHeaderBytes(1)) return std::string(piece);
  const std::uint32_t length = std::clamp<std::uint32_t>(LengthIn(piece), 1, kMaxBlockBytes);
  const std::uint32_t size = RecordHeaderBytes(length);
  RecordHeader header{.cluster = Uuid::Parse(kCluster),
                      .link = Link(),
                      .block = {{1, 2}, 0, length},
                      .segment = kSegment,
                      .position = position};
  std::memcpy(&header.block.version, piece.data() + 48, 16);
  std::memcpy(&header.block.offset, piece.data() + 64, 8);
  header.checksums.assign(header.block.cells(), 0);
  const std::string_view data =
      piece.size() > size ? piece.substr(size, length) : std::string_view();
  for (std::size_t cell = 0; cells_too && cell * kCellBytes < data.size(); ++cell) {
    const std::string_view bytes = data.substr(cell * kCellBytes, kCellBytes);
    header.checksums[cell] =
        CellChecksum(reinterpret_cast<const std::byte*>(bytes.data()), bytes.size());
  }
  const std::vector<std::byte> encoded = EncodeRecordHeader(header, Seed());
  std::string repaired(reinterpret_cast<const char*>(encoded.data()), encoded.size());
  return repaired.append(data);
}

/// Answers the bytes of the segment, whose file is the same.
std::string WriteSegment(OneSegment& segment, std::string_view input) {
  segment.Clear();
  std::string image;
  while (input.size() >= 3) {
    const auto flags = static_cast<std::uint8_t>(input[0]);
    const std::size_t length =
        static_cast<std::uint8_t>(input[1]) | std::size_t{static_cast<std::uint8_t>(input[2])} << 8;
    const std::string_view piece = input.substr(3, length);
    input.remove_prefix(3 + piece.size());
    const std::uint64_t pages =
        (image.size() + kRecordAlignment - 1) / kRecordAlignment + ((flags & 1) ? flags >> 4 : 0);
    image.resize(pages * kRecordAlignment);
    const std::string bytes =
        (flags & 2) ? Repaired(piece, image.size(), (flags & 4) != 0) : std::string(piece);
    segment.Write(image.size(), bytes);
    image += bytes;
  }
  return image;
}

void ReadRecord(const OneSegment& segment, const IndexedRecord& record, std::string_view image) {
  const std::uint64_t position = std::uint64_t{record.unit} * kRecordAlignment;
  RecordReader reader({.cluster = Uuid::Parse(kCluster),
                       .link = Link(),
                       .block = record.block,
                       .segment = kSegment,
                       .position = position,
                       .seed = Seed()},
                      {0, record.block.length});
  const RecordReader::Outcome outcome = reader.Read(segment.fd(), false);
  if (outcome != RecordReader::Outcome::kOk) {
    Require(outcome == RecordReader::Outcome::kMismatch);
    return;
  }
  const Cells cells = reader.Take();
  const std::string_view right =
      image.substr(position + RecordHeaderBytes(record.block.length), record.block.length);
  Require(cells.Verify() && cells.bytes.bytes.size() == right.size());
  Require(std::memcmp(cells.bytes.bytes.data(), right.data(), right.size()) == 0);
}

std::string PieceOf(unsigned flags, std::uint32_t length, std::size_t data) {
  std::string header(RecordHeaderBytes(length), '\x11');
  std::memcpy(header.data() + 72, &length, sizeof length);
  const std::string bytes = header + std::string(data, 'd');
  std::string piece(1, static_cast<char>(flags));
  piece.push_back(static_cast<char>(bytes.size()));
  piece.push_back(static_cast<char>(bytes.size() >> 8));
  return piece + bytes;
}

}  // namespace

// Whatever a segment holds: what recovery finds lies inside, in order and apart from each other,
// and is read back as it stands there or not at all.
void RunSegmentInput(std::string_view input) {
  static OneSegment segment;
  const std::string image = WriteSegment(segment, input);
  std::uint64_t end = 0;
  for (const IndexedRecord& record : segment.Scan(image.size())) {
    const std::uint64_t position = std::uint64_t{record.unit} * kRecordAlignment;
    Require(record.segment == kSegment && position >= end);
    Require(record.block.length > 0 && record.block.length <= kMaxBlockBytes);
    end = position + RecordHeaderBytes(record.block.length) + record.block.length;
    Require(end <= image.size());
    ReadRecord(segment, record, image);
  }
}

Seeds SegmentSeeds() {
  const std::string whole = PieceOf(6, 1000, 1000);
  return {{"records", whole + PieceOf(6, 1, 1) + PieceOf(6, 5000, 5000)},
          {"holes", whole + PieceOf(0x31, 10, 10) + PieceOf(0x27, 10, 10)},
          {"torn", whole + PieceOf(6, 5000, 100)},
          {"wrong-cells", PieceOf(2, 1000, 1000) + whole},
          {"garbage", PieceOf(0, 1000, 1000) + whole},
          {"too-long", PieceOf(6, 16U << 20, 3000) + whole}};
}

}  // namespace forebay
