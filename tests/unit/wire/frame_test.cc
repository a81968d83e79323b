#include "common/wire/frame.h"

#include <gtest/gtest.h>

#include "common/wire/status_map.h"

namespace forebay {
namespace {

using FixedBytes = std::array<std::byte, kFrameHeaderBytes>;

FrameHeader Sample() {
  FrameHeader header;
  header.kind = FrameKind::kReply;
  header.code = 3;
  header.method = Method::kReadBlock;
  header.request_id = 0x0123456789ABCDEF;
  header.ring_epoch = 77;
  header.deadline_ms = 30'000;
  header.payload_bytes = 65'536;
  return header;
}

TEST(Frame, RoundTripsEveryField) {
  const std::string message = "a message";
  const FixedBytes bytes = EncodeFrameHeader(Sample(), message);
  const Result<FrameHeader> header = DecodeFrameHeader(bytes);
  ASSERT_TRUE(header.has_value()) << header.error().message;
  EXPECT_EQ(header->kind, FrameKind::kReply);
  EXPECT_EQ(header->code, 3);
  EXPECT_EQ(header->method, Method::kReadBlock);
  EXPECT_EQ(header->request_id, 0x0123456789ABCDEFu);
  EXPECT_EQ(header->ring_epoch, 77u);
  EXPECT_EQ(header->deadline_ms, 30'000u);
  EXPECT_EQ(header->message_bytes, message.size());
  EXPECT_EQ(header->payload_bytes, 65'536u);
  EXPECT_TRUE(FrameChecksumMatches(bytes, message));
}

TEST(Frame, EveryFlippedBitIsNoticed) {
  const std::string message = "forty-two bytes of message, more or less..";
  const FixedBytes bytes = EncodeFrameHeader(Sample(), message);
  for (std::size_t bit = 0; bit < 8 * (kFrameHeaderBytes + message.size()); ++bit) {
    FixedBytes flipped = bytes;
    std::string text = message;
    const auto mask = static_cast<unsigned char>(1U << (bit % 8));
    if (bit / 8 < kFrameHeaderBytes) {
      flipped[bit / 8] ^= static_cast<std::byte>(mask);
    } else {
      char& byte = text[bit / 8 - kFrameHeaderBytes];
      byte = static_cast<char>(static_cast<unsigned char>(byte) ^ mask);
    }
    EXPECT_FALSE(DecodeFrameHeader(flipped) && FrameChecksumMatches(flipped, text))
        << "bit " << bit;
  }
}

TEST(Frame, AFileComesWithAReplyAlone) {
  for (const FrameKind kind : {FrameKind::kRequest, FrameKind::kReply, FrameKind::kPending,
                               FrameKind::kCancel, FrameKind::kPing, FrameKind::kPong}) {
    for (const std::uint32_t files : {0U, 1U, 2U}) {
      FrameHeader header;
      header.kind = kind;
      header.files = files;
      const Result<FrameHeader> got = DecodeFrameHeader(EncodeFrameHeader(header, ""));
      const bool fits = files == 0 || (files == 1 && kind == FrameKind::kReply);
      ASSERT_EQ(got.has_value(), fits) << static_cast<int>(kind) << " " << files;
      if (got) EXPECT_EQ(got->files, files);
    }
  }
}

TEST(Frame, LengthsAreBoundedBeforeAnythingIsAllocated) {
  const auto decodes = [](FrameKind kind, std::size_t message, std::uint32_t payload) {
    FrameHeader header;
    header.kind = kind;
    header.payload_bytes = payload;
    return DecodeFrameHeader(EncodeFrameHeader(header, std::string(message, 'x'))).has_value();
  };
  EXPECT_TRUE(decodes(FrameKind::kRequest, kMaxControlFrameBytes, 0));
  EXPECT_FALSE(decodes(FrameKind::kRequest, 0, 1));
  EXPECT_TRUE(decodes(FrameKind::kReply, kMaxControlFrameBytes, kMaxPayloadBytes));
  EXPECT_FALSE(decodes(FrameKind::kRequest, kMaxControlFrameBytes + 1, 0));
  EXPECT_FALSE(decodes(FrameKind::kReply, 0, kMaxPayloadBytes + 1));
  EXPECT_FALSE(decodes(FrameKind::kReply, 0, 1U << 31));
  EXPECT_TRUE(decodes(FrameKind::kHandshake, 4096, 0));
  EXPECT_FALSE(decodes(FrameKind::kHandshake, 4097, 0));
  for (const FrameKind kind :
       {FrameKind::kPing, FrameKind::kPong, FrameKind::kCancel, FrameKind::kPending}) {
    EXPECT_TRUE(decodes(kind, 0, 0));
    EXPECT_FALSE(decodes(kind, 1, 0));
    EXPECT_FALSE(decodes(kind, 0, 1));
  }
  EXPECT_FALSE(decodes(static_cast<FrameKind>(0), 0, 0));
  EXPECT_FALSE(decodes(static_cast<FrameKind>(8), 0, 0));
}

TEST(StatusMap, EveryCodeComesBackAndStrangersAreInternal) {
  for (int code = static_cast<int>(Code::kNotFound); code <= static_cast<int>(Code::kInternal);
       ++code) {
    EXPECT_EQ(CodeOfWire(WireCodeOf(static_cast<Code>(code))), static_cast<Code>(code));
    EXPECT_NE(WireCodeOf(static_cast<Code>(code)), 0);
  }
  for (const int wire : {0, 10, 255})
    EXPECT_EQ(CodeOfWire(static_cast<std::uint8_t>(wire)), Code::kInternal);
}

}  // namespace
}  // namespace forebay
