#include "common/wire/frame.h"

#define XXH_STATIC_LINKING_ONLY  // the state on the stack
#include <xxhash.h>

#include <bit>
#include <cstring>

namespace forebay {
namespace {

static_assert(std::endian::native == std::endian::little,
              "the codec below copies little-endian integers");

constexpr std::size_t kChecksumOffset = 40;

template <typename Integer>
void Put(std::array<std::byte, kFrameHeaderBytes>& bytes, std::size_t at, Integer value) {
  std::memcpy(bytes.data() + at, &value, sizeof value);
}

template <typename Integer>
Integer Take(const std::array<std::byte, kFrameHeaderBytes>& bytes, std::size_t at) {
  Integer value;
  std::memcpy(&value, bytes.data() + at, sizeof value);
  return value;
}

std::uint64_t Checksum(const std::array<std::byte, kFrameHeaderBytes>& bytes,
                       std::string_view message) {
  XXH3_state_t state;
  XXH3_INITSTATE(&state);
  XXH3_64bits_reset(&state);
  XXH3_64bits_update(&state, bytes.data(), kChecksumOffset);
  XXH3_64bits_update(&state, message.data(), message.size());
  return XXH3_64bits_digest(&state);
}

// The most that a message of this kind may take, or nothing for a kind that does not exist.
Result<std::uint32_t> MessageLimit(FrameKind kind) {
  switch (kind) {
    case FrameKind::kRequest:
    case FrameKind::kReply:
      return kMaxControlFrameBytes;
    case FrameKind::kHandshake:
      return kMaxHandshakeBytes;
    case FrameKind::kPending:
    case FrameKind::kCancel:
    case FrameKind::kPing:
    case FrameKind::kPong:
      return 0;
  }
  return Fail(Code::kCorrupt, "the frame is of an unknown kind");
}

}  // namespace

std::array<std::byte, kFrameHeaderBytes> EncodeFrameHeader(const FrameHeader& header,
                                                           std::string_view message) {
  std::array<std::byte, kFrameHeaderBytes> bytes{};
  Put<std::uint32_t>(bytes, 0, kFrameMagic);
  Put<std::uint8_t>(bytes, 4, static_cast<std::uint8_t>(header.kind));
  Put<std::uint8_t>(bytes, 5, header.code);
  Put<std::uint16_t>(bytes, 6, static_cast<std::uint16_t>(header.method));
  Put<std::uint64_t>(bytes, 8, header.request_id);
  Put<std::uint64_t>(bytes, 16, header.ring_epoch);
  Put<std::uint32_t>(bytes, 24, header.deadline_ms);
  Put<std::uint32_t>(bytes, 28, static_cast<std::uint32_t>(message.size()));
  Put<std::uint32_t>(bytes, 32, header.payload_bytes);
  Put<std::uint32_t>(bytes, 36, header.files);
  Put<std::uint64_t>(bytes, kChecksumOffset, Checksum(bytes, message));
  return bytes;
}

Result<FrameHeader> DecodeFrameHeader(const std::array<std::byte, kFrameHeaderBytes>& bytes) {
  if (Take<std::uint32_t>(bytes, 0) != kFrameMagic) {
    return Fail(Code::kCorrupt, "the frame does not begin with FBY1");
  }
  FrameHeader header;
  header.kind = static_cast<FrameKind>(Take<std::uint8_t>(bytes, 4));
  header.code = Take<std::uint8_t>(bytes, 5);
  header.method = static_cast<Method>(Take<std::uint16_t>(bytes, 6));
  header.request_id = Take<std::uint64_t>(bytes, 8);
  header.ring_epoch = Take<std::uint64_t>(bytes, 16);
  header.deadline_ms = Take<std::uint32_t>(bytes, 24);
  header.message_bytes = Take<std::uint32_t>(bytes, 28);
  header.payload_bytes = Take<std::uint32_t>(bytes, 32);
  header.files = Take<std::uint32_t>(bytes, 36);
  if (header.files > (header.kind == FrameKind::kReply ? 1U : 0U)) {
    return Fail(Code::kCorrupt, "the frame brings files that it must not bring");
  }
  Result<std::uint32_t> limit = MessageLimit(header.kind);
  if (!limit) return Fail(limit.error());
  if (header.message_bytes > *limit) return Fail(Code::kCorrupt, "the frame's message is too long");
  if (header.payload_bytes > (header.kind == FrameKind::kReply ? kMaxPayloadBytes : 0)) {
    return Fail(Code::kCorrupt, "the frame's payload is too long");
  }
  return header;
}

bool FrameChecksumMatches(const std::array<std::byte, kFrameHeaderBytes>& bytes,
                          std::string_view message) {
  return Take<std::uint64_t>(bytes, kChecksumOffset) == Checksum(bytes, message);
}

}  // namespace forebay
