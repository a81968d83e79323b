#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>

// Every bound that more than one part relies on, in one place, with its source.
namespace forebay {

// --- Data model (DESIGN section 4). Part of stored formats: changing one needs a new format
// version.
inline constexpr std::uint64_t kCellBytes = 64ULL * 1024;  ///< Unit of checksums and verification.
inline constexpr std::uint64_t kDefaultBlockBytes = 4ULL
                                                    << 20;  ///< Unit of caching and of S3 GETs.
inline constexpr std::uint64_t kMinBlockBytes =
    256ULL * 1024;  ///< `link --block-size` lower bound.
inline constexpr std::uint64_t kMaxBlockBytes =
    16ULL << 20;  ///< Upper bound: 256 cells, one record header.
/// What a row of a snapshot holds. S3's own limit is 50 TB; a larger object is hidden, and says so.
inline constexpr std::uint64_t kMaxObjectBytes = (1ULL << 44) - 1;
inline constexpr std::uint32_t kPartitions = 65536;  ///< Fixed at `init` (DESIGN section 4, Ring).
inline constexpr std::size_t kMaxKeyBytes = 1024;    ///< S3's own limit for one key.
inline constexpr std::size_t kMaxNameBytes = 255;    ///< POSIX NAME_MAX: a path component.
inline constexpr std::size_t kMaxJobIdBytes = 255;   ///< A job's id; longer ones are refused.

// --- Wire (DESIGN section 10).
inline constexpr std::uint32_t kMaxControlFrameBytes = 1 << 20;           ///< Header of any frame.
inline constexpr std::uint32_t kMaxPayloadBytes = (4 << 20) + 64 * 1024;  ///< Payload of any frame.
/// What one read may ask for of a block, in whole cells: a larger block comes in parts.
inline constexpr std::uint32_t kBlockPartBytes = kMaxPayloadBytes / kCellBytes * kCellBytes;
inline constexpr std::uint32_t kMaxHandshakeBytes = 4096;  ///< Message before both ends are proved.
inline constexpr int kMaxRepeatedFields = 4096;            ///< Entries of a repeated field.
inline constexpr int kMaxMessageNesting = 16;              ///< Nested protobuf messages.
inline constexpr std::size_t kMaxConnections = 4096;       ///< Per listening program …
/// … and of coordinators and nodes, where their descriptors allow it: 10,000 mounts and 1,000 nodes
/// (DESIGN section 11), and half as many while they come anew. A mount has at a node one for each
/// of its threads that has read from it lately.
inline constexpr std::size_t kMostConnections = 16384;
inline constexpr std::size_t kMemberShares = 4;  ///< One member has one of so many shares of these.
inline constexpr std::size_t kMaxHalfOpenPerAddress = 64;  ///< Handshakes under way.
inline constexpr std::size_t kMaxInFlightBytesPerConnection = 16
                                                              << 20;  ///< Replies not yet written.
inline constexpr std::size_t kMaxCallsPerConnection = 4096;  ///< In work; a mount has some hundred.
/// Of requests that wait for their answers; of a peer without a certificate, and per program.
inline constexpr std::size_t kMaxRequestBytesPerConnection = 16 << 20;
inline constexpr std::size_t kMaxRequestBytesOfStranger = 64 << 10;
inline constexpr std::size_t kMaxRequestBytes = std::size_t{256} << 20;
/// Of messages of answers that their peers have not taken, per program; one member has half.
inline constexpr std::size_t kMaxAnswerBytes = std::size_t{256} << 20;
inline constexpr std::chrono::seconds kHandshakeTimeout{5};
inline constexpr std::chrono::seconds kFirstFrameTimeout{5};  ///< After the handshake.
/// A peer whose certificate has ended, and that was told so, closes its connection in this time.
inline constexpr std::chrono::seconds kEndTimeout{10};
inline constexpr std::chrono::seconds kIdleTimeout{60};
/// A client closes a connection over which nothing was asked for so long, and opens it again.
inline constexpr std::chrono::seconds kUnusedTimeout{60};
inline constexpr std::chrono::seconds kPingInterval{10};

// --- Time (DESIGN section 5, FAULTS.md).
inline constexpr std::chrono::milliseconds kPendingAfter{
    500};  ///< A node says `pending` when it has no answer yet…
inline constexpr std::chrono::seconds kPendingEvery{
    1};                                             ///< …and repeats it while the work is alive.
inline constexpr std::chrono::seconds kSilence{3};  ///< Tn: a silent peer is passed over.
/// So long a reader, and a node that fills for one, waits for a word of the node that it asked.
/// With all that may follow until the bytes are there less than kSilence (docs/adr/0019).
inline constexpr std::chrono::seconds kPeerPatience{2};
inline constexpr std::chrono::seconds kS3Patience{
    300};  ///< Ts: S3 fails that long before a reader gets EIO.
/// S3 is not just slow where a request of a node has waited so long, tried anew each 5 s.
inline constexpr std::uint64_t kUnansweredMs = 10'000;
inline constexpr std::chrono::seconds kHeartbeatEvery{1};

}  // namespace forebay
