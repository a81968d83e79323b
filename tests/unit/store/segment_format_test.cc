#include "cachenode/store/segment_format.h"

#include <gtest/gtest.h>

#include <random>

namespace forebay {
namespace {

constexpr std::uint64_t kSeed = 4711;

RecordHeader Sample(std::uint32_t length) {
  RecordHeader header;
  header.cluster = Uuid::Parse("11111111-2222-4333-8444-555555555555");
  header.link = Uuid::Parse("66666666-7777-4888-9999-aaaaaaaaaaaa");
  header.block = {{0x0123456789ABCDEF, 0xFEDCBA9876543210}, 12ULL << 20, length};
  header.segment = 42;
  header.position = 40960;
  for (std::uint32_t cell = 0; cell < header.block.cells(); ++cell) {
    header.checksums.push_back(0x9E3779B97F4A7C15ULL * (cell + 1));
  }
  return header;
}

TEST(SegmentFormat, HeaderOfEveryLengthIsReadBackAsWritten) {
  for (const std::uint64_t length : {std::uint64_t{1}, kCellBytes - 1, kCellBytes, kCellBytes + 1,
                                     kDefaultBlockBytes, kMaxBlockBytes}) {
    const RecordHeader header = Sample(static_cast<std::uint32_t>(length));
    const std::vector<std::byte> bytes = EncodeRecordHeader(header, kSeed);
    EXPECT_EQ(bytes.size(), RecordHeaderBytes(header.block.length));
    const Result<RecordHeader> read = DecodeRecordHeader(bytes, kSeed);
    ASSERT_TRUE(read.has_value()) << read.error().message;
    EXPECT_EQ(*read, header);
  }
}

TEST(SegmentFormat, SizesAreThoseOfTheDocument) {
  EXPECT_EQ(RecordHeaderBytes(1), 112U);
  EXPECT_EQ(RecordHeaderBytes(4 << 20), 616U);
  EXPECT_EQ(RecordDiskBytes(1), 4096U);
  EXPECT_EQ(RecordDiskBytes(4096 - 112), 4096U);
  EXPECT_EQ(RecordDiskBytes(4096 - 111), 8192U);
  EXPECT_EQ(RecordDiskBytes(4 << 20), (4U << 20) + 4096);
}

TEST(SegmentFormat, EverySingleFlippedBitIsNoticed) {
  std::vector<std::byte> bytes = EncodeRecordHeader(Sample(3 * kCellBytes + 17), kSeed);
  for (std::size_t bit = 0; bit < bytes.size() * 8; ++bit) {
    const auto mask = static_cast<std::byte>(1U << (bit % 8));
    bytes[bit / 8] ^= mask;
    const Result<RecordHeader> read = DecodeRecordHeader(bytes, kSeed);
    ASSERT_FALSE(read.has_value()) << "bit " << bit;
    EXPECT_EQ(read.error().code, Code::kCorrupt);
    bytes[bit / 8] ^= mask;
  }
  EXPECT_TRUE(DecodeRecordHeader(bytes, kSeed).has_value());
}

TEST(SegmentFormat, AHeaderCutShortAnywhereIsRefused) {
  const std::vector<std::byte> bytes = EncodeRecordHeader(Sample(kCellBytes * 2), kSeed);
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    ASSERT_FALSE(DecodeRecordHeader(ByteView(bytes).first(size), kSeed).has_value()) << size;
  }
}

TEST(SegmentFormat, RecordOfAnotherDirectoryIsRefused) {
  const Uuid ours = Uuid::Parse("11111111-2222-4333-8444-555555555555");
  const Uuid other = Uuid::Parse("11111111-2222-4333-8444-555555555556");
  const std::vector<std::byte> bytes = EncodeRecordHeader(Sample(100), RecordSeed(other));
  EXPECT_FALSE(DecodeRecordHeader(bytes, RecordSeed(ours)).has_value());
  EXPECT_TRUE(DecodeRecordHeader(bytes, RecordSeed(other)).has_value());
}

TEST(SegmentFormat, LengthsAreBoundedEvenWithAMatchingChecksum) {
  RecordHeader empty = Sample(1);
  empty.block.length = 0;
  empty.checksums.clear();
  std::vector<std::byte> bytes = EncodeRecordHeader(empty, kSeed);
  bytes.resize(4096);
  EXPECT_FALSE(DecodeRecordHeader(bytes, kSeed).has_value());

  const RecordHeader huge = Sample(static_cast<std::uint32_t>(kMaxBlockBytes + 1));
  EXPECT_FALSE(DecodeRecordHeader(EncodeRecordHeader(huge, kSeed), kSeed).has_value());
}

TEST(SegmentFormat, RandomBytesAreNoRecord) {
  const unsigned seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  std::vector<std::byte> bytes(4096);
  for (int round = 0; round < 2000; ++round) {
    for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
    if (round % 2 == 0) {
      const auto start = EncodeRecordHeader(Sample(kCellBytes), kSeed);
      std::copy_n(start.begin(), random() % (start.size() - 8), bytes.begin());
    }
    ASSERT_FALSE(DecodeRecordHeader(bytes, kSeed).has_value());
  }
}

}  // namespace
}  // namespace forebay
