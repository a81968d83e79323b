// Builds a frame from docs/WIRE.md alone.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <xxhash.h>

#include <fstream>
#include <string>
#include <vector>

#include "common/model/limits.h"
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

/// The document with one space wherever it has any.
std::string Document() {
  std::ifstream file(std::string(FOREBAY_SOURCE_DIR) + "/docs/WIRE.md");
  std::string text;
  for (std::string word; file >> word;) text += word + " ";
  return text;
}

std::string InKib(std::size_t bytes) { return fmt::format("{} KiB", bytes >> 10); }
std::string InMib(std::size_t bytes) { return fmt::format("{} MiB", bytes >> 20); }

// What a peer may make us spend (DESIGN section 10) is what the page says.
TEST(WireDocument, ItsLimitsAreThoseOfTheCode) {
  const std::string document = Document();
  const std::vector<std::string> sentences = {
      fmt::format("a message of a request or reply {}, of a handshake {},",
                  InMib(kMaxControlFrameBytes), InKib(kMaxHandshakeBytes)),
      fmt::format("a payload {} + {}, and only in replies", InMib(kMaxPayloadBytes),
                  InKib(kMaxPayloadBytes % (1 << 20))),
      fmt::format("nest deeper than {}, in which a field comes more than {} times",
                  kMaxMessageNesting, kMaxRepeatedFields),
      fmt::format("must end within {} s, and the first request must come within {} s of it",
                  kHandshakeTimeout.count(), kFirstFrameTimeout.count()),
      fmt::format("At most {} handshakes may be under way from one address",
                  kMaxHalfOpenPerAddress),
      fmt::format("holds at most {} connections, those whose handshake is under way included, a "
                  "coordinator or a node {} where",
                  kMaxConnections, kMostConnections),
      fmt::format("a member one in {} of them", kMemberShares),
      fmt::format("has not taken {} of its answers", InMib(kMaxInFlightBytesPerConnection)),
      fmt::format("{} of a connection and {} of their messages ({} from a peer without a "
                  "certificate), and {} of a program",
                  kMaxCallsPerConnection, InMib(kMaxRequestBytesPerConnection),
                  InKib(kMaxRequestBytesOfStranger), InMib(kMaxRequestBytes)),
      fmt::format("{} of a program for messages of answers that their peers have not taken",
                  InMib(kMaxAnswerBytes)),
      fmt::format("A client pings after {} s in which it sent nothing; either end closes after {} "
                  "s in which nothing came.",
                  kPingInterval.count(), kIdleTimeout.count()),
      fmt::format("A client closes a connection over which it has asked nothing for {} s",
                  kUnusedTimeout.count()),
      fmt::format("no answer after {} ms sends `pending`", kPendingAfter.count()),
  };
  for (const std::string& sentence : sentences)
    EXPECT_NE(document.find(sentence), std::string::npos) << "docs/WIRE.md lacks: " << sentence;
}

}  // namespace
}  // namespace forebay
