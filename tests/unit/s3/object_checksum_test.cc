#include "common/s3/object_checksum.h"

#include <gtest/gtest.h>

#include <random>
#include <string>

#include "common/model/limits.h"

namespace forebay {
namespace {

using Kind = ObjectChecksum::Kind;

ByteView BytesOf(std::string_view text) {
  return {reinterpret_cast<const std::byte*>(text.data()), text.size()};
}

/// Bit by bit, from the polynomial as the standards write it: highest power first.
std::uint64_t Reference(CrcKind kind, std::string_view text) {
  const int width = kind == CrcKind::kCrc64Nvme ? 64 : 32;
  const std::uint64_t mask = width == 64 ? ~std::uint64_t{0} : 0xFFFFFFFF;
  const std::uint64_t polynomial = kind == CrcKind::kCrc32    ? 0x04C11DB7
                                   : kind == CrcKind::kCrc32c ? 0x1EDC6F41
                                                              : 0xAD93D23594C93659;
  std::uint64_t crc = mask;
  for (const char c : text) {
    for (int bit = 0; bit < 8; ++bit) {
      const bool in = ((static_cast<unsigned char>(c) >> bit) & 1) != 0;
      const bool top = ((crc >> (width - 1)) & 1) != 0;
      crc = (crc << 1) & mask;
      if (in != top) crc ^= polynomial;
    }
  }
  std::uint64_t reflected = 0;
  for (int bit = 0; bit < width; ++bit)
    if (((crc >> bit) & 1) != 0) reflected |= std::uint64_t{1} << (width - 1 - bit);
  return reflected ^ mask;
}

constexpr CrcKind kKinds[] = {CrcKind::kCrc32, CrcKind::kCrc32c, CrcKind::kCrc64Nvme};

TEST(Crc, GivesThePublishedCheckValues) {
  // Of "123456789", from the catalogue of parametrised CRC algorithms.
  const ByteView check = BytesOf("123456789");
  EXPECT_EQ(UpdateCrc(CrcKind::kCrc32, 0, check), 0xCBF43926);
  EXPECT_EQ(UpdateCrc(CrcKind::kCrc32c, 0, check), 0xE3069283);
  EXPECT_EQ(UpdateCrc(CrcKind::kCrc64Nvme, 0, check), 0xAE8B14860A799888);
  // RFC 3720, B.4: 32 bytes of zeros, of ones, rising.
  EXPECT_EQ(UpdateCrc(CrcKind::kCrc32c, 0, BytesOf(std::string(32, '\0'))), 0x8A9136AA);
  EXPECT_EQ(UpdateCrc(CrcKind::kCrc32c, 0, BytesOf(std::string(32, '\xFF'))), 0x62A8AB43);
  std::string rising;
  for (char c = 0; c < 32; ++c) rising.push_back(c);
  EXPECT_EQ(UpdateCrc(CrcKind::kCrc32c, 0, BytesOf(rising)), 0x46DD794E);
}

TEST(Crc, AgreesWithTheBitwiseDefinitionAtEveryLengthAndCut) {
  std::mt19937_64 random(7);
  std::string text(300, '\0');
  for (char& c : text) c = static_cast<char>(random());
  for (const CrcKind kind : kKinds) {
    for (std::size_t size = 0; size <= text.size(); ++size) {
      const std::string_view part = std::string_view(text).substr(0, size);
      const std::uint64_t whole = Reference(kind, part);
      ASSERT_EQ(UpdateCrc(kind, 0, BytesOf(part)), whole) << size;
      const std::size_t cut = size == 0 ? 0 : random() % size;
      const std::uint64_t first = UpdateCrc(kind, 0, BytesOf(part.substr(0, cut)));
      ASSERT_EQ(UpdateCrc(kind, first, BytesOf(part.substr(cut))), whole);
      const std::uint64_t second = UpdateCrc(kind, 0, BytesOf(part.substr(cut)));
      ASSERT_EQ(CombineCrc(kind, first, second, size - cut), whole) << size << " at " << cut;
    }
  }
}

TEST(Crc, BlocksOfGibibytesFoldAsOneStreamOfZeros) {
  for (const CrcKind kind : kKinds) {
    // 2^k zeros behind a text, by doubling.
    const std::uint64_t text = UpdateCrc(kind, 0, BytesOf("forebay"));
    std::uint64_t zeros = UpdateCrc(kind, 0, BytesOf(std::string(1, '\0')));
    std::uint64_t at_once = text;
    std::uint64_t bytes = 1;
    for (int k = 0; k < 44; ++k) {
      const std::uint64_t halves =
          CombineCrc(kind, CombineCrc(kind, text, zeros, bytes), zeros, bytes);
      zeros = CombineCrc(kind, zeros, zeros, bytes);
      bytes *= 2;
      at_once = CombineCrc(kind, text, zeros, bytes);
      ASSERT_EQ(at_once, halves) << k;
    }
    EXPECT_GT(bytes, kMaxObjectBytes);
  }
}

TEST(ObjectChecksum, IsReadAndWrittenAsS3WritesIt) {
  // Of "hello world", as the AWS CLI prints them.
  const std::vector<std::pair<Kind, std::string>> known = {
      {Kind::kCrc32, "DUoRhQ=="},
      {Kind::kCrc32c, "yZRlqg=="},
      {Kind::kSha1, "Kq5sNclPz7QV2+lfQIuc6R7oRu0="},
      {Kind::kSha256, "uU0nuZNNPgilLlLX2n2r+sSE7+N6U4DukIj3rOLvzek="}};
  for (const auto& [kind, text] : known) {
    const auto sum = BeginChecksum(kind);
    sum->Update(BytesOf("hello "));
    sum->Update(BytesOf("world"));
    const ObjectChecksum checksum = sum->Finish();
    EXPECT_EQ(ChecksumText(checksum), text);
    EXPECT_EQ(ParseChecksum(kind, text), checksum);
  }
}

TEST(ObjectChecksum, WhatIsNotOfTheWholeObjectIsNone) {
  EXPECT_FALSE(ParseChecksum(Kind::kCrc32c, "yZRlqg==-3")) << "composite, of three parts";
  EXPECT_FALSE(ParseChecksum(Kind::kCrc32c, "yZRlqg="));
  EXPECT_FALSE(ParseChecksum(Kind::kCrc32c, "yZRl!g=="));
  EXPECT_FALSE(ParseChecksum(Kind::kCrc32c, "yZRlqh=="));
  EXPECT_FALSE(ParseChecksum(Kind::kCrc64Nvme, "yZRlqg=="));
  EXPECT_FALSE(ParseChecksum(Kind::kSha256, ""));
  EXPECT_EQ(ChecksumOfHeader("x-amz-checksum-crc64nvme"), Kind::kCrc64Nvme);
  EXPECT_FALSE(ChecksumOfHeader("x-amz-checksum-type"));
  EXPECT_EQ(ChecksumName(Kind::kCrc64Nvme), "CRC64NVME");
}

}  // namespace
}  // namespace forebay
