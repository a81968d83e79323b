#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <fstream>
#include <memory>
#include <span>

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

/// Which of what the flags of a piece ask for: see fuzz_targets.h.
bool HoleBefore(unsigned flags) { return (flags & 1) != 0; }
bool RightHeader(unsigned flags) { return (flags & 2) != 0; }
bool RightCells(unsigned flags) { return (flags & 4) != 0; }
bool OfElsewhere(unsigned flags) { return (flags & 8) != 0; }
bool RecordInside(unsigned flags) { return !HoleBefore(flags) && (flags & 0x80) != 0; }

void Misplace(RecordHeader& header, unsigned which) {
  switch (which % 4) {
    case 0:
      header.position += kRecordAlignment;
      break;
    case 1:
      ++header.segment;
      break;
    case 2:
      header.link.bytes[0] ^= 1;
      break;
    default:
      header.cluster.bytes[0] ^= 1;
  }
}

std::string TextOf(const std::vector<std::byte>& bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

/// A whole record of one byte that is right for this place.
std::string OneByte(std::uint64_t position) {
  const char byte = 'i';
  const RecordHeader header{.cluster = Uuid::Parse(kCluster),
                            .link = Link(),
                            .block = {{3, 4}, 0, 1},
                            .segment = kSegment,
                            .position = position,
                            .checksums = {CellChecksum(&byte, 1)}};
  return TextOf(EncodeRecordHeader(header, Seed())) + byte;
}

/// The piece with a header that is right for this place, as far as its bytes reach.
std::string Repaired(std::string_view piece, std::uint64_t position, unsigned flags) {
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
  if (OfElsewhere(flags)) Misplace(header, flags >> 4);
  std::string data(piece.size() > size ? piece.substr(size, length) : std::string_view());
  const std::string inside = OneByte(position + kRecordAlignment);
  if (RecordInside(flags) && size + data.size() >= kRecordAlignment + inside.size())
    data.replace(kRecordAlignment - size, inside.size(), inside);
  for (std::size_t cell = 0; RightCells(flags) && cell * kCellBytes < data.size(); ++cell) {
    const std::string_view bytes = std::string_view(data).substr(cell * kCellBytes, kCellBytes);
    header.checksums[cell] =
        CellChecksum(reinterpret_cast<const std::byte*>(bytes.data()), bytes.size());
  }
  return TextOf(EncodeRecordHeader(header, Seed())) + data;
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
    const std::uint64_t pages = (image.size() + kRecordAlignment - 1) / kRecordAlignment +
                                (HoleBefore(flags) ? flags >> 4 : 0);
    image.resize(pages * kRecordAlignment);
    const std::string bytes =
        RightHeader(flags) ? Repaired(piece, image.size(), flags) : std::string(piece);
    segment.Write(image.size(), bytes);
    image += bytes;
  }
  return image;
}

ExpectedRecord Expected(const IndexedRecord& record) {
  return {.cluster = Uuid::Parse(kCluster),
          .link = Link(),
          .block = record.block,
          .segment = kSegment,
          .position = std::uint64_t{record.unit} * kRecordAlignment,
          .seed = Seed()};
}

/// What is there is not what is asked for, be it by one field.
void ReadOthers(const OneSegment& segment, const IndexedRecord& record) {
  std::array<ExpectedRecord, 7> others;
  others.fill(Expected(record));
  others[0].cluster.bytes[15] ^= 1;
  others[1].link.bytes[15] ^= 1;
  others[2].block.offset ^= 1;
  others[3].block.version.low ^= 1;
  others[4].segment ^= 1;
  others[5].seed ^= 1;
  others[6].block.length ^= 1;
  for (const ExpectedRecord& other : others) {
    if (other.block.length == 0 || other.block.length > kMaxBlockBytes) continue;
    RecordReader reader(other, {0, 1});
    Require(reader.Read(segment.fd(), false) == RecordReader::Outcome::kMismatch);
  }
}

/// A whole record that says another place is none.
void ReadMoved(OneSegment& segment, const IndexedRecord& record, std::string_view image) {
  const ExpectedRecord expected = Expected(record);
  const std::uint64_t bytes = RecordHeaderBytes(record.block.length) + record.block.length;
  const std::uint64_t end =
      (image.size() + kRecordAlignment - 1) / kRecordAlignment * kRecordAlignment;
  segment.Write(end, image.substr(expected.position, bytes));
  ExpectedRecord moved = expected;
  moved.position = end;
  RecordReader reader(moved, {0, record.block.length});
  Require(reader.Read(segment.fd(), false) == RecordReader::Outcome::kMismatch);
}

/// The scan believed it: what the document says about a record of this place holds.
void CheckHeader(const IndexedRecord& record, std::string_view image) {
  const ExpectedRecord expected = Expected(record);
  const std::string_view bytes = image.substr(expected.position, kRecordAlignment);
  const Result<RecordHeader> header = DecodeRecordHeader(std::as_bytes(std::span(bytes)), Seed());
  Require(header && header->block == record.block && header->link == expected.link &&
          header->segment == kSegment && header->position == expected.position &&
          (header->cluster == expected.cluster || header->cluster.IsZero()));
}

void ReadRecord(const OneSegment& segment, const IndexedRecord& record, std::string_view image) {
  const std::uint64_t position = std::uint64_t{record.unit} * kRecordAlignment;
  RecordReader reader(Expected(record), {0, record.block.length});
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
  const std::vector<IndexedRecord> records = segment.Scan(image.size());
  for (const IndexedRecord& record : records) {
    const std::uint64_t position = std::uint64_t{record.unit} * kRecordAlignment;
    Require(record.segment == kSegment && position >= end);
    Require(record.block.length > 0 && record.block.length <= kMaxBlockBytes);
    end = position + RecordHeaderBytes(record.block.length) + record.block.length;
    Require(end <= image.size());
    CheckHeader(record, image);
    ReadRecord(segment, record, image);
  }
  if (records.empty()) return;
  ReadOthers(segment, records.back());
  ReadMoved(segment, records.back(), image);
}

Seeds SegmentSeeds() {
  const std::string whole = PieceOf(6, 1000, 1000);
  return {{"records", whole + PieceOf(6, 1, 1) + PieceOf(6, 5000, 5000)},
          {"holes", whole + PieceOf(0x31, 10, 10) + PieceOf(0x27, 10, 10)},
          {"torn", whole + PieceOf(6, 5000, 100)},
          {"wrong-cells", PieceOf(2, 1000, 1000) + whole},
          {"of-elsewhere", PieceOf(0x0E, 100, 100) + PieceOf(0x1E, 100, 100) +
                               PieceOf(0x2E, 100, 100) + PieceOf(0x3E, 100, 100) + whole},
          {"record-inside", PieceOf(0x86, 6000, 6000) + whole},
          {"garbage", PieceOf(0, 1000, 1000) + whole},
          {"too-long", PieceOf(6, 16U << 20, 3000) + whole}};
}

}  // namespace forebay
