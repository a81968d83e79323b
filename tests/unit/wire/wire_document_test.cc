// Builds a frame from docs/WIRE.md alone.
#include <gtest/gtest.h>
#include <xxhash.h>

#include "common/wire/frame.h"

namespace forebay {
namespace {

void Append(std::string& bytes, std::uint64_t value, int count) {
  for (int i = 0; i < count; ++i) bytes.push_back(static_cast<char>(value >> (8 * i)));
}

TEST(WireDocument, AFrameBuiltFromItIsRead) {
  const std::string message = "any bytes";
  std::string bytes = "FBY1";
  Append(bytes, 1, 1);     // kind: request
  Append(bytes, 0, 1);     // code
  Append(bytes, 2, 2);     // method
  Append(bytes, 99, 8);    // request id
  Append(bytes, 5, 8);     // ring epoch
  Append(bytes, 1500, 4);  // deadline
  Append(bytes, message.size(), 4);
  Append(bytes, 0, 4);  // payload bytes: a request has none
  Append(bytes, 0, 4);  // files
  const std::string covered = bytes + message;
  Append(bytes, XXH3_64bits(covered.data(), covered.size()), 8);
  ASSERT_EQ(bytes.size(), 48u);

  std::array<std::byte, kFrameHeaderBytes> fixed;
  std::memcpy(fixed.data(), bytes.data(), fixed.size());
  const Result<FrameHeader> header = DecodeFrameHeader(fixed);
  ASSERT_TRUE(header.has_value()) << header.error().message;
  EXPECT_TRUE(FrameChecksumMatches(fixed, message));
  EXPECT_EQ(header->kind, FrameKind::kRequest);
  EXPECT_EQ(header->method, Method::kPrefetchBlock);
  EXPECT_EQ(header->request_id, 99u);
  EXPECT_EQ(header->ring_epoch, 5u);
  EXPECT_EQ(header->deadline_ms, 1500u);
  EXPECT_EQ(header->payload_bytes, 0u);
}

}  // namespace
}  // namespace forebay
