#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "common/base/buffer.h"
#include "common/base/result.h"
#include "common/model/limits.h"

namespace forebay {

/// What every connection carries, in both directions (docs/WIRE.md):
///
///     48 bytes   FrameHeader, little endian
///     n bytes    message: one protobuf message, chosen by `method` and `kind`
///     m bytes    payload of a reply: block, snapshot or ring bytes, never inside a message
///
/// The checksum covers header and message; the payload is verified by whoever knows what it is
/// (cell checksums, digest).
enum class FrameKind : std::uint8_t {
  kRequest = 1,
  kReply = 2,    ///< Ends its request: code 0 = ok, else a Code and an ErrorDetail.
  kPending = 3,  ///< The request is alive and has no answer yet.
  kCancel = 4,   ///< The caller no longer waits for this request.
  kPing = 5,
  kPong = 6,
  kHandshake = 7,
};

enum class Method : std::uint16_t {
  kNone = 0,
  // Answered by cache nodes.
  kReadBlock = 1,
  kPrefetchBlock = 2,
  kCheckBlocks = 3,
  kEvictBlocks = 4,
  kFillBlocks = 5,
  kVerifyBlocks = 11,
  kPinBlocks = 12,
  kDescribeBlocks = 15,
  kOpenSegment = 16,
  kNoteReads = 17,
  kCopyBlocks = 22,
  // Answered by nodes and the coordinator.
  kGetRing = 20,
  // Answered by the coordinator: to nodes…
  kRegisterNode = 40,
  kHeartbeat = 41,
  // …to mounts…
  kGetLinks = 50,
  kReadSnapshot = 51,
  kReportJobs = 52,
  // …to all of them, and by those that do not lead…
  kGetLeader = 53,
  // …to the CLI.
  kDescribeJob = 90,
  kListMounts = 91,
  kLink = 60,
  kUnlink = 61,
  kGetTask = 62,
  kListTarget = 63,
  kCheckTarget = 64,
  kEvictTarget = 65,
  kStats = 66,
  kRefresh = 67,
  kExplain = 68,
  kListTasks = 100,
  kCancelTask = 101,
  kRetryTask = 102,
  kUploadNames = 103,
  kPreload = 104,
  kSetFillLimits = 70,
  kPin = 71,
  kUnpin = 72,
  kListPins = 73,
  kSetQuota = 74,
  kSetPriority = 75,
  kSetReplicas = 78,
  kChangeNode = 76,
  kBackup = 82,
  kRestore = 83,
  // …to machines that are no members yet, and to the CLI about them.
  kJoin = 110,
  kCreateToken = 111,
  kListTokens = 112,
  kRevokeToken = 113,
  kRenew = 114,
  kListMembers = 115,
  kRevokeMember = 116,
};

inline constexpr std::uint32_t kFrameMagic = 0x31594246;  ///< "FBY1"
inline constexpr std::size_t kFrameHeaderBytes = 48;
inline constexpr std::uint32_t kWireVersion = 1;

/// The fixed part of a frame.
struct FrameHeader {
  FrameKind kind = FrameKind::kRequest;
  std::uint8_t code = 0;  ///< Of a reply: 0 = ok, else forebay::Code.
  Method method = Method::kNone;
  std::uint64_t request_id = 0;
  std::uint64_t ring_epoch =
      0;  ///< The sender's. A receiver that sees a higher one than its own asks for the table.
  std::uint32_t deadline_ms = 0;  ///< Of a request: time the caller will wait, from now.
  std::uint32_t message_bytes = 0;
  std::uint32_t payload_bytes = 0;
  /// Descriptors that come with a reply's first byte, over a UNIX socket: 0 or 1.
  std::uint32_t files = 0;
};

/// The 48 bytes of `header`, with the checksum over itself and `message`.
std::array<std::byte, kFrameHeaderBytes> EncodeFrameHeader(const FrameHeader& header,
                                                           std::string_view message);

/// Checks magic, kind and lengths against limits.h before anybody allocates. kCorrupt: close the
/// connection.
Result<FrameHeader> DecodeFrameHeader(const std::array<std::byte, kFrameHeaderBytes>& bytes);

/// True when the checksum in `bytes` matches them and `message`.
bool FrameChecksumMatches(const std::array<std::byte, kFrameHeaderBytes>& bytes,
                          std::string_view message);

}  // namespace forebay
